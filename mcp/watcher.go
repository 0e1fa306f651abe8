// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "context"

// Watcher is implemented by a [Handler] that can serve subscriptions/listen without a
// goroutine while there is nothing to send.
type Watcher interface {
	// Watch does what Serve does for subscriptions/listen, but returns as soon as the
	// caller has received the acknowledgement and any notifications due at once. It
	// continues until stop is called. stop must be called once, after ctx has ended;
	// after it returns, the caller is no longer used. The caller may be used by
	// goroutines that Watch starts, one at a time.
	//
	// The error is Serve's, for a listen that has not begun. It is
	// [errors.ErrUnsupported], with nothing done, if the Handler can serve this listen
	// only with Serve. Watch is called concurrently.
	Watch(ctx context.Context, req *Request, caller Caller) (stop func(), err error)
}
