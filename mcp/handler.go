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
//
// A Handler that wraps another and changes its results passes it a caller that accepts
// none while they arrive: see Receive of [CallerExtension].
type Handler interface {
	Serve(ctx context.Context, req *Request, caller Caller) (*Result, error)
}

// HandlerExtension is implemented by a [Handler] that can serve some requests without a
// goroutine of their own. It saves time and memory, and adds nothing that Serve cannot
// do: a Handler that wraps another may leave it out. Its methods are called concurrently.
type HandlerExtension interface {
	// ServeNow returns the result that Serve would return, if that needs neither time
	// nor a Caller. It reports false in all other cases, including errors; then Serve
	// must be called.
	ServeNow(req *Request) (*Result, bool)

	// Watch does what Serve does for subscriptions/listen, but returns as soon as the
	// caller has received the acknowledgement and any notifications due at once. It
	// continues until stop is called. stop must be called once, after ctx has ended;
	// after it returns, the caller is no longer used. The caller may be used by
	// goroutines that Watch starts, one at a time.
	//
	// The error is Serve's, for a listen that has not begun. It is
	// [errors.ErrUnsupported], with nothing done, if the Handler can serve this listen
	// only with Serve.
	Watch(ctx context.Context, req *Request, caller Caller) (stop func(), err error)
}

// HandlerFunc is an adapter that allows the use of a function as a [Handler].
type HandlerFunc func(ctx context.Context, req *Request, caller Caller) (*Result, error)

// Serve calls f.
func (f HandlerFunc) Serve(ctx context.Context, req *Request, caller Caller) (*Result, error) {
	return f(ctx, req, caller)
}
