// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// Instant is implemented by a [Handler] that can answer some requests at once.
type Instant interface {
	// ServeNow returns the result that Serve would return, if that needs neither time
	// nor a Caller. It reports false in all other cases, including errors; then Serve
	// must be called. It is called concurrently.
	ServeNow(req *Request) (*Result, bool)
}
