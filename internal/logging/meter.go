// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Meter is a rate limiter for things with keys, which counts those over the limit. The limit
// and the burst of each key are most per second. The number of keys is fixed: further keys
// share the bucket of the zero key, so that chosen keys use no memory and do not avoid the
// limit.
type Meter[K comparable] struct {
	most int                // per key and second
	keys int                // maximum number of buckets
	drop func(key K, n int) // called with the number dropped since the last report

	mu    sync.Mutex
	kept  map[K]*bucket
	full  []K         // keys with something to report, in order
	timer *time.Timer // set while full is not empty
}

type bucket struct {
	tokens  *rate.Limiter
	latest  time.Time // of allow
	dropped int       // since the last report
}

// allow reports whether there is a token. Callers read the clock before they wait for the
// lock, so now may be earlier than in the previous call; a limiter would then grant the tokens
// of that time again.
func (b *bucket) allow(now time.Time) bool {
	if now.After(b.latest) {
		b.latest = now
	}
	return b.tokens.AllowN(b.latest, 1)
}

// reportEvery is the time between reports of dropped things.
const reportEvery = time.Second

// NewMeter returns a Meter that admits most things of each key per second, for at most keys
// keys. It calls drop once a second with the number of each key that it did not admit.
func NewMeter[K comparable](most, keys int, drop func(key K, n int)) *Meter[K] {
	return &Meter[K]{most: most, keys: keys, drop: drop, kept: make(map[K]*bucket)}
}

// Admit reports whether a thing is within the limit, and counts it otherwise.
func (m *Meter[K]) Admit(key K, now time.Time) bool {
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
		// Runs Report once, which returns as soon as the callbacks do. An earlier
		// report stops the timer.
		m.timer = time.AfterFunc(reportEvery, m.Report)
	}
	return false
}

// bucketLocked returns the bucket of a key, and the key under which it is kept.
func (m *Meter[K]) bucketLocked(key K, now time.Time) (K, *bucket) {
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

// forgetLocked removes full buckets, which are equal to new ones.
func (m *Meter[K]) forgetLocked(now time.Time) {
	for key, b := range m.kept {
		if b.dropped == 0 && b.tokens.TokensAt(now) >= float64(m.most) {
			delete(m.kept, key)
		}
	}
}

// Report calls drop with the number dropped for each key since the last report.
func (m *Meter[K]) Report() {
	keys, counts := m.take()
	for i, key := range keys {
		m.drop(key, counts[i])
	}
}

func (m *Meter[K]) take() (keys []K, counts []int) {
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
