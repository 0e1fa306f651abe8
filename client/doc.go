// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client makes any MCP server, of any revision and over any transport, a
// [mcp.Handler].
//
//	Serve > Client: which era? > protocol: one file per era > wire: HTTP or a pipe
//
// A Client asks the server once which era it speaks (server/discover first) and
// then speaks it. Towards a modern server each request stands alone. Towards a
// legacy server a session is opened by the first request that needs one and
// belongs to the scope of that request; a request without a scope borrows a
// session that nobody else uses meanwhile.
//
// Each request is one call of internal/session: a cell in which the answer
// arrives, whichever stream brings it. Whatever carries the call ends with it.
//
// What a server says is given as it came. So who shows a list of tools leaves out
// those whose annotations [mcp.ParamHeaders] refuses, as a client that speaks
// Streamable HTTP has to (2026-07-28, server/tools, "x-mcp-header"). A whole program
// is test/conformance/client.
package client
