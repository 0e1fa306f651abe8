// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// Instant is an optional interface of a [Handler] that has some answers at hand, which
// whoever asks need not wait for.
type Instant interface {
	// ServeNow returns the result that Serve would return, where that takes neither
	// time nor a Caller. It reports false for all else, errors included, for which
	// Serve is to be asked. It is called concurrently.
	ServeNow(req *Request) (*Result, bool)
}
