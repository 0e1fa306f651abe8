// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"container/list"
	"time"
)

// OwnerShare is the part of a Store that one owner may have: a quarter.
const OwnerShare = 4

// A StoreKey identifies a value in a Store. It must be random, since it is all that leads to the value.
type StoreKey [16]byte

// A Store keeps values in memory for a time, and up to a size. Beyond it, the oldest values are dropped.
// Its methods must not be called concurrently. The zero value keeps nothing.
type Store[V any] struct {
	keep    time.Duration
	total   int64
	at      map[StoreKey]*list.Element
	order   list.List             // of *stored[V], the oldest first
	owners  map[string]*list.List // likewise, for each owner
	sizes   map[string]int64      // of the values of each owner
	size    int64
	evicted uint64
}

// stored is a value of a Store.
type stored[V any] struct {
	key     StoreKey
	owner   string
	size    int64
	until   time.Time
	value   V
	ofOwner *list.Element
}

// Limit sets how long values are kept, and the size of all of them. A negative value is no limit. Values
// that are there are kept as long as they were to be.
func (s *Store[V]) Limit(keep time.Duration, total int64) {
	s.keep, s.total = keep, total
	for s.total >= 0 && s.size > s.total {
		s.evict(s.order.Front())
	}
}

// Put keeps a value of an owner, in the place of one with the same key. It reports false if the value is larger than what the owner may have: a
// quarter of the total, or all of it if the owner is "", which are all that are not identified.
func (s *Store[V]) Put(now time.Time, key StoreKey, owner string, size int64, v V) bool {
	share := s.total
	if owner != "" && share > 0 {
		share /= OwnerShare
	}
	if share >= 0 && size > share {
		return false
	}
	if at, ok := s.at[key]; ok {
		s.remove(at)
	}
	s.expire(now)
	for share >= 0 && s.sizes[owner]+size > share {
		s.evict(s.owners[owner].Front().Value.(*list.Element)) //nolint:forcetypeassert // the list has nothing else
	}
	for s.total >= 0 && s.size+size > s.total {
		s.evict(s.order.Front())
	}
	if s.at == nil {
		s.at, s.owners, s.sizes = make(map[StoreKey]*list.Element), make(map[string]*list.List), make(map[string]int64)
	}
	if s.owners[owner] == nil {
		s.owners[owner] = list.New()
	}
	e := &stored[V]{key: key, owner: owner, size: size, value: v}
	if s.keep >= 0 {
		e.until = now.Add(s.keep)
	}
	s.at[key] = s.order.PushBack(e)
	e.ofOwner = s.owners[owner].PushBack(s.at[key])
	s.sizes[owner] += size
	s.size += size
	return true
}

// Get returns the value with a key. It reports false if it is not kept, or not kept any more.
func (s *Store[V]) Get(now time.Time, key StoreKey) (v V, ok bool) {
	at, ok := s.at[key]
	if !ok {
		return v, false
	}
	e := at.Value.(*stored[V]) //nolint:forcetypeassert // likewise
	if e.isOver(now) {
		return v, false
	}
	return e.value, true
}

// Expire drops the values that have been kept for their time. It returns how long the next one is kept, and
// reports false if all stay.
func (s *Store[V]) Expire(now time.Time) (next time.Duration, ok bool) {
	s.expire(now)
	for at := s.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*stored[V]) //nolint:forcetypeassert // likewise
		if left := e.until.Sub(now); !e.until.IsZero() && (!ok || left < next) {
			next, ok = left, true
		}
	}
	return next, ok
}

// Clear drops all values.
func (s *Store[V]) Clear() {
	for at := s.order.Front(); at != nil; at = s.order.Front() {
		s.remove(at)
	}
}

// A StoreState is the state of a Store.
type StoreState struct {
	Values  int
	Bytes   int64
	Evicted uint64 // values that were dropped before their time, since the start
}

// State returns the current state.
func (s *Store[V]) State() StoreState {
	return StoreState{s.order.Len(), s.size, s.evicted}
}

func (e *stored[V]) isOver(now time.Time) bool { return !e.until.IsZero() && !now.Before(e.until) }

// expire drops the values that have been kept for their time. Only a change of the limits lets a later
// one end first; that is dropped with the ones before it.
func (s *Store[V]) expire(now time.Time) {
	for at := s.order.Front(); at != nil; {
		next := at.Next()
		if !at.Value.(*stored[V]).isOver(now) { //nolint:forcetypeassert // likewise
			return
		}
		s.remove(at)
		at = next
	}
}

func (s *Store[V]) evict(at *list.Element) {
	s.remove(at)
	s.evicted++
}

func (s *Store[V]) remove(at *list.Element) {
	e := s.order.Remove(at).(*stored[V]) //nolint:forcetypeassert // likewise
	delete(s.at, e.key)
	s.owners[e.owner].Remove(e.ofOwner)
	s.size -= e.size
	if s.sizes[e.owner] -= e.size; s.owners[e.owner].Len() == 0 {
		delete(s.owners, e.owner)
		delete(s.sizes, e.owner)
	}
}
