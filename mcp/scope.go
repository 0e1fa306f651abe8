// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "sync"

// A Scope is how long a Handler may keep state for the sender of a request: the life of
// a legacy client session. State is kept under the scope and released at its end, so
// that no Handler needs access to the session to clean up.
//
// A Scope is made and ended by the edge that owns the session. All methods may be
// called concurrently. Scopes are compared by pointer.
type Scope struct {
	key       string
	unrelated Caller

	mu     sync.Mutex
	ended  bool
	gone   bool
	values map[any]any
	onEnd  []func()
	yield  func() bool
}

// NewScope returns a scope. The key identifies the scope in logs and is never a
// credential. Unrelated sends messages that belong to the scope but to none of its
// requests; nil if there is no way to send them.
func NewScope(key string, unrelated Caller) *Scope {
	return &Scope{key: key, unrelated: unrelated}
}

// Key returns the key that was passed to NewScope.
func (s *Scope) Key() string { return s.key }

// Unrelated returns the Caller for messages that belong to none of the scope's
// requests, or nil. It is valid as long as the scope.
func (s *Scope) Unrelated() Caller { return s.unrelated }

// Value returns the value kept under the key; if there is no value, it calls build to
// make it. If the scope has ended it returns nil and false. build is called under the
// scope's lock and must only allocate.
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

// OnEnd registers f to be called once when the scope ends, by the goroutine that ends
// it, so f must not block. If the scope has already ended, OnEnd reports false and does
// not call f.
func (s *Scope) OnEnd(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.onEnd = append(s.onEnd, f)
	return true
}

// OnYield sets the function that Yield calls. Only the owner of the scope calls
// OnYield. f either ends the scope, with End and everything else that its life means to
// others, and reports true, or reports false while the scope is in use. It is called
// without locks, perhaps concurrently, and must not block. The last f counts.
func (s *Scope) OnYield(f func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.yield = f
	}
}

// Yield asks the owner to end the scope, because a Handler has no room for another one.
// It reports whether the scope has ended; it has not if its owner never yields or is
// using it. The functions passed to OnEnd are called as at any end: the caller must
// hold no lock that one of them takes.
func (s *Scope) Yield() bool {
	f, ended := s.owner()
	return ended || f != nil && f()
}

func (s *Scope) owner() (yield func() bool, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.yield, s.ended
}

// Abandon records that the sender is gone, and has not ended the scope in order. What
// ends with the scope then need not take its time. It is called before End.
func (s *Scope) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

// IsAbandoned reports whether Abandon was called.
func (s *Scope) IsAbandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// End ends the scope: it releases the kept values and calls the functions passed to
// OnEnd in order. Only the first call has an effect. If one of the functions panics the
// others are still called, because they free resources, and then End panics.
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
