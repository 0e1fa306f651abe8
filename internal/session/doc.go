// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session holds the protocol state of requests, streams and sessions: everything
// that depends on the order of concurrent events. Its types do no I/O, read no
// clock, start no goroutine and write no log. Time is an argument. All inputs and outputs
// are explicit, so that a test can drive the state through any order of events.
//
// Inbound, towards clients:
//
//	Table ---> Session ---> Exchange ---> Stream <--- Consumer
//	                 \                      ^
//	                  \---> standalone -----/
//
// A [Table] holds the legacy sessions of a server. A [Session] has exchanges and one
// standalone stream. An [Exchange] is one request in flight. It has one [Stream], the
// logical sequence of messages to the client, and one terminal. A [Consumer] takes messages
// from a stream and writes them to a connection: it belongs to the goroutine of an HTTP
// response or to the writer of a pipe. In the modern era there are no sessions, and
// exchanges are independent.
//
// The types enforce four rules:
//
//   - Senders append, the consumer pulls. A consumer that was superseded or has detached
//     gets nothing, so nothing is written to a response after its handler has returned.
//   - A sender appends to an object that it holds, never to one that it looks up. No queue
//     has several readers.
//   - The terminal is the last message on its stream, and there is only one.
//   - The id of a request is free again before its terminal can leave the process.
//
// One lock guards a session and everything in it, or one exchange without a session. Small
// methods change the state under that lock. Functions that end a Handler's context are
// called after it is released.
//
// Outbound, towards backends, [Calls] does the same for the requests of one connection.
package session
