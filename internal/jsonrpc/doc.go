// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsonrpc makes and reads JSON-RPC messages of MCP as they are sent: requests,
// responses, batches, responses that are still arriving, and the headers that mirror
// arguments. Packages server and client share it. What a Handler needs is in package
// mcp.
//
// A request that is forwarded keeps its params, except for a few members, and gets an id
// of our own; see [EditedRequest]. A large result is forwarded while it arrives: the
// client makes an [Arriving] from the head of the response, the callers on the way
// register their changes on it, and the one at the end writes it to its client.
package jsonrpc
