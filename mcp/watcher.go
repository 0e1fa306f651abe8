// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "context"

// Watcher is an optional interface of a [Handler] that serves a subscriptions/listen
// without a goroutine while there is nothing to tell.
type Watcher interface {
	// Watch does what Serve does for a subscriptions/listen, but returns as soon as
	// the caller has the acknowledgement and what was due with it. It goes on until
	// stop is called, which is to be called once, after ctx has ended; when that
	// returns, the caller is not used any more. The caller may be used by goroutines
	// that Watch starts, one at a time.
	//
	// The error is Serve's, of a listen that has not begun. It is
	// [errors.ErrUnsupported], and nothing has been done, where the Handler can serve
	// this one in Serve alone. Watch is called concurrently.
	Watch(ctx context.Context, req *Request, caller Caller) (stop func(), err error)
}
