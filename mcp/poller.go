// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "time"

// Poller is implemented by a [Caller] with a client that can lose the connection that
// carries its request and come back for the rest (2025-11-25, basic/transports,
// "Sending Messages to the Server").
type Poller interface {
	// Poll closes the connection that carries the request now and asks the client to
	// come back after the given time; zero or less means a default. The request
	// continues, and messages sent meanwhile are not lost. Poll does not wait. It
	// reports false, and does nothing, if the client cannot come back or is away
	// already.
	Poll(retry time.Duration) bool
}

// Poll calls Poll of the caller if it is a [Poller].
func Poll(caller Caller, retry time.Duration) bool {
	p, ok := caller.(Poller)
	return ok && p.Poll(retry)
}
