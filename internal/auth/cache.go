// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"sync"
	"time"
)

const (
	// keptToken is how long a verified token is not verified again.
	keptToken = 5 * time.Minute

	// maxKept bounds the number of verified tokens that are kept.
	maxKept = 10_000
)

// cache has the tokens that were verified lately, by their digests. The zero value is empty.
type cache struct {
	mu   sync.RWMutex
	kept map[digest]*verified
}

// get returns the verified token with a digest, or nil.
func (c *cache) get(sum *digest, now time.Time) *verified {
	c.mu.RLock()
	v := c.kept[*sum]
	c.mu.RUnlock()
	if v == nil || !v.isValid(now) {
		return nil
	}
	return v
}

// isValid reports whether the token need not be verified again: it has not expired, and the
// issuer still has its key.
func (v *verified) isValid(now time.Time) bool { return now.Before(v.until) && !v.key.gone.Load() }

// put keeps a verified token. If there are too many, it drops those that are no longer valid,
// or else an arbitrary one: a dropped token is verified again.
func (c *cache) put(sum *digest, v *verified, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = make(map[digest]*verified)
	}
	if len(c.kept) >= maxKept {
		c.makeRoomLocked(now)
	}
	c.kept[*sum] = v
}

// makeRoomLocked drops tokens. It looks at a part of them only, so that a full cache costs each
// token little.
func (c *cache) makeRoomLocked(now time.Time) {
	const looked = 32
	seen := 0
	for sum, v := range c.kept { // in random order
		if !v.isValid(now) || seen == looked-1 {
			delete(c.kept, sum)
		}
		if seen++; seen == looked {
			return
		}
	}
}
