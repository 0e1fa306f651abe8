// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "sync"

// Scope is how long a Handler may keep state for the sender of a request: the
// life of a legacy client session. State is kept under the scope and let go at
// its end; nobody reaches into a session to clean up after it.
//
// A Scope is made by the edge that owns the session, which also ends it. All
// methods may be called concurrently. Comparing two scopes compares pointers.
type Scope struct {
	key       string
	unrelated Caller

	mu     sync.Mutex
	ended  bool
	values map[any]any
	onEnd  []func()
	yield  func() bool
}

// NewScope returns a scope. The key tells it from others in logs and is never a
// credential. Unrelated is the address of messages that belong to the scope but
// to none of its requests; nil where there is none.
func NewScope(key string, unrelated Caller) *Scope {
	return &Scope{key: key, unrelated: unrelated}
}

// Key returns what NewScope was given.
func (s *Scope) Key() string { return s.key }

// Unrelated returns the address of messages that belong to none of the scope's
// requests, or nil. It lives as long as the scope.
func (s *Scope) Unrelated() Caller { return s.unrelated }

// Value returns what is kept under the key, making it with build if there is
// nothing yet. The second result is false, and the first nil, when the scope has
// ended. build is called under the scope's lock: it only allocates.
func (s *Scope) Value(key any, build func() any) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, false
	}
	v, ok := s.values[key]
	if !ok {
		if s.values == nil {
			s.values = make(map[any]any, 1)
		}
		v = build()
		s.values[key] = v
	}
	return v, true
}

// OnEnd has f called once when the scope ends, by whoever ends it, so that f
// must not block. It reports false, and does not call f, when the scope has
// ended already.
func (s *Scope) OnEnd(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.onEnd = append(s.onEnd, f)
	return true
}

// OnYield says how Yield asks the owner of the scope, who alone calls it. f ends
// the scope, with End and whatever else its life means to others, and reports
// true; or it reports false while the scope is in use. It is called with nothing
// locked, perhaps by several at once, and must not block. The last f counts.
func (s *Scope) OnYield(f func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.yield = f
	}
}

// Yield asks the owner to end the scope, because a Handler has no room for
// another one. It reports whether the scope has ended; a scope whose owner never
// yields, or uses it, has not. The functions that were given to OnEnd are called
// as at any end: a caller holds no lock that one of them takes.
func (s *Scope) Yield() bool {
	f, ended := s.owner()
	return ended || f != nil && f()
}

func (s *Scope) owner() (yield func() bool, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.yield, s.ended
}

// End ends the scope: what it kept is let go, and the functions that were given
// to OnEnd run in their order. Only the first call does anything. Where one of
// them panics the others still run, because they free what others keep, and then
// End panics.
func (s *Scope) End() { runAll(s.end()) }

func runAll(fs []func()) {
	if len(fs) == 0 {
		return
	}
	defer runAll(fs[1:])
	fs[0]()
}

func (s *Scope) end() []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.values = nil
	fs := s.onEnd
	s.onEnd, s.yield = nil, nil
	return fs
}
