// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "context"

// Handler serves MCP requests. Serve is called concurrently.
//
// Serve returns the request's one terminal: a result, or an error. A nil
// result with a nil error is right for a notification and for nothing else.
// An [*Error] is what goes on the wire; any other error is shown to the peer as
// an internal error without its text, unless it is a [*Fault].
//
// The context ends when the request is cancelled, when its sender is gone for
// good, or when its deadline has passed; Serve returns soon after. The request
// belongs to the Handler until Serve returns; it must not be changed, because
// its bytes may be shared. The caller is the one address for messages that
// belong to this request, and is dead once Serve has returned.
type Handler interface {
	Serve(ctx context.Context, req *Request, caller Caller) (*Result, error)
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, req *Request, caller Caller) (*Result, error)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, req *Request, caller Caller) (*Result, error) {
	return f(ctx, req, caller)
}

// Caller is the other end of one request while that request is being served.
// Its methods may be called concurrently, and by the goroutine that serves.
// After the request's terminal they return an error that wraps [ErrRequestEnded].
type Caller interface {
	// Notify delivers a notification that belongs to the request: progress, a
	// log message, or, while subscriptions/listen is served, a change. Messages
	// reach the caller in the order in which Notify returned. It may wait for a
	// slow caller until ctx ends. The notification must not be changed afterwards.
	Notify(ctx context.Context, n *Notification) error

	// Ask puts a request of the server side to the client and waits for the
	// answer: elicitation/create, sampling/createMessage, roots/list. It fails
	// at once where the client cannot be asked: with an [*Error] when the client
	// did not declare the capability, with a [*Fault] when its era or its
	// transport has no way to carry the question.
	Ask(ctx context.Context, req *Request) (*Result, error)
}

// Pulser is an optional interface of a [Caller] that watches for signs of life: a
// Handler that learns, by whatever way, that the request is being worked on tells
// it so, where there is nothing to tell the client.
type Pulser interface {
	// Pulse says that the request is alive. It does not wait.
	Pulse()
}

// Pulse tells a caller that its request is alive, if it wants to know.
func Pulse(caller Caller) {
	if p, ok := caller.(Pulser); ok {
		p.Pulse()
	}
}

// Pauser is an optional interface of a [Caller] that limits how long its request may take.
type Pauser interface {
	// Pause stops the limits, or lets them go on. Each true is followed by one false.
	Pause(on bool)
}

// Pause tells a caller that its request waits for something that has a limit of its own,
// such as the start of a server, and that this is over.
func Pause(caller Caller, on bool) {
	if p, ok := caller.(Pauser); ok {
		p.Pause(on)
	}
}

// Starter is an optional interface of a [Caller] that can put a question without
// waiting for its answer.
type Starter interface {
	// Start puts the question before it returns, without waiting for anybody, and
	// returns what waits for the answer as Ask does. That has to be called once, also
	// where nobody wants the answer any more: ctx is what ends the question. The error
	// is Ask's, of a question that cannot be put.
	Start(ctx context.Context, req *Request) (wait func() (*Result, error), err error)
}

// Start puts a question to a caller and returns what waits for the answer, which has
// to be called once. Questions that are started one after another reach a client in
// that order where the caller is a [Starter]; where it is not, each is put when it
// is waited for.
func Start(ctx context.Context, caller Caller, req *Request) (wait func() (*Result, error), err error) {
	if s, ok := caller.(Starter); ok {
		return s.Start(ctx, req)
	}
	return func() (*Result, error) { return caller.Ask(ctx, req) }, nil
}
