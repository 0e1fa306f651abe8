// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"time"
)

// A Caller is the other end of one request while the request is being served. Its
// methods may be called concurrently. After the terminal of the request they return an
// error that wraps [ErrRequestEnded].
//
// A type that wraps a Caller embeds it and defines the methods that it changes. All
// others, and all of the extension, then work as without the wrapper. To change a method
// of the extension, it embeds the CallerExtension of the wrapped Caller too, and returns
// itself from Extension.
type Caller interface {
	// Notify sends a notification that belongs to the request: progress, a log message,
	// or, for subscriptions/listen, a change. Messages reach the caller in the order in
	// which Notify returned. Notify may wait for a slow caller until ctx ends. The
	// notification must not be changed afterwards.
	Notify(ctx context.Context, n *Notification) error

	// Start sends a request from the server side to the client: elicitation/create,
	// sampling/createMessage, roots/list. It sends before it returns, without waiting
	// for the answer, so requests reach the client in the order in which they were
	// started. The request must not be changed afterwards.
	//
	// The function that it returns waits for the answer, until ctx ends. It must be
	// called once, even if the answer is no longer needed: ctx is what ends the request.
	//
	// Start fails if the client cannot be asked: with an [*Error] if the client did not
	// declare the capability, with a [*Fault] if its era or its transport has no way to
	// carry the request (2025-11-25, basic/lifecycle, "Operation"; 2026-07-28,
	// basic/patterns/mrtr, "Server Requirements").
	Start(ctx context.Context, req *Request) (wait func() (*Result, error), err error)

	// Extension returns what else the Caller can do. It is never nil; [NoExtension] is
	// the one that can do nothing. It is valid as long as the Caller, and calling
	// Extension again is cheap.
	Extension() CallerExtension
}

// Ask sends a request to the client with Start and waits for the answer.
func Ask(ctx context.Context, caller Caller, req *Request) (*Result, error) {
	wait, err := caller.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return wait()
}

// CallerExtension is what a [Caller] can do besides sending messages. A Handler may use
// all of it with any Caller: what a Caller cannot do has no effect. The methods may be
// called concurrently, unless they say otherwise.
type CallerExtension interface {
	// Pulse reports that the request is being worked on, when there is no message for
	// the client that shows it. It does not wait.
	Pulse()

	// Pause stops the limits of the request's duration (true) while it waits for
	// something that has its own limit, such as the start of a server, or resumes them
	// (false). Each true is followed by one false. It does not wait.
	Pause(on bool)

	// Poll closes the connection that carries the request and asks the client to come
	// back for the rest after the given time; zero or less means a default (2025-11-25,
	// basic/transports, "Sending Messages to the Server"). The request continues, and
	// messages sent meanwhile are not lost. Poll does not wait. It reports false, and
	// does nothing, if the client cannot come back or is away already.
	Poll(retry time.Duration) bool

	// Receive sends a result to the client while it arrives. It returns when all of it
	// has been sent or when it failed; the client sees from its connection that the
	// result is incomplete. Then the Handler returns that result or the error. If
	// Receive reports false it has done nothing, and the Handler must read the whole
	// result and return it.
	//
	// A Handler that changes the results of another one registers its changes on the
	// StreamedResult, or passes the other a Caller with a Receive that reports false.
	Receive(ctx context.Context, res StreamedResult) (taken bool, err error)
}

// StreamedResult is a result that is still arriving after its head has been read. The
// callers that it passes on the way to the client may register changes on it. It must be
// used by one goroutine at a time, and not after Receive.
//
// Package client makes them, and package server sends them.
type StreamedResult interface {
	// Has reports whether the member has arrived, at least in part. More members may
	// follow.
	Has(f Field) bool

	// Omit omits members of the result and of its _meta, wherever they are.
	Omit(fields ...Field)

	// Prepend puts the member at the front of the result and omits its own occurrence,
	// if any.
	Prepend(f Field, value []byte)

	// PauseWriting registers p, which is paused during each write to the client. The
	// server is not read during a write, so this time must not count against the server.
	PauseWriting(p Pauser)
}

// A Pauser measures time, and can be paused. The calls may be nested: time counts when
// there were as many calls of Pause(false) as of Pause(true).
type Pauser interface{ Pause(on bool) }

// NoExtension is the [CallerExtension] of a Caller that can only send messages. A Caller
// that can do some of the rest embeds it and defines that.
type NoExtension struct{}

// Pulse does nothing.
func (NoExtension) Pulse() {}

// Pause does nothing.
func (NoExtension) Pause(bool) {}

// Poll reports false.
func (NoExtension) Poll(time.Duration) bool { return false }

// Receive reports false.
func (NoExtension) Receive(context.Context, StreamedResult) (taken bool, err error) {
	return false, nil
}
