// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package life has contexts that stand in the structs of whoever makes them.
//
// What the standard library makes for a context, for its cancel function, for the
// list of those that end with it and for its place in such a list is six to eight
// allocations, and each call of a gateway has several contexts. Here they are none, as
// long as nobody else's context or function depends on one.
package life

import (
	"context"
	"sync"
	"time"
)

// Context is a [context.Context] that ends when End is called, and, after Follow, when
// another one does. The zero value is ready, and has no values. It must not be copied.
//
// It is for contexts of the standard library to be made of, which have ended when End
// returns, and [context.Cause] knows what End was given. Its methods
// may be called concurrently, but for Carry and Follow, which come before all others.
type Context struct {
	values   context.Context //nolint:containedctx // what a context is made of
	followed context.Context //nolint:containedctx // likewise; nil where none is
	place    follower        // in followed, if that is a Context
	stop     func() bool     // what leaves it, if it is another one

	mu    sync.Mutex
	done  chan struct{} // made for the first who asks
	err   error
	why   context.Context //nolint:containedctx // ended with the cause, where there is one
	first *follower       // of those that end with it
	other follower        // the first that is no Context, which is the only one nearly always
	taken bool            // other is
}

// follower is one that ends with a Context. Where it stands among the others is guarded
// by that one's lock.
type follower struct {
	of    *Context
	child *Context // ends, or
	f     func()   // is called

	next, prev *follower
	listed     bool
}

// Carry gives c the values of ctx, whose end is nothing to it. It is called at most once.
func (c *Context) Carry(ctx context.Context) { c.values = ctx }

// Apart returns a context with the values of ctx that never ends. It is
// [context.WithoutCancel] for what outlives a request: nothing is kept that a Context
// stands in.
func Apart(ctx context.Context) context.Context {
	for c, ours := ctx.(*Context); ours; c, ours = ctx.(*Context) {
		if c.values == nil {
			return context.Background()
		}
		ctx = c.values
	}
	return context.WithoutCancel(ctx)
}

// Follow has c end when ctx does, for the same reason, until it is told to Leave. It is
// called at most once.
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

// Leave has c follow nobody any more. What has ended before that may end it still.
func (c *Context) Leave() {
	if c.place.of != nil {
		c.place.leave()
	}
	if c.stop != nil {
		c.stop()
	}
}

// End ends c, and all that follow it, and leaves what it follows. The first reason
// stands; nil is [context.Canceled].
func (c *Context) End(cause error) {
	c.Leave()
	c.finish(context.Canceled, cause)
}

// finish tells the followers, without the lock. Those of the standard library end here,
// too, and not a moment later on goroutines of their own: who sees that one context has
// ended looks at another to find out why.
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
	if cause != nil && cause != err { //nolint:errorlint // identity: what is said twice need not be kept
		c.why = because(cause)
	}
	if c.done != nil {
		close(c.done)
	}
	return true
}

// because returns a context that has ended with the cause, for [context.Cause], which
// reads it from those of the standard library alone.
func because(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// add reports false if c has ended.
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

// pop takes out one of those that are to be told.
func (c *Context) pop() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.first
	if f != nil {
		f.unlinkLocked()
	}
	return f
}

// leave reports false if it is too late, or was done before.
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

// AfterFunc has f called when c ends. The function that it returns prevents that, and
// reports whether it has. It is what the contexts of the standard library call, whose
// functions end a context and do nothing else; f must not wait, and must call nobody.
// For other functions there is [context.AfterFunc].
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	one := c.room()
	one.of, one.f = c, f
	if !c.add(one) {
		go f() // its context may be locked by who calls this; nobody waits for it
	}
	return one.leave
}

// room returns the place of a function, which is used once: whoever has it may leave
// it at any time.
func (c *Context) room() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return new(follower)
	}
	c.taken = true
	return &c.other
}

// Done returns the channel that is closed when c has ended.
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

// Deadline returns that of what c follows.
func (c *Context) Deadline() (deadline time.Time, ok bool) {
	if c.followed == nil {
		return time.Time{}, false
	}
	return c.followed.Deadline()
}

// Value returns the value of that key.
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

// String names c: what is in it is not to be read without its lock.
func (c *Context) String() string { return "life.Context" }
