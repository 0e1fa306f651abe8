// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// FullError is returned when a table accepts no further session. It wraps ErrTooMany.
type FullError struct {
	PerPrincipal bool          // the principal's limit was reached, not the table's
	Wait         time.Duration // how long to wait before retrying
}

// Error describes the refusal.
func (e *FullError) Error() string {
	return "session limit reached; no session has been idle long enough to be evicted"
}

// Unwrap returns ErrTooMany.
func (e *FullError) Unwrap() error { return ErrTooMany }

// Add publishes a session that is complete. At a limit it evicts an idle session, one that
// was never used first; see [Table]. The caller must end the scopes of the evicted
// sessions. If no session can be evicted, Add adds nothing and returns a FullError.
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

// evict ends the first candidate that is idle. Busy candidates are marked as used now, so
// that they are not tried again for a while: otherwise a few busy sessions would hide all
// idle ones behind them.
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

// insert adds the session, or returns the candidates for eviction or the reason for
// refusing it.
func (t *Table) insert(s *Session, now time.Time) (candidates []*Session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.ownerLocked(s)
	perPrincipal := s.Principal != "" && own.count >= t.limits.PerPrincipal
	switch {
	case perPrincipal:
	case len(t.byID) < t.limits.Total:
		t.addLocked(&entry{session: s, usage: own, lastUse: now})
		return nil, nil
	case t.overShare(own):
		if found := t.evictableOfLargest(now); len(found) > 0 {
			return found, nil
		}
	}
	from := &t.all
	if own.count > 0 {
		from = &own.lru
	}
	if found := idleFor(from, t.limits.FreshRest, t.limits.Rest, now); len(found) > 0 {
		return found, nil
	}
	return nil, &FullError{PerPrincipal: perPrincipal, Wait: t.untilEvictable(from, now)}
}

// smallShare is the fraction of the table below which an owner's sessions are not evicted
// for others.
const smallShare = 100

// overShare reports whether the owner with the most sessions must make space for this one:
// it has clearly more sessions, and a substantial share of the table. A flood from
// many addresses without sessions must not end those of an office behind one address.
func (t *Table) overShare(own *ownerUsage) bool {
	if len(t.owners.heap) == 0 {
		return false
	}
	most := t.owners.heap[0].count
	return most >= own.count+2 && most > t.limits.Total/smallShare
}

// maxCandidates is how many sessions of a list are tried at a time.
const maxCandidates = 64

// retryLargestEvery is how often all sessions of one owner are tried on behalf of others.
// The clients of a proxy may all be busy, and a refused client retries at once: otherwise
// each attempt would try thousands of sessions.
const retryLargestEvery = time.Second

// evictableOfLargest returns sessions of the owner that has the most, even those that have
// not been idle long enough.
func (t *Table) evictableOfLargest(now time.Time) []*Session {
	most := t.owners.heap[0]
	// Sessions found to be busy count as used now, and must not be tried again.
	rest, again := time.Duration(1), now.Sub(most.allBusyAt) >= retryLargestEvery
	if !again {
		rest = t.limits.Rest
	}
	found := idleFor(&most.lru, 0, rest, now)
	if again && len(found) == 0 {
		most.allBusyAt = now
	}
	return found
}

// idleFor returns the sessions of the lru that have been idle for the given durations:
// first those that were never used, and of each kind the longest idle first.
func idleFor(l *lru, freshRest, rest time.Duration, now time.Time) []*Session {
	if found := l.fresh.idleFor(freshRest, now, maxCandidates); len(found) > 0 {
		return found
	}
	return l.used.idleFor(rest, now, maxCandidates)
}

// untilEvictable returns when the first session of the lru can be evicted.
func (t *Table) untilEvictable(l *lru, now time.Time) time.Duration {
	if at := l.firstIdle(t.limits.FreshRest, t.limits.Rest); !at.IsZero() {
		return min(at.Sub(now), t.limits.Rest)
	}
	return t.limits.Rest
}

// owner identifies the account of a session: the principal, or the address of an anonymous
// client.
type owner struct{ principal, address string }

func ownerOf(s *Session) owner {
	if s.Principal != "" {
		return owner{principal: s.Principal}
	}
	return owner{address: s.Address}
}

// ownerUsage is the usage of one owner.
type ownerUsage struct {
	owner     owner
	serial    uint64    // in order of arrival
	heapIndex int       // in owners.heap
	count     int       // of sessions
	allBusyAt time.Time // when all of its sessions were found busy
	lru       lru
}

// owners holds all owners of sessions. The owner with the most sessions is the first of the
// heap.
type owners struct {
	last uint64
	by   map[owner]*ownerUsage
	heap byCount
}

// ownerLocked returns the usage of the session's owner, which may be new.
func (t *Table) ownerLocked(s *Session) *ownerUsage {
	key := ownerOf(s)
	if own := t.owners.by[key]; own != nil {
		return own
	}
	return &ownerUsage{owner: key, lru: newLRU(listOwner)}
}

// add counts one more session of the owner.
func (o *owners) add(h *ownerUsage) {
	h.count++
	if h.count > 1 {
		heap.Fix(&o.heap, h.heapIndex)
		return
	}
	o.last++
	h.serial = o.last
	o.by[h.owner] = h
	heap.Push(&o.heap, h)
}

// remove counts one session less, and forgets an owner without sessions.
func (o *owners) remove(h *ownerUsage) {
	h.count--
	if h.count > 0 {
		heap.Fix(&o.heap, h.heapIndex)
		return
	}
	delete(o.by, h.owner)
	heap.Remove(&o.heap, h.heapIndex)
}

// byCount is a [heap.Interface] with the owner of the most sessions first, and among equals
// the one that arrived first.
type byCount []*ownerUsage

func (b byCount) Len() int { return len(b) }

func (b byCount) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(b[j].count, b[i].count), cmp.Compare(b[i].serial, b[j].serial)) < 0
}

func (b byCount) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].heapIndex, b[j].heapIndex = i, j
}

// Push implements [heap.Interface].
func (b *byCount) Push(x any) {
	if h, ok := x.(*ownerUsage); ok {
		h.heapIndex = len(*b)
		*b = append(*b, h)
	}
}

// Pop implements [heap.Interface].
func (b *byCount) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	*b = slices.Delete(*b, last, last+1)
	return h
}
