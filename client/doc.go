// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client connects to an MCP server of any revision, over any transport, and
// presents it as an [mcp.Handler].
//
//	Serve > Client: which era? > protocol: one package per era > HTTP or a pipe
//
// A Client probes the server once for its era, with server/discover, and then uses the
// protocol of that era. Requests to a modern server are independent of each other. With
// a legacy server, the first request that needs a session opens one, which belongs to
// the scope of that request. A request without a scope borrows a session that no other
// request uses at the time.
//
// Over HTTP, a call to a modern server is one POST, and its response is in the body of
// that POST. Any other call is a session.Call, which accepts its response from any stream
// or pipe of the server. All that is done for a call ends with the call.
//
// Responses are returned unmodified. A program that displays tools must therefore omit
// those for which [mcp.ParamHeaders] returns an error, as a client of Streamable HTTP
// has to (2026-07-28, server/tools, "x-mcp-header"). For a complete program, see
// test/conformance/client.
package client
