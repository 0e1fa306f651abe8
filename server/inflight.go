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
	kindCall        kind = iota // ends by itself: drain waits for it
	kindListen                  // ends when it is told to, with its result
	kindStandalone              // a standalone stream: ends when it is told to
	kindInnerListen             // the listen of a session: ends with what carries its changes
	kindPipe                    // a stdio connection: outlives the others
	numKinds                    // how many kinds there are
)

// flight is something that runs for a client: what Shutdown waits for, and how
// to stop it.
type inflight struct {
	kind   kind
	stop   session.Stopper   // ends it
	x      *session.Exchange // of calls and listens that have one
	parked *parkedRequest    // says it instead of x, where that changes; else nil

	// tornDown: ended by us and not by the client, which is to hear of it. Set before
	// cancel, so that whoever wakes by that finds it.
	tornDown atomic.Bool

	serial uint64 // guarded by flights.mu
}

// exchange returns the exchange that the flight is served in now, or nil.
func (entry *inflight) exchange() *session.Exchange {
	if entry.parked == nil {
		return entry.x
	}
	if at, _ := entry.parked.Exchange(); at != nil {
		return at.x
	}
	return nil
}

// flights are all that runs for clients. There is one goroutine of ours, or one
// of net/http, for each. Whether something begins before a shutdown or is refused
// by it is decided in enter, under one lock, so that a shutdown waits for all
// that has begun and for nothing else.
type inflightSet struct {
	mu         sync.Mutex
	draining   bool
	lastSerial uint64
	open       map[*inflight]struct{}
	count      [numKinds]int
	changed    chan struct{} // closed when one of open goes and somebody waits
}

// enter adds a flight, unless the server is draining.
func (set *inflightSet) add(entry *inflight) bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.draining {
		return false
	}
	if set.open == nil {
		set.open = make(map[*inflight]struct{})
	}
	set.lastSerial++
	entry.serial = set.lastSerial
	set.open[entry] = struct{}{}
	set.count[entry.kind]++
	return true
}

// leave takes a flight out and wakes whoever waits. It comes after the answer was
// given out and the timers have stopped, so that when wait returns nothing of the
// flight is left that could do anything (I28).
func (set *inflightSet) remove(entry *inflight) {
	set.mu.Lock()
	defer set.mu.Unlock()
	delete(set.open, entry)
	set.count[entry.kind]--
	if set.changed != nil {
		close(set.changed)
		set.changed = nil
	}
}

// drain has enter refuse from now on.
func (set *inflightSet) drain() {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.draining = true
}

// isDraining reports whether drain was called. It may be true right after it was
// false: whoever must not begin anything then asks enter, which decides.
func (set *inflightSet) isDraining() bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.draining
}

// of lists the open flights of some kinds in the order in which they began.
func (set *inflightSet) list(of ...kind) []*inflight {
	set.mu.Lock()
	defer set.mu.Unlock()
	var found []*inflight
	for entry := range set.open {
		if slices.Contains(of, entry.kind) {
			found = append(found, entry)
		}
	}
	slices.SortFunc(found, func(a, b *inflight) int { return cmp.Compare(a.serial, b.serial) })
	return found
}

// left counts the open flights of some kinds, and returns a channel that is
// closed when that is worth another look.
func (set *inflightSet) remaining(of ...kind) (int, <-chan struct{}) {
	set.mu.Lock()
	defer set.mu.Unlock()
	n := 0
	for _, k := range of {
		n += set.count[k]
	}
	if set.changed == nil {
		set.changed = make(chan struct{})
	}
	return n, set.changed
}

// wait returns when no flight of these kinds is open, or with the context's
// error.
func (set *inflightSet) wait(ctx context.Context, of ...kind) error {
	for {
		n, changed := set.remaining(of...)
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
func (set *inflightSet) tearDown(ctx context.Context, over time.Duration, why error, of ...kind) {
	open := set.list(of...)
	start := time.Now()
	for i, entry := range open {
		if over > 0 && ctx.Err() == nil && !set.waitTurn(ctx, start, over, i, len(open), of) {
			return
		}
		entry.tornDown.Store(true)
		entry.stop.End(why)
	}
}

// rest waits for the turn of the flight with index i of n, which is somewhere in
// its own part of the time: the first one's is now. It reports whether there is
// anything left to be told.
func (set *inflightSet) waitTurn(ctx context.Context, start time.Time, over time.Duration, i, n int, of []kind) bool {
	if i == 0 {
		return true
	}
	part := max(over/time.Duration(n), 1)
	turn := start.Add(time.Duration(i)*part + jitter(part))
	ctx, cancel := context.WithDeadline(ctx, turn)
	defer cancel()
	return set.wait(ctx, of...) != nil
}

// jitter returns a random time below d, which is positive, for what many do at
// once and ought not to.
func jitter(d time.Duration) time.Duration {
	return rand.N(d) //nolint:gosec // nobody gains by guessing it
}
