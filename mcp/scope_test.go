// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// unrelated is a Caller that receives nothing.
type unrelated struct{ Caller }

func TestScope(t *testing.T) {
	to := &unrelated{}
	s := NewScope("s-1", to)
	if s.Key() != "s-1" || s.Unrelated() != to {
		t.Errorf("key %q, unrelated %v", s.Key(), s.Unrelated())
	}
	type key struct{}
	made := 0
	build := func() any { made++; return &made }
	first, ok1 := s.Value(key{}, build)
	again, ok2 := s.Value(key{}, build)
	other, ok3 := s.Value("other", func() any { return nil })
	if !ok1 || !ok2 || !ok3 || first != any(&made) || again != first || other != nil || made != 1 {
		t.Errorf("values %v, %v, %v; made %d times", first, again, other, made)
	}
}

// End releases the values and calls the functions once and in order.
func TestScopeEnd(t *testing.T) {
	s := NewScope("", nil)
	var ran []int
	for i := range 3 {
		if !s.OnEnd(func() { ran = append(ran, i) }) {
			t.Fatal("the scope has ended before its end")
		}
	}
	// A function of the end may call the scope: no lock is held.
	s.OnEnd(func() {
		if _, ok := s.Value("k", func() any { return 1 }); ok {
			t.Error("a value during the end")
		}
		s.End()
	})
	if _, ok := s.Value("k", func() any { return 1 }); !ok {
		t.Error("no value before the end")
	}
	s.End()
	s.End()
	if want := []int{0, 1, 2}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if v, ok := s.Value("k", func() any { t.Error("built after the end"); return 1 }); ok || v != nil {
		t.Errorf("a value after the end: %v, %v", v, ok)
	}
	if s.OnEnd(func() { t.Error("ran after the end") }) {
		t.Error("OnEnd accepts a function after the end")
	}
}

// In any order of events, each accepted function runs exactly once, one value is made,
// and none is returned after the end.
func TestScopeConcurrent(t *testing.T) {
	for range 200 {
		s := NewScope("", nil)
		var accepted, ran, made atomic.Int64
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 8 {
			// Ends by itself; wg waits.
			wg.Go(func() {
				<-start
				if i%4 == 3 {
					s.End()
				}
				if s.OnEnd(func() { ran.Add(1) }) {
					accepted.Add(1)
				}
				if v, ok := s.Value("k", func() any { made.Add(1); return &made }); ok && v != any(&made) {
					t.Errorf("value %v", v)
				}
			})
		}
		close(start)
		wg.Wait()
		s.End()
		if accepted.Load() != ran.Load() || made.Load() > 1 {
			t.Fatalf("%d accepted, %d ran, %d made", accepted.Load(), ran.Load(), made.Load())
		}
	}
}

// A scope that only its owner needs can be ended by Yield.
func TestScopeYield(t *testing.T) {
	s := NewScope("", nil)
	if s.Yield() {
		t.Error("a scope without an owner who yields has yielded")
	}
	ends, asked, inUse := 0, 0, true
	s.OnEnd(func() { ends++ })
	s.OnYield(func() bool { t.Error("asked an owner who was replaced"); return true })
	s.OnYield(func() bool {
		asked++
		if inUse {
			return false
		}
		// The owner's function uses the scope's lock.
		s.End()
		return true
	})
	if s.Yield() || ends != 0 || asked != 1 {
		t.Errorf("a scope in use: ended %d times, owner asked %d times", ends, asked)
	}
	inUse = false
	if !s.Yield() || ends != 1 || asked != 2 {
		t.Errorf("a scope at rest: ended %d times, owner asked %d times", ends, asked)
	}
	s.OnYield(func() bool { t.Error("asked after the end"); return false })
	if !s.Yield() || ends != 1 || asked != 2 {
		t.Errorf("a scope that had ended: ended %d times, owner asked %d times", ends, asked)
	}
}

// However many goroutines call Yield at once, the scope ends once.
func TestScopeYieldsOnceToMany(t *testing.T) {
	for range 200 {
		s := NewScope("", nil)
		var ends, yielded atomic.Int64
		s.OnEnd(func() { ends.Add(1) })
		s.OnYield(func() bool { s.End(); return true })
		var wg sync.WaitGroup
		for range 4 {
			// Ends by itself; wg waits.
			wg.Go(func() {
				if s.Yield() {
					yielded.Add(1)
				}
			})
		}
		wg.Wait()
		if ends.Load() != 1 || yielded.Load() != 4 {
			t.Fatalf("ended %d times, %d of 4 were told so", ends.Load(), yielded.Load())
		}
	}
}

func TestHandlerFunc(t *testing.T) {
	want := &Result{}
	h := HandlerFunc(func(_ context.Context, req *Request, _ Caller) (*Result, error) {
		if req.Method != "ping" {
			return nil, Errorf(CodeMethodNotFound, "no %s", req.Method)
		}
		return want, nil
	})
	if got, err := h.Serve(t.Context(), &Request{Method: "ping"}, nil); got != want || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := h.Serve(t.Context(), &Request{}, nil); err == nil {
		t.Error("no error")
	}
}
