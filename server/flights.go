// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// kind is what a flight is to those who wait for it.
type kind uint8

const (
	call     kind = iota // ends by itself: drain waits for it
	listen               // ends when it is told to, with its result
	standing             // a standalone stream: ends when it is told to
	inner                // the listen of a session: ends with what carries its changes
	pipe                 // a stdio connection: outlives the others
	kinds                // how many kinds there are
)

// flight is something that runs for a client: what Shutdown waits for, and how
// to stop it.
type flight struct {
	kind    kind
	stop    session.Stopper   // ends it
	x       *session.Exchange // of calls and listens that have one
	parking *parking          // says it instead of x, where that changes; else nil

	// tornDown: ended by us and not by the client, which is to hear of it. Set before
	// cancel, so that whoever wakes by that finds it.
	tornDown atomic.Bool

	serial uint64 // guarded by flights.mu
}

// exchange returns the exchange that the flight is served in now, or nil.
func (fl *flight) exchange() *session.Exchange {
	if fl.parking == nil {
		return fl.x
	}
	if at, _ := fl.parking.Exchange(); at != nil {
		return at.x
	}
	return nil
}

// flights are all that runs for clients. There is one goroutine of ours, or one
// of net/http, for each. Whether something begins before a shutdown or is refused
// by it is decided in enter, under one lock, so that a shutdown waits for all
// that has begun and for nothing else.
type flights struct {
	mu       sync.Mutex
	draining bool
	last     uint64
	open     map[*flight]struct{}
	count    [kinds]int
	changed  chan struct{} // closed when one of open goes and somebody waits
}

// enter adds a flight, unless the server is draining.
func (f *flights) enter(fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return false
	}
	if f.open == nil {
		f.open = make(map[*flight]struct{})
	}
	f.last++
	fl.serial = f.last
	f.open[fl] = struct{}{}
	f.count[fl.kind]++
	return true
}

// leave takes a flight out and wakes whoever waits. It comes after the answer was
// given out and the timers have stopped, so that when wait returns nothing of the
// flight is left that could do anything (I28).
func (f *flights) leave(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, fl)
	f.count[fl.kind]--
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// drain has enter refuse from now on.
func (f *flights) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
}

// isDraining reports whether drain was called. It may be true right after it was
// false: whoever must not begin anything then asks enter, which decides.
func (f *flights) isDraining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

// of lists the open flights of some kinds in the order in which they began.
func (f *flights) of(of ...kind) []*flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*flight
	for fl := range f.open {
		if slices.Contains(of, fl.kind) {
			found = append(found, fl)
		}
	}
	slices.SortFunc(found, func(a, b *flight) int { return cmp.Compare(a.serial, b.serial) })
	return found
}

// left counts the open flights of some kinds, and returns a channel that is
// closed when that is worth another look.
func (f *flights) left(of ...kind) (int, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, k := range of {
		n += f.count[k]
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return n, f.changed
}

// wait returns when no flight of these kinds is open, or with the context's
// error.
func (f *flights) wait(ctx context.Context, of ...kind) error {
	for {
		n, changed := f.left(of...)
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tearDown tells the flights of these kinds to end, one after another over a
// time: at once where that is not positive, and from when ctx ends.
func (f *flights) tearDown(ctx context.Context, over time.Duration, why error, of ...kind) {
	open := f.of(of...)
	start := time.Now()
	for i, fl := range open {
		if over > 0 && ctx.Err() == nil && !f.rest(ctx, start, over, i, len(open), of) {
			return
		}
		fl.tornDown.Store(true)
		fl.stop.End(why)
	}
}

// rest waits for the turn of the flight with index i of n, which is somewhere in
// its own part of the time: the first one's is now. It reports whether there is
// anything left to be told.
func (f *flights) rest(ctx context.Context, start time.Time, over time.Duration, i, n int, of []kind) bool {
	if i == 0 {
		return true
	}
	part := max(over/time.Duration(n), 1)
	turn := start.Add(time.Duration(i)*part + jitter(part))
	ctx, cancel := context.WithDeadline(ctx, turn)
	defer cancel()
	return f.wait(ctx, of...) != nil
}

// jitter returns a random time below d, which is positive, for what many do at
// once and ought not to.
func jitter(d time.Duration) time.Duration {
	return rand.N(d) //nolint:gosec // nobody gains by guessing it
}
