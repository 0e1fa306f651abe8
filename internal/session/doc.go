// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session is the interlocking: the state of everything in which
// messages could meet each other at the wrong time, as machines that do no I/O,
// know no clock, start no goroutine and write no log. Time is an argument. What
// a machine is told and what it answers is explicit, so that a test can drive it
// through any order of events.
//
// Inbound, towards clients:
//
//	Table ---> Session ---> Exchange ---> Stream <--- Consumer
//	                 \                      ^
//	                  \---> standalone -----/
//
// A [Table] knows the legacy sessions of a server. A [Session] has exchanges and
// one standalone stream. An [Exchange] is one request while it is served. It has
// one [Stream], the logical sequence of messages to the client, and one
// terminal. A [Consumer] is what takes messages from a stream and puts them on a
// wire: the goroutine of an HTTP response, or the writer of a pipe. In the modern
// era there is no session, and the exchange stands alone.
//
// Four rules are in the types rather than in the code that uses them:
//
//   - Others append, the carrier pulls. A carrier that was superseded or has
//     detached gets nothing, so that nothing can be written to a response whose
//     handler has returned.
//   - What is appended is appended to an object that the sender holds, never to
//     one that is looked up; there is no queue with several readers.
//   - The terminal is the last thing on its stream, and there is one.
//   - The id of a request leaves the session before its terminal can leave the
//     process.
//
// A session and all in it is kept under one lock, as is an exchange without one.
// Each machine is changed by small methods under that lock, and the functions
// that end a Handler's context are called after it is released.
//
// Outbound, towards backends, [Calls] does the same for the requests of one
// connection.
package session
