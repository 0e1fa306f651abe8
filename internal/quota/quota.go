// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota bounds how many calls may be made in a time, by each principal or by all of
// them together.
//
// Each rule has token buckets: a bucket holds up to Rule.Burst tokens and begins full, a call
// takes one, and Rule.Calls tokens come back in Rule.Every. A call without a token in each
// bucket that it needs is refused, and then takes none. The buckets are in memory only: after
// a restart all are full.
//
// This is about calls over time. The limits on requests in flight are those of package server.
package quota

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// MaxPrincipals is how many principals a rule distinguishes at a time. Beyond it, a new
// principal takes the place of the one with the bucket that is full, or will be full first.
// The next call of that one begins with a full bucket.
const MaxPrincipals = 10_000

// Rule bounds the calls of some items.
type Rule struct {
	PerPrincipal bool     // a bucket for each principal; otherwise one for all of them
	On           []string // patterns of names as clients see them, and of URIs; none means all
	Calls        int      // how many tokens come back in Every; above zero
	Every        time.Duration
	Burst        int // how many tokens a bucket holds; above zero
}

// Equal reports whether both rules bound the same calls equally.
func (r Rule) Equal(other Rule) bool {
	on := slices.Equal(r.On, other.On)
	return on && r.PerPrincipal == other.PerPrincipal && r.Calls == other.Calls && r.Every == other.Every && r.Burst == other.Burst
}

// Quotas charges calls to rules. The zero value has no rules and admits all calls. Its
// methods may be called concurrently and do not block.
type Quotas struct {
	hasRules atomic.Bool

	mu    sync.Mutex
	rules []*counted
}

// Use replaces the rules. A rule that was there before keeps its buckets, whatever its
// index was. It does not retain the argument, but the patterns in it.
func (q *Quotas) Use(rules []Rule) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := slices.Clone(q.rules)
	next := make([]*counted, len(rules))
	for i, rule := range rules {
		if k := slices.IndexFunc(before, func(c *counted) bool { return c.Equal(rule) }); k >= 0 {
			next[i] = before[k]
			before = slices.Delete(before, k, k+1) // of two equal rules each has its own
			continue
		}
		next[i] = newCounted(rule)
	}
	q.rules = next
	q.hasRules.Store(len(rules) > 0)
}

// Refusal describes why a call is refused.
type Refusal struct {
	Rule  Rule          // the one to wait longest for if several refuse
	Index int           // of the rule
	Wait  time.Duration // after which the call would be admitted if there were no others
}

// Take charges a call of a tool or prompt by a principal to all rules about it. If it reports
// false, the call is refused and nothing is charged. For a principal that made a call recently it
// does not allocate.
func (q *Quotas) Take(principal, name string) (Refusal, bool) {
	if !q.hasRules.Load() {
		return Refusal{}, true
	}
	return q.take(principal, item{name, name})
}

// TakeURI is Take for a resource. A rule is about a URI if its pattern matches it as it is
// written or in its plain form, which plain returns.
func (q *Quotas) TakeURI(principal, uri string, plain func() string) (Refusal, bool) {
	if !q.hasRules.Load() {
		return Refusal{}, true
	}
	return q.take(principal, item{uri, plain()})
}

// item is the name of an item, and for a URI its plain form.
type item struct{ name, plain string }

func (q *Quotas) take(principal string, item item) (Refusal, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now() // under the lock, so that it never decreases
	var refused Refusal
	for i, c := range q.rules {
		if wait := c.wait(principal, item, now); wait > refused.Wait {
			refused = Refusal{Rule: c.Rule, Index: i, Wait: wait}
		}
	}
	if refused.Wait > 0 {
		return refused, false
	}
	for _, c := range q.rules {
		c.charge(principal, item, now)
	}
	return Refusal{}, true
}

// counted is a rule with its buckets.
type counted struct {
	Rule

	all     *bucket            // nil if PerPrincipal
	of      map[string]*bucket // by principal
	byFull  bucketHeap         // those of the principals
	maximum int                // how many
}

func newCounted(r Rule) *counted {
	c := &counted{Rule: r, maximum: MaxPrincipals}
	if r.PerPrincipal {
		c.of = make(map[string]*bucket)
	} else {
		c.all = c.newBucket("")
	}
	return c
}

func (c *counted) matches(it item) bool {
	return len(c.On) == 0 || slices.ContainsFunc(c.On, func(pattern string) bool { return glob.MatchURI(pattern, it.name, it.plain) })
}

// wait returns how long a call has to wait for a token, or zero if the rule does not refuse
// it.
func (c *counted) wait(principal string, item item, now time.Time) time.Duration {
	if !c.matches(item) {
		return 0
	}
	b := c.all
	if c.PerPrincipal {
		if b = c.of[principal]; b == nil {
			return 0 // full
		}
	}
	return c.comeBack(1 - b.tokens.TokensAt(now))
}

// charge takes a token for a call that no rule refuses.
func (c *counted) charge(principal string, item item, now time.Time) {
	switch {
	case !c.matches(item):
	case !c.PerPrincipal:
		c.all.tokens.AllowN(now, 1)
	default:
		b := c.bucketOf(principal, now)
		b.tokens.AllowN(now, 1)
		b.full = now.Add(c.comeBack(float64(c.Burst) - b.tokens.TokensAt(now)))
		heap.Fix(&c.byFull, b.index)
	}
}

// bucketOf returns the bucket of a principal.
func (c *counted) bucketOf(principal string, now time.Time) *bucket {
	if b := c.of[principal]; b != nil {
		return b
	}
	if len(c.byFull) >= c.maximum {
		first, _ := heap.Pop(&c.byFull).(*bucket)
		delete(c.of, first.principal)
	}
	b := c.newBucket(principal)
	b.full = now
	c.of[principal] = b
	heap.Push(&c.byFull, b)
	return b
}

func (c *counted) newBucket(principal string) *bucket {
	return &bucket{principal: principal, tokens: rate.NewLimiter(c.limit(), c.Burst)}
}

// limit returns the tokens that come back in a second.
func (c *counted) limit() rate.Limit { return rate.Limit(float64(c.Calls) / c.Every.Seconds()) }

// comeBack returns the time in which tokens come back. It rounds as package rate does, so that
// both agree on whether there is one.
func (c *counted) comeBack(tokens float64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour // more would overflow
	return time.Duration(min(tokens/float64(c.limit())*float64(time.Second), float64(most)))
}

// bucket is the tokens of one principal, or of all.
type bucket struct {
	principal string
	tokens    *rate.Limiter
	full      time.Time // when it has Rule.Burst tokens, unless more are taken
	index     int       // in the heap
}

// bucketHeap is a [heap.Interface] with the bucket that is full first at index 0.
type bucketHeap []*bucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return h[i].full.Before(h[j].full) }

func (h bucketHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a *bucket.
func (h *bucketHeap) Push(x any) {
	b, _ := x.(*bucket)
	b.index = len(*h)
	*h = append(*h, b)
}

// Pop removes the last element.
func (h *bucketHeap) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return b
}
