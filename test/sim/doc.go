// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sim runs internal/session through many orders of events, and checks invariants
// after each of them.
//
// One seed determines a whole schedule: the number of clients, sessions and backends, what
// each of them sends and when, the delays, the faults and the time. Package session reads
// no clock and starts no goroutine. So everything that waits in the product (the goroutine
// of a response, of a Handler or of a backend's stream, a timer) is a thread here, which
// runs from one wait to the next. A thread makes the same calls as the packages server and
// client, in the same order, because the promises of package session depend on how it is
// called.
//
// There may be two replicas of the gateway, which share one key and nothing else.
//
// A model with types of its own knows what is true: for each stream, what was appended and
// what must, may and must not be delivered; for each session, its use; for each call, its
// messages. The rules have the numbers of the project's list of invariants:
//
//	I1-I3    a response completes its waiter once, whatever stream brings it, and
//	         every call and every request ends
//	I4, I5   ids are opaque; one that is in flight is refused
//	I7       JSON or a stream, from this exchange alone
//	I8-I10   a message is delivered where it was appended, in order, the terminal last
//	I12-I14  one consumer, the newest; each position once; event ids belong to one
//	         session
//	I17, I18 sessions are published when they are complete, to their principal
//	I20, I21 what is in use remains, what is not is removed, and all of it is limited
//	I22      nothing of one session or principal reaches another
//	I24-I26  a cancellation ends one request; an end happens once
//	I28      at the end nothing is left
//	I30      a waiter is woken
//	I33, I34 after the last change comes a notification; nothing before it is due
//	I36, I37 one answer for a request, and for a question
//
// A schedule that breaks a rule is shrunk before it is reported.
package sim
