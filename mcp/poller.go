// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "time"

// Poller is what a [Caller] may be besides: one whose client can lose the
// connection that carries its request, and come back for the rest (2025-11-25,
// basic/transports, "Sending Messages to the Server").
type Poller interface {
	// Poll ends the connection that carries the request now, and has the client
	// come back after the time; not positive is a default. The request goes on, and
	// nothing that is said meanwhile is lost. Poll does not wait. It reports false,
	// and does nothing, where the client cannot come back, or is away already.
	Poll(retry time.Duration) bool
}

// Poll has the client of a caller come back after the time, if the caller is a [Poller].
func Poll(caller Caller, retry time.Duration) bool {
	p, ok := caller.(Poller)
	return ok && p.Poll(retry)
}
