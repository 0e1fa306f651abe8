// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "context"

// A Handler serves MCP requests. Serve is called concurrently.
//
// Serve returns the single terminal of the request: a result or an error. A nil result
// with a nil error is valid for a notification only. An [*Error] is sent as it is. Any
// other error reaches the peer as an internal error without its text, unless it is a
// [*Fault].
//
// The context ends when the request is cancelled, when its sender is permanently gone,
// or when its deadline has passed; Serve must return soon after. The request belongs to
// the Handler until Serve returns. It must not be changed, because its bytes may be
// shared. Messages that belong to the request are sent through caller, and only until
// Serve has returned.
type Handler interface {
	Serve(ctx context.Context, req *Request, caller Caller) (*Result, error)
}

// HandlerFunc is an adapter that allows the use of a function as a [Handler].
type HandlerFunc func(ctx context.Context, req *Request, caller Caller) (*Result, error)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, req *Request, caller Caller) (*Result, error) {
	return f(ctx, req, caller)
}

// A Caller is the other end of one request while the request is being served. Its
// methods may be called concurrently. After the terminal of the request they return an
// error that wraps [ErrRequestEnded].
type Caller interface {
	// Notify sends a notification that belongs to the request: progress, a log message,
	// or, for subscriptions/listen, a change. Messages reach the caller in the order in
	// which Notify returned. Notify may wait for a slow caller until ctx ends. The
	// notification must not be changed afterwards.
	Notify(ctx context.Context, n *Notification) error

	// Ask sends a request from the server side to the client and waits for the answer:
	// elicitation/create, sampling/createMessage, roots/list. It fails at once if the
	// client cannot be asked: with an [*Error] if the client did not declare the
	// capability, with a [*Fault] if its era or its transport has no way to carry the
	// request.
	Ask(ctx context.Context, req *Request) (*Result, error)
}

// Pulser is implemented by a [Caller] that watches for signs of life. A Handler calls
// [Pulse] when it learns that the request is being worked on and has no message for the
// client.
type Pulser interface {
	// Pulse reports that the request is alive. It does not wait.
	Pulse()
}

// Pulse calls Pulse of the caller if it is a [Pulser].
func Pulse(caller Caller) {
	if p, ok := caller.(Pulser); ok {
		p.Pulse()
	}
}

// Pauser is implemented by a [Caller] that limits how long its request may take.
type Pauser interface {
	// Pause stops the limits (true) or resumes them (false). Each true is followed by
	// one false.
	Pause(on bool)
}

// Pause calls Pause of the caller if it is a [Pauser]: with true while the request
// waits for something that has its own limit, such as the start of a server, and with
// false afterwards.
func Pause(caller Caller, on bool) {
	if p, ok := caller.(Pauser); ok {
		p.Pause(on)
	}
}

// Starter is implemented by a [Caller] that can send a request to the client without
// waiting for the answer.
type Starter interface {
	// Start sends the request before it returns, without waiting, and returns a
	// function that waits for the answer as Ask does. That function must be called
	// once, even if the answer is no longer needed: ctx is what ends the request. The
	// error is the one that Ask returns for a request that cannot be sent.
	Start(ctx context.Context, req *Request) (wait func() (*Result, error), err error)
}

// Start sends a request to the client and returns a function that waits for the answer;
// it must be called once. If the caller is a [Starter], requests reach the client in
// the order in which they were started. Otherwise each is sent when its function is
// called.
func Start(ctx context.Context, caller Caller, req *Request) (wait func() (*Result, error), err error) {
	if s, ok := caller.(Starter); ok {
		return s.Start(ctx, req)
	}
	return func() (*Result, error) { return caller.Ask(ctx, req) }, nil
}
