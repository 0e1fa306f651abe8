// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package life provides contexts that are embedded in other structs.
//
// A cancelable context of the standard library costs six to eight allocations: the
// context, its cancel function, the set of its children and its entry in its parent's
// set. Each call of a gateway has several contexts. A Context costs none as long as no
// other kind of context and no function depends on it.
package life

import (
	"context"
	"sync"
	"time"
)

// Context is a [context.Context] that ends when End is called or, after Follow, when the
// followed context ends. The zero value is ready to use and has no values. A Context must
// not be copied.
//
// It may be the parent of contexts of the standard library: these have ended when End
// returns, and [context.Cause] returns the argument of End. Its methods may be called
// concurrently, except Carry and Follow, which must be called before all others.
type Context struct {
	values   context.Context //nolint:containedctx // part of a context
	followed context.Context //nolint:containedctx // likewise; may be nil
	place    follower        // in followed, if that is a Context
	stop     func() bool     // leaves followed, if that is another kind of context

	mu    sync.Mutex
	done  chan struct{} // created by the first call of Done
	err   error
	why   context.Context //nolint:containedctx // ended with the cause; nil without a cause
	first *follower       // list of all that end with the context
	other follower        // the first that is a function; usually the only one
	taken bool            // other is in use
}

// follower is a Context or a function that ends with, or is called at the end of, the
// Context of. The lock of that Context guards its position in the list.
type follower struct {
	of    *Context
	child *Context // to end; if nil:
	f     func()   // to call

	next, prev *follower
	listed     bool
}

// Carry sets the values of c to those of ctx. The end of ctx does not affect c. Carry may
// be called once.
func (c *Context) Carry(ctx context.Context) { c.values = ctx }

// Apart returns a context with the values of ctx that never ends. Unlike
// [context.WithoutCancel] it does not retain a struct that contains a Context, so it is
// suitable for work that outlives a request.
func Apart(ctx context.Context) context.Context {
	for c, ours := ctx.(*Context); ours; c, ours = ctx.(*Context) {
		if c.values == nil {
			return context.Background()
		}
		ctx = c.values
	}
	return context.WithoutCancel(ctx)
}

// Follow ends c when ctx ends, with the same cause, unless Leave is called before. Follow
// may be called once.
func (c *Context) Follow(ctx context.Context) {
	c.followed = ctx
	above, ours := ctx.(*Context)
	if ours {
		c.place.of, c.place.child = above, c
		if above.add(&c.place) {
			return
		}
	}
	switch {
	case ctx.Err() != nil:
		c.finish(ctx.Err(), context.Cause(ctx))
	case ctx.Done() != nil:
		c.stop = context.AfterFunc(ctx, func() { c.finish(ctx.Err(), context.Cause(ctx)) })
	}
}

// Leave undoes Follow. If the followed context ended before, it may still end c.
func (c *Context) Leave() {
	if c.place.of != nil {
		c.place.leave()
	}
	if c.stop != nil {
		c.stop()
	}
}

// End ends c and all its followers, and calls Leave. The first cause is kept; nil means
// [context.Canceled].
func (c *Context) End(cause error) {
	c.Leave()
	c.finish(context.Canceled, cause)
}

// finish ends the followers, without holding the lock. Children of the standard library
// end here too, not later on another goroutine: code that observes the end of one context
// reads the cause from another.
func (c *Context) finish(err, cause error) {
	if !c.close(err, cause) {
		return
	}
	for f := c.pop(); f != nil; f = c.pop() {
		if f.child != nil {
			f.child.finish(err, cause)
			continue
		}
		f.f()
	}
}

func (c *Context) close(err, cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	if cause != nil && cause != err { //nolint:errorlint // identity: err is the cause already
		c.why = because(cause)
	}
	if c.done != nil {
		close(c.done)
	}
	return true
}

// because returns a context that has ended with the cause. [context.Cause] reads a cause
// only from contexts of the standard library.
func because(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// add adds f to the list. It reports false if c has ended.
func (c *Context) add(f *follower) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	f.next = c.first
	if f.next != nil {
		f.next.prev = f
	}
	c.first, f.listed = f, true
	return true
}

// pop removes and returns a follower, or nil if the list is empty.
func (c *Context) pop() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.first
	if f != nil {
		f.unlinkLocked()
	}
	return f
}

// leave removes f from the list. It reports false if f is not in the list.
func (f *follower) leave() bool {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if !f.listed {
		return false
	}
	f.unlinkLocked()
	return true
}

func (f *follower) unlinkLocked() {
	if f.prev == nil {
		f.of.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
	f.next, f.prev, f.listed = nil, nil, false
}

// AfterFunc calls f when c ends. The returned function prevents the call, and reports
// whether it did. The contexts of the standard library call AfterFunc with functions that
// end a context; f must not block and must not call other code. Use [context.AfterFunc]
// for other functions.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	one := c.room()
	one.of, one.f = c, f
	if !c.add(one) {
		go f() // the caller may hold the lock of the child; no goroutine waits for f
	}
	return one.leave
}

// room returns a follower for a function. It is not reused: its stop function may be
// called at any time.
func (c *Context) room() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return new(follower)
	}
	c.taken = true
	return &c.other
}

// Done returns a channel that is closed when c ends.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err returns nil until c has ended.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Deadline returns the deadline of the followed context.
func (c *Context) Deadline() (deadline time.Time, ok bool) {
	if c.followed == nil {
		return time.Time{}, false
	}
	return c.followed.Deadline()
}

// Value returns the value of key.
func (c *Context) Value(key any) any {
	if why := c.reason(); why != nil {
		if v := why.Value(key); v != nil {
			return v
		}
	}
	if c.values == nil {
		return nil
	}
	return c.values.Value(key)
}

func (c *Context) reason() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// String returns a constant: fmt must not read the fields without the lock.
func (c *Context) String() string { return "life.Context" }
