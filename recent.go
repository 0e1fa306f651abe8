// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"container/list"
	"sync"
)

// maxRecent is the number of values that a recent keeps.
const maxRecent = 1024

// recent has the values that were used last, by their keys. The zero value is empty.
type recent[K comparable, V any] struct {
	mu    sync.Mutex
	at    map[K]*list.Element // of *recentValue[K, V]
	order list.List           // the latest one first
}

type recentValue[K comparable, V any] struct {
	key   K
	value V
}

// get returns a value.
func (r *recent[K, V]) get(key K) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.getLocked(key)
}

func (r *recent[K, V]) getLocked(key K) (v V, ok bool) {
	at, ok := r.at[key]
	if !ok {
		return v, false
	}
	r.order.MoveToFront(at)
	return at.Value.(*recentValue[K, V]).value, true //nolint:forcetypeassert // the list has nothing else
}

// set sets a value.
func (r *recent[K, V]) set(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(key, v)
}

func (r *recent[K, V]) setLocked(key K, v V) {
	made := &recentValue[K, V]{key, v}
	if at, ok := r.at[key]; ok {
		at.Value = made
		r.order.MoveToFront(at)
		return
	}
	if r.order.Len() >= maxRecent {
		oldest := r.order.Remove(r.order.Back()).(*recentValue[K, V]) //nolint:forcetypeassert // likewise
		delete(r.at, oldest.key)
	}
	if r.at == nil {
		r.at = make(map[K]*list.Element)
	}
	r.at[key] = r.order.PushFront(made)
}

// getOrAdd returns a value, or adds the one that create returns.
func (r *recent[K, V]) getOrAdd(key K, create func() V) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.getLocked(key)
	if !ok {
		v = create()
		r.setLocked(key, v)
	}
	return v
}
