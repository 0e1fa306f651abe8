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
// # Bytes
//
// A message is read once, by [Parse], and is then its bytes and where in them its
// parts stand. What routes it, what policy judges and what is forwarded are the
// same bytes, so that nobody behind can read another message than was judged:
//
//   - unknown members, the texts of numbers and the order of keys survive;
//   - a change is an [Edit]: a splice that leaves all other bytes alone;
//   - what two readers might read differently is refused: a member that stands
//     twice where it is interpreted, a known name in another letter case, text
//     behind the end, invalid UTF-8, a result beside an error;
//   - params that are null are refused too: no revision of the schema has them,
//     and what a receiver makes of them differs;
//   - half a surrogate pair is forwarded where nobody here reads it (it is valid
//     JSON, and some tools return it), and refused in a method, an id, and the
//     names of members that are interpreted. In other strings that are
//     interpreted [Object.Text] reports that there is no text;
//   - what is below the interpreted levels is checked for syntax, depth and
//     number of members, and otherwise not judged.
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
