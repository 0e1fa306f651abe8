// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// Limits of a Cache.
const (
	maxTokens      = 10_000
	requestTimeout = 30 * time.Second // of a request for a token
	renewBefore    = 30 * time.Second // the end of a token, or half of its life if that is less
	renewInterval  = 10 * time.Second // between two renewals of a token that was refused
	minRetry       = time.Second      // after a failed request, doubled each time
	maxRetry       = time.Minute
)

// Key identifies what a credential is for. A Cache never returns that of another key.
type Key struct {
	Backend   string // its configured name
	Issuer    string
	ClientID  string
	Resource  string
	Scopes    string   // requested, separated by spaces
	Principal string   // the user; "" is the gateway itself
	Subject   [32]byte // the SHA-256 of the token that it was exchanged for, or zero
}

// Kept is a credential that a Cache keeps.
type Kept[T any] struct {
	Value      T
	Expires    time.Time
	Generation uint64 // not zero, and greater than those of earlier ones of the Cache
}

// Requester requests a credential, and returns when it ends. Its context ends after 30 seconds,
// and with the Cache.
type Requester[T any] func(ctx context.Context) (T, time.Time, error)

// Cache keeps credentials in memory, such as access tokens: at most 10,000, until 30 seconds
// before they end. It requests each once, however many wait for it, and after a failure waits
// between a second and a minute. Its methods may be called concurrently.
type Cache[T any] struct {
	ctx    context.Context //nolint:containedctx // of the requests; Close ends it
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	entries map[Key]*entry[T]
	last    uint64 // generation
}

// entry is what is known of one key.
type entry[T any] struct {
	token   Kept[T] // the latest one, or zero
	renew   time.Time
	used    time.Time
	refused time.Time // when a token was last renewed because it was refused
	running *running  // the request in progress, or nil

	failure  error // of the last request, or nil
	failures int   // in a row
	retryAt  time.Time
}

// running is a request in progress.
type running struct {
	done chan struct{}
	err  error // set before done is closed
}

// Errors of a Cache.
var (
	errClosed = errors.New("the gateway ends")

	// ErrJustRenewed is returned by Renew if the token that was refused is itself the result of
	// a renewal within the last ten seconds.
	ErrJustRenewed = errors.New("the token was renewed just now, and is refused again")
)

// NewCache returns an empty Cache. The caller must close it.
func NewCache[T any]() *Cache[T] {
	c := &Cache[T]{entries: make(map[Key]*entry[T])}
	c.ctx, c.cancel = context.WithCancel(context.Background()) //nolint:gosec,nolintlint // Close calls it
	return c
}

// Close ends the requests in progress, and returns when they have ended. It may be called more
// than once.
func (c *Cache[T]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Get returns the credential of a key, and requests one if none is kept. If the request fails, it
// returns the one before for as long as that lasts.
func (c *Cache[T]) Get(ctx context.Context, k Key, request Requester[T]) (Kept[T], error) {
	c.mu.Lock()
	e := c.entryLocked(k)
	now := time.Now()
	switch {
	case now.Before(e.renew):
		defer c.mu.Unlock()
		return e.token, nil
	case e.running == nil && now.Before(e.retryAt):
		defer c.mu.Unlock()
		return e.lastingLocked(now)
	}
	r, err := c.startLocked(e, request)
	c.mu.Unlock()
	if err != nil {
		return Kept[T]{}, err
	}
	return c.await(ctx, e, r)
}

// Renew returns a credential after the one with a generation was refused: a later one, or one that
// it requests. It requests one at most every ten seconds, and returns ErrJustRenewed otherwise.
func (c *Cache[T]) Renew(ctx context.Context, k Key, refused uint64, request Requester[T]) (Kept[T], error) {
	c.mu.Lock()
	e := c.entryLocked(k)
	now := time.Now()
	switch {
	case e.token.Generation > refused:
		defer c.mu.Unlock()
		return e.token, nil
	case e.running == nil && !e.refused.IsZero() && now.Sub(e.refused) < renewInterval:
		defer c.mu.Unlock()
		if e.failure != nil {
			return Kept[T]{}, e.failure
		}
		return Kept[T]{}, ErrJustRenewed
	case e.running == nil:
		e.refused = now
	}
	r, err := c.startLocked(e, request)
	c.mu.Unlock()
	if err != nil {
		return Kept[T]{}, err
	}
	t, err := c.await(ctx, e, r)
	if err == nil && t.Generation <= refused { // the old one, because the request has failed
		return Kept[T]{}, r.err
	}
	return t, err
}

// Retry makes the next Get and Renew request a token at once, whatever has failed before.
func (c *Cache[T]) Retry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		e.refused, e.failures, e.retryAt = time.Time{}, 0, time.Time{}
	}
}

// await waits for a request and returns what the entry has then.
func (c *Cache[T]) await(ctx context.Context, e *entry[T], r *running) (Kept[T], error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return Kept[T]{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err == nil {
		return e.token, nil
	}
	return e.lastingLocked(time.Now())
}

// lastingLocked returns the token if it has not ended, or else the failure of the last request.
func (e *entry[T]) lastingLocked(now time.Time) (Kept[T], error) {
	if now.Before(e.token.Expires) {
		return e.token, nil
	}
	return Kept[T]{}, e.failure
}

// startLocked returns the request in progress, which it starts if necessary.
//
//nolint:contextcheck,nolintlint // reported here for all callers: a request outlives the one that waits for it first
func (c *Cache[T]) startLocked(e *entry[T], request Requester[T]) (*running, error) {
	if e.running != nil {
		return e.running, nil
	}
	if c.closed {
		return nil, errClosed
	}
	r := &running{done: make(chan struct{})}
	e.running = r
	c.wg.Go(func() { // bounded by its context; Close waits for it
		ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
		defer cancel()
		began := time.Now()
		value, expires, err := request(ctx)
		c.finish(e, r, Kept[T]{Value: value, Expires: expires}, began, err)
	})
	return r, nil
}

// finish records the result of a request.
func (c *Cache[T]) finish(e *entry[T], r *running, t Kept[T], began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(r.done)
	e.running, e.failure, r.err = nil, err, err
	now := time.Now()
	if err != nil {
		wait := min(minRetry<<min(e.failures, 16), maxRetry)
		if temporary, ok := errors.AsType[*oauth.TemporaryError](err); ok {
			wait = max(wait, min(temporary.RetryAfter, maxRetry))
		}
		e.failures++
		e.retryAt = now.Add(wait)
		return
	}
	c.last++
	e.failures, e.retryAt = 0, time.Time{}
	e.token, e.token.Generation = t, c.last
	e.renew = t.Expires.Add(-min(renewBefore, t.Expires.Sub(began)/2))
}

// entryLocked returns the entry of a key, and adds it if necessary.
func (c *Cache[T]) entryLocked(k Key) *entry[T] {
	now := time.Now()
	e := c.entries[k]
	if e == nil {
		c.dropLocked(now)
		if len(c.entries) >= maxTokens {
			c.evictLocked()
		}
		e = new(entry[T])
		c.entries[k] = e
	}
	e.used = now
	return e
}

// dropLocked removes what has ended among a few entries that the map returns in random order. Each
// new entry removes more than one on average, so that few remain.
func (c *Cache[T]) dropLocked(now time.Time) {
	const look = 8
	n := 0
	for k, e := range c.entries {
		if e.running == nil && !now.Before(e.token.Expires) && now.Sub(e.used) >= maxRetry {
			delete(c.entries, k)
		}
		if n++; n == look {
			return
		}
	}
}

// evictLocked removes an entry that is among those used least recently: the oldest of a few that
// the map returns in random order.
func (c *Cache[T]) evictLocked() {
	const look = 32
	var oldest Key
	var at time.Time
	n := 0
	for k, e := range c.entries {
		if n++; at.IsZero() || e.used.Before(at) {
			oldest, at = k, e.used
		}
		if n == look {
			break
		}
	}
	delete(c.entries, oldest)
}
