// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sim drives the machines of internal/session through many orders of
// events, and holds after each of them what must be true whatever the order is.
//
// One seed decides everything in a schedule: how many clients, sessions and
// backends there are, what each of them says and when, how long that is under
// way, what breaks, what time it is. The machines know no clock and start no
// goroutine, so that all that waits in the product, the goroutine of a response,
// of a Handler, of a backend's stream, a timer, is a thread here, which runs
// from one thing that it waits for to the next. It makes the calls that the
// packages server and client make, in their order, because the rules of use are
// part of what the machines promise.
//
// There may be two replicas of the gateway, with one key and nothing else in common.
//
// What is true is said by a model with types of its own: for each stream what it
// was given and what must, may and must not come out of it, for each session who
// uses it, for each call what it was told. The rules have the numbers of the
// project's list of invariants:
//
//	I1-I3    a response completes its waiter once, whatever stream brings it, and
//	         every call and every request ends
//	I4, I5   ids are tokens; one that is in flight is refused
//	I7       JSON or a stream, from this exchange alone
//	I8-I10   a message comes out where it was put in, in order, the terminal last
//	I12-I14  one carrier, the newest; each position once; ids of events are nobody
//	         else's
//	I17, I18 sessions are known when they are complete, to their principal
//	I20, I21 what is in use stays, what is not goes, and all of it has a bound
//	I22      nothing of one session or principal is another's
//	I24-I26  a cancellation ends one request; an end comes once
//	I28      at the end nothing is left
//	I30      who waits is woken
//	I33, I34 after the last change comes a notice; nothing before it is time
//	I36, I37 one answer for a request, and for a question
//
// A schedule that breaks one is made smaller before it is shown.
package sim
