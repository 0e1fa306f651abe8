// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server shows any [mcp.Handler] to MCP clients, of every revision, over
// Streamable HTTP and stdio.
//
//	POST ---> checks ---> era? --- modern ---+
//	GET  ---> checks ---> legacy             +--> exchange --> Handler
//	line ---------------> era? --- legacy ---+
//
// The era is decided for each message by itself. A modern request carries all
// that is to be known of its sender. A legacy request belongs to a session, which
// an initialize request opened; the Handler sees neither, but requests with a
// [mcp.Scope].
//
// A response body has one writer, the goroutine that net/http gave it. The
// Handler runs in another, appends to the exchange's stream, and never waits for
// more than room in it. Whether a disconnect is a cancel, whether an answer is
// JSON or an event stream, and what an error looks like is decided here, by era,
// and nowhere else.
package server
