// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"container/heap"
	"errors"
	"slices"
	"time"
)

// FullError is why a table takes no further session. It is an ErrTooMany.
type FullError struct {
	PerPrincipal bool          // which bound is reached
	Wait         time.Duration // before that a further attempt is in vain
}

// Error says what it is that there is none of.
func (e *FullError) Error() string { return "no session has been idle for long enough to give way" }

// Unwrap returns ErrTooMany.
func (e *FullError) Unwrap() error { return ErrTooMany }

// Add publishes a session that is complete. Where a limit is reached, one that
// is least missed is ended for it. The evicted are returned for their scopes to
// be ended. Where none may give way the error is a FullError, and nothing is
// added.
func (t *Table) Add(s *Session, now time.Time) (evicted []*Session, err error) {
	for {
		candidates, err := t.insert(s, now)
		if len(candidates) == 0 {
			return evicted, err
		}
		if old := t.evict(candidates, now); old != nil {
			evicted = append(evicted, old)
		}
	}
}

// evict ends the first candidate that is idle. Those that are not are used at
// this moment, so that nobody needs to try them again for a while: without that
// a few busy sessions would hide all idle ones behind them.
func (t *Table) evict(candidates []*Session, now time.Time) *Session {
	for _, s := range candidates {
		if s.EndIdle() {
			t.Remove(s)
			return s
		}
		t.touch(s, now)
	}
	return nil
}

// insert adds the session, or returns who could make room for it, or why nobody
// can.
func (t *Table) insert(s *Session, now time.Time) (candidates []*Session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.ownerLocked(s)
	switch {
	case s.Principal != "" && own.count >= t.limits.PerPrincipal:
		candidates, err = t.weigh(&own.lane, now)
		return candidates, asPrincipal(err)
	case len(t.byID) < t.limits.Total:
		t.addLocked(&entry{session: s, owner: own, at: now})
		return nil, nil
	case t.owesRoom(own):
		if found := t.takeFromMost(now); len(found) > 0 {
			return found, nil
		}
	}
	if own.count > 0 {
		return t.weigh(&own.lane, now)
	}
	return t.weigh(&t.all, now)
}

// smallShare is the part of the table that nobody takes from anybody: whoever has
// no more than that is not why it is full.
const smallShare = 100

// owesRoom reports whether the owner that has most makes room for this one. It
// has clearly more, and so much that it counts: a flood from many places, each of
// which has nothing yet, must not end the sessions of an office behind one
// address.
func (t *Table) owesRoom(own *holding) bool {
	if len(t.owners.heap) == 0 {
		return false
	}
	most := t.owners.heap[0].count
	return most >= own.count+2 && most > t.limits.Total/smallShare
}

func asPrincipal(err error) error {
	if full, ok := errors.AsType[*FullError](err); ok {
		full.PerPrincipal = true
	}
	return err
}

// evictFrom is how many sessions of an order are tried at a time.
const evictFrom = 64

// weigh lists those of the lane that have come to rest.
func (t *Table) weigh(l *lane, now time.Time) ([]*Session, error) {
	return t.choose(l, t.limits.FreshRest, t.limits.Rest, now)
}

// tryMostEvery is how often all sessions of one owner are tried for the sake of
// others. A proxy's clients may all be at work, and whoever is refused comes again
// at once: thousands would be tried for each that comes.
const tryMostEvery = time.Second

// takeFromMost lists sessions of the owner that has most, even those that have
// not come to rest.
func (t *Table) takeFromMost(now time.Time) []*Session {
	most := t.owners.heap[0]
	// What is found to be in use is used now, and must not be tried again.
	rest, again := time.Duration(1), now.Sub(most.inUse) >= tryMostEvery
	if !again {
		rest = t.limits.Rest
	}
	found, _ := t.choose(&most.lane, 0, rest, now)
	if again && len(found) == 0 {
		most.inUse = now
	}
	return found
}

// choose lists those of the lane that have been idle for so long: what was never
// used before all else, the longest idle first.
func (t *Table) choose(l *lane, freshRest, rest time.Duration, now time.Time) ([]*Session, error) {
	for _, c := range []struct {
		order *order
		rest  time.Duration
	}{{&l.fresh, freshRest}, {&l.used, rest}} {
		found := c.order.while(evictFrom, func(e *entry) bool { return now.Sub(e.at) >= c.rest })
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, &FullError{Wait: t.wait(l, now)}
}

// wait returns when the first of the lane comes to rest.
func (t *Table) wait(l *lane, now time.Time) time.Duration {
	wait := t.limits.Rest
	if e := l.used.head; e != nil {
		wait = t.limits.Rest - now.Sub(e.at)
	}
	if e := l.fresh.head; e != nil {
		wait = min(wait, t.limits.FreshRest-now.Sub(e.at))
	}
	return wait
}

// owner is who pays for a session: a principal, or where the anonymous one
// connects from.
type owner struct{ principal, address string }

func ownerOf(s *Session) owner {
	if s.Principal != "" {
		return owner{principal: s.Principal}
	}
	return owner{address: s.Address}
}

// holding is what one owner has.
type holding struct {
	owner  owner
	serial uint64    // the order in which owners came
	place  int       // in owners.heap
	count  int       // of sessions
	inUse  time.Time // when none of them gave way to others
	lane   lane
}

// owners are all that have sessions, the one that has most first in the heap.
type owners struct {
	last uint64
	by   map[owner]*holding
	heap byCount
}

// ownerLocked returns what the owner of a session has, who may be new.
func (t *Table) ownerLocked(s *Session) *holding {
	key := ownerOf(s)
	if own := t.owners.by[key]; own != nil {
		return own
	}
	return &holding{owner: key, lane: newLane(ofOwner)}
}

// add notes that the owner has one more.
func (o *owners) add(h *holding) {
	h.count++
	if h.count > 1 {
		heap.Fix(&o.heap, h.place)
		return
	}
	o.last++
	h.serial = o.last
	o.by[h.owner] = h
	heap.Push(&o.heap, h)
}

// remove notes that the owner has one less. One that has none left is forgotten.
func (o *owners) remove(h *holding) {
	h.count--
	if h.count > 0 {
		heap.Fix(&o.heap, h.place)
		return
	}
	delete(o.by, h.owner)
	heap.Remove(&o.heap, h.place)
}

// byCount is a [heap.Interface] in which the owner that has most is first, and
// of several the one that came first.
type byCount []*holding

func (b byCount) Len() int { return len(b) }

func (b byCount) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(b[j].count, b[i].count), cmp.Compare(b[i].serial, b[j].serial)) < 0
}

func (b byCount) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].place, b[j].place = i, j
}

// Push is for package heap.
func (b *byCount) Push(x any) {
	if h, ok := x.(*holding); ok {
		h.place = len(*b)
		*b = append(*b, h)
	}
}

// Pop is for package heap.
func (b *byCount) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	*b = slices.Delete(*b, last, last+1)
	return h
}
