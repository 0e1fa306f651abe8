// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// meter lets so many things of each key pass in a second and counts the others.
// A burst may be as large as a whole second's. It keeps a fixed number of keys:
// what comes when all are in use shares one bucket, that of the zero key, so that
// whoever can choose keys gains neither memory nor a way around the bound.
type meter[K comparable] struct {
	most int                // of one key in a second
	keys int                // that are kept
	tell func(key K, n int) // so many did not pass since the last report

	mu    sync.Mutex
	kept  map[K]*bucket
	full  []K         // with something to report, in the order in which that began
	timer *time.Timer // set while there is any
}

type bucket struct {
	tokens  *rate.Limiter
	latest  time.Time // that it was asked at
	dropped int       // since the last report
}

// allow reports whether there is a token. Callers take the time before they wait
// for the lock and do not get it in that order; a limiter that is asked at an
// earlier time gives out the time until then once more.
func (b *bucket) allow(now time.Time) bool {
	if now.After(b.latest) {
		b.latest = now
	}
	return b.tokens.AllowN(b.latest, 1)
}

// reportEvery is how often it is told what did not pass, while that goes on.
const reportEvery = time.Second

func newMeter[K comparable](most, keys int, tell func(key K, n int)) *meter[K] {
	return &meter[K]{most: most, keys: keys, tell: tell, kept: make(map[K]*bucket)}
}

// admit reports whether a thing may pass.
func (m *meter[K]) admit(key K, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, b := m.bucketLocked(key, now)
	if b.allow(now) {
		return true
	}
	if b.dropped == 0 {
		m.full = append(m.full, key)
	}
	b.dropped++
	if m.timer == nil {
		// Runs report once, which returns as soon as tell does. An earlier report
		// stops it.
		m.timer = time.AfterFunc(reportEvery, m.report)
	}
	return false
}

// bucketLocked returns the bucket of a key, and the key that it is under.
func (m *meter[K]) bucketLocked(key K, now time.Time) (K, *bucket) {
	if b, ok := m.kept[key]; ok {
		return key, b
	}
	if len(m.kept) >= m.keys {
		m.forgetLocked(now)
	}
	if len(m.kept) >= m.keys {
		var others K
		key = others
	}
	b, ok := m.kept[key]
	if !ok {
		b = &bucket{tokens: rate.NewLimiter(rate.Limit(m.most), m.most)}
		m.kept[key] = b
	}
	return key, b
}

// forgetLocked lets go of the keys that a new bucket would serve as well.
func (m *meter[K]) forgetLocked(now time.Time) {
	for key, b := range m.kept {
		if b.dropped == 0 && b.tokens.TokensAt(now) >= float64(m.most) {
			delete(m.kept, key)
		}
	}
}

// report tells how many of each key did not pass since the last time.
func (m *meter[K]) report() {
	keys, counts := m.take()
	for i, key := range keys {
		m.tell(key, counts[i])
	}
}

func (m *meter[K]) take() (keys []K, counts []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	keys, m.full = m.full, nil
	for _, key := range keys {
		counts = append(counts, m.kept[key].dropped)
		m.kept[key].dropped = 0
	}
	return keys, counts
}
