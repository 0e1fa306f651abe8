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
	"github.com/signalbox-mcp/signalbox/mcp"
)

// kind distinguishes the activities that Shutdown ends in different ways.
type kind uint8

const (
	kindCall        kind = iota // ends by itself: Shutdown waits for it
	kindListen                  // ends on request, with its result
	kindStandalone              // a standalone stream: ends on request
	kindInnerListen             // the listen of a session: ends with the stream of its changes
	kindPipe                    // a stdio connection: outlives the others
	numKinds                    // the number of kinds
)

// inflight is an activity for a client that Shutdown waits for and can stop.
type inflight struct {
	kind    kind
	profile string            // of listens and connections
	stop    func(why error)   // ends it; nil for inner listens, which end with their streams
	x       *session.Exchange // of calls and listens that have one
	parked  *parkedRequest    // has the current exchange instead of x if the request can be parked, else nil
	times   *mcp.Timeline     // of the request, or nil

	// tornDown is set if we have ended the activity and not the client, which must be
	// notified. It is set before stop is called, so that a goroutine that this wakes sees
	// it.
	tornDown atomic.Bool

	serial uint64 // guarded by inflightSet.mu
}

// tearDown ends the activity, of which the client is to be notified.
func (entry *inflight) tearDown(why error) {
	entry.tornDown.Store(true)
	entry.stop(why)
}

// exchange returns the current exchange, or nil.
func (entry *inflight) exchange() *session.Exchange {
	if entry.parked == nil {
		return entry.x
	}
	if at, _ := entry.parked.Exchange(); at != nil {
		return at.x
	}
	return nil
}

// inflightSet is all that is in flight for clients. Each entry has one goroutine, of the
// Server or of net/http. add decides under one lock whether an activity starts before a shutdown
// or is refused by it, so that Shutdown waits for exactly those that have started.
type inflightSet struct {
	mu         sync.Mutex
	draining   bool
	lastSerial uint64
	open       map[*inflight]struct{}
	count      [numKinds]int
	changed    chan struct{} // closed when an entry is removed and a goroutine waits
}

// add adds an entry, unless the server is draining.
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

// remove removes an entry and wakes the waiting goroutines. It is called after the answer
// was sent and the timers have stopped, so that when wait returns nothing of the entry
// can still act (I28).
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

// drain makes add fail from now on.
func (set *inflightSet) drain() {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.draining = true
}

// isDraining reports whether drain was called. The result may be outdated at once; a
// caller that must not start anything relies on add.
func (set *inflightSet) isDraining() bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.draining
}

// list returns the entries of the given kinds in the order in which they began.
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

// remaining counts the entries of the given kinds, and returns a channel that is closed
// when the count may have changed.
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

// wait returns nil when no entry of the given kinds is left, or the error of ctx.
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

// tearDown ends the entries of the given kinds, one after another over the given time, each
// at a random time within its part: all at once if that is not positive, and from when ctx
// ends. It returns early if no entry is left.
func (set *inflightSet) tearDown(ctx context.Context, over time.Duration, why error, of ...kind) {
	open := set.list(of...)
	start := time.Now()
	for i, entry := range open {
		if i > 0 && over > 0 && ctx.Err() == nil {
			part := max(over/time.Duration(len(open)), 1)
			turn, cancel := context.WithDeadline(ctx, start.Add(time.Duration(i)*part+jitter(part)))
			err := set.wait(turn, of...)
			cancel()
			if err == nil {
				return
			}
		}
		entry.tearDown(why)
	}
}

// jitter returns a random time below d, which is positive, to spread what many clients
// would do at once.
func jitter(d time.Duration) time.Duration {
	return rand.N(d) //nolint:gosec // guessing it gains nothing
}
