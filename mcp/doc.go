// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mcp is the vocabulary of the Model Context Protocol as Signalbox
// speaks it: messages as the bytes that arrived, ids as tokens, versions and
// eras, errors, and the two interfaces that everything else is built from,
// [Handler] and [Caller].
//
// A backend is a Handler. A gateway is a Handler made of Handlers. Package
// server shows any Handler to MCP clients; package client makes any MCP server
// a Handler:
//
//	client, any revision                          backend, any revision
//	        |                                               ^
//	   server: legacy edge | modern edge      client: legacy edge | modern edge
//	        |                                               ^
//	        +--- Handler.Serve(ctx, request, caller) -------+
//
// # The inside is modern
//
// Between the edges there are no sessions, no handshakes and no request ids.
// A [Request] carries all that its receiver may know of its sender, as revision
// 2026-07-28 has it, whatever the sender's revision was. Three translations
// follow, and they are made at the edges and nowhere else:
//
//   - initialize is server/discover;
//   - whatever reaches a client unasked (changed lists, updated resources) is
//     delivered by a Handler that serves subscriptions/listen, by calling
//     [Caller.Notify] until its context ends;
//   - cancellation is the context, and the one terminal of a request is what
//     Serve returns.
//
// # Words
//
//   - client, gateway, backend: who asks, Signalbox, an MCP server behind it.
//   - inbound, outbound: client to gateway, gateway to backend.
//   - legacy: the revisions with initialize and sessions, up to 2025-11-25.
//   - modern: 2026-07-28 and later, stateless.
//   - era: legacy or modern.
//   - ask: a request from the server side to the client: elicitation/create,
//     sampling/createMessage, roots/list.
//   - scope: how long a Handler may keep state for the sender of a request.
//   - terminal: the result or error that ends a request.
//
// The package imports the standard library only.
package mcp
