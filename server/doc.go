// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server serves any [mcp.Handler] to MCP clients of every revision, over
// Streamable HTTP and stdio.
//
//	POST ---> checks ---> era? --- modern ---+
//	GET  ---> checks ---> legacy             +--> exchange --> Handler
//	line ---------------> era? --- legacy ---+
//
// The era is decided for each message separately. A modern request describes its client
// in full. A legacy request belongs to a session, which an initialize request opened. The
// Handler sees neither: it gets requests with a [mcp.Scope].
//
// A response body has one writer, the goroutine of net/http. The Handler runs on another
// goroutine, appends to the stream of the exchange, and blocks only while that stream is
// full. Whether a disconnect is a cancel, whether a response is JSON or an event stream,
// and the form of an error are decided here, by era, and nowhere else.
package server
