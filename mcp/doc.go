// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mcp defines the vocabulary of the Model Context Protocol for Signalbox:
// messages as the bytes that arrived, request ids, protocol versions and eras, errors,
// and the two interfaces that everything else is built from, [Handler] and [Caller].
//
// A backend is a Handler. A gateway is a Handler made of Handlers. Package server
// serves any Handler to MCP clients; package client makes any MCP server a Handler:
//
//	client, any revision                          backend, any revision
//	        |                                               ^
//	   server: legacy edge | modern edge      client: legacy edge | modern edge
//	        |                                               ^
//	        +--- Handler.Serve(ctx, request, caller) -------+
//
// # The inside is modern
//
// Between the edges there are no sessions, no handshakes and no request ids. A
// [Request] carries everything its receiver may know about its sender, as in revision
// 2026-07-28, whatever the sender's revision. Three translations follow. They are made
// at the edges and nowhere else:
//
//   - initialize becomes server/discover;
//   - messages that reach a client outside a request (list changes, resource updates)
//     come from a Handler that serves subscriptions/listen by calling [Caller.Notify]
//     until its context ends;
//   - cancellation is the context, and the single terminal of a request is the return
//     value of Serve.
//
// # Bytes
//
// [Parse] reads a message once. The message is then its bytes and the positions of its
// parts in them. Routing, policy and forwarding use the same bytes, so that no later
// reader can read a different message from the one that was checked:
//
//   - unknown members, the text of numbers and the order of keys are preserved;
//   - a change is an [Edit], a splice that leaves all other bytes alone;
//   - text that two readers might read differently is rejected: a duplicate member
//     where members are interpreted, a known name in another letter case, text after
//     the end, invalid UTF-8, a result beside an error;
//   - null params are rejected too: no revision of the schema allows them, and
//     receivers treat them differently;
//   - an unpaired surrogate is forwarded where this package does not read it (it is
//     valid JSON, and some tools return it). It is rejected in a method, an id, and the
//     names of interpreted members. For other interpreted strings [Object.Text] reports
//     that there is no text;
//   - below the interpreted levels only syntax, depth and number of members are
//     checked.
//
// # Terms
//
//   - client, gateway, backend: the requester, Signalbox, an MCP server behind it.
//   - inbound, outbound: client to gateway, gateway to backend.
//   - legacy: the revisions with initialize and sessions, up to 2025-11-25.
//   - modern: 2026-07-28 and later, stateless.
//   - era: legacy or modern.
//   - ask: a request from the server side to the client: elicitation/create,
//     sampling/createMessage, roots/list.
//   - scope: how long a Handler may keep state for the sender of a request.
//   - terminal: the result or error that ends a request.
//
// The package imports the standard library, and internal/jsonscan, which does the same.
package mcp
