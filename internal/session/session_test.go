// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func newSession(r *session.Rules) *session.Session {
	return session.New("id", "", &mcp.Peer{}, r)
}

func begin(t *testing.T, s *session.Session, id uint64) *session.Exchange {
	t.Helper()
	x, err := s.Begin(jsonrpc.NumberID(id), func(error) {})
	if err != nil {
		t.Fatalf("Begin(%d): %v", id, err)
	}
	return x
}

// M011: a duplicate in-flight id is refused; the first request keeps its stream.
func TestDuplicateIDIsRefused(t *testing.T) {
	s := newSession(rules())
	first := begin(t, s, 1)
	c := attach(first.Stream())
	if _, err := s.Begin(jsonrpc.NumberID(1), func(error) {}); !errors.Is(err, session.ErrDuplicate) {
		t.Errorf("Begin = %v, want ErrDuplicate", err)
	}
	begin(t, s, 2)
	if _, err := s.Begin(jsonrpc.StringID("1"), func(error) {}); err != nil {
		t.Errorf("Begin(\"1\") beside 1: %v, want nil", err) // I4: a different id
	}
	first.Finish(plain("end"))
	wantTake(t, c, session.Ended, "end")
}

// An id is free before its answer leaves the process: a client that has the answer may
// reuse the id.
func TestIDIsFreeBeforeItsAnswerIsTaken(t *testing.T) {
	s := newSession(rules())
	x := begin(t, s, 1)
	attach(x.Stream())
	x.Finish(plain("end"))
	if s.InFlight(jsonrpc.NumberID(1)) {
		t.Error("the id is still in flight after the terminal")
	}
	begin(t, s, 1)
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	s := newSession(rules())
	first := begin(t, s, 1)
	begin(t, s, 2)
	begin(t, s, 3)
	if _, err := s.Begin(jsonrpc.NumberID(4), func(error) {}); !errors.Is(err, session.ErrTooMany) {
		t.Errorf("Begin = %v, want ErrTooMany", err)
	}
	first.Finish(plain("end"))
	begin(t, s, 4)
}

func TestNotificationsAreInFlightWithoutAnID(t *testing.T) {
	r := rules()
	s := newSession(r)
	for range 3 {
		if _, err := s.Begin(mcp.ID{}, func(error) {}); err != nil {
			t.Fatalf("Begin of a notification: %v", err)
		}
	}
	x, err := s.Begin(mcp.ID{}, func(error) {})
	if !errors.Is(err, session.ErrTooMany) {
		t.Fatalf("Begin = %v, %v, want ErrTooMany", x, err)
	}
	if s.End(mcp.Errorf(1, "over")); r.Counts.Undelivered.Load() != 0 {
		t.Error("a notification has a terminal that could not be delivered")
	}
}

func TestCancelNamesOneRequest(t *testing.T) {
	s := newSession(rules())
	why := errors.New("why")
	var got error
	x, err := s.Begin(jsonrpc.NumberID(1), func(err error) { got = err })
	if err != nil {
		t.Fatal(err)
	}
	other := begin(t, s, 2)
	if s.Cancel(jsonrpc.NumberID(3), why) || s.Cancel(jsonrpc.StringID("1"), why) {
		t.Error("Cancel of an unknown id reports success")
	}
	if !s.Cancel(jsonrpc.NumberID(1), why) || !errors.Is(got, why) {
		t.Errorf("Cancel: stopped with %v, want %v", got, why)
	}
	if x.Finish(plain("end")) || !other.Finish(plain("end")) {
		t.Error("Cancel must end the one and leave the other")
	}
}

// M177: before the initialized notification the client receives nothing.
func TestNothingIsDeliveredBeforeInitialized(t *testing.T) {
	s := newSession(rules())
	c := attach(s.Standalone())
	mustAppend(t, s.Standalone(), msg(session.Change, "tools", "changed"))
	wantTake(t, c, session.Open)
	if !s.Initialized() || s.Initialized() {
		t.Error("Initialized must be news once")
	}
	if !isWoken(c) {
		t.Error("the consumer was not woken")
	}
	wantTake(t, c, session.Open, "changed")
}

func TestEndEndsEverything(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	var stopped []string
	var carriers []*session.Consumer
	for i := range 3 {
		x, err := s.Begin(jsonrpc.NumberID(uint64(i)), func(err error) { stopped = append(stopped, fmt.Sprint(i, errors.Is(err, session.ErrEnded))) })
		if err != nil {
			t.Fatal(err)
		}
		carriers = append(carriers, attach(x.Stream()))
	}
	standalone := attach(s.Standalone())
	ask, err := s.Standalone().Ask("roots/list", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !s.End(mcp.Errorf(-1, "over")) || s.End(mcp.Errorf(-2, "again")) {
		t.Error("End must report true once")
	}
	for i, c := range carriers {
		wantTake(t, c, session.Ended, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-1,"message":"over"}}`, i))
	}
	wantTake(t, standalone, session.Ended)
	if diff := cmp.Diff(stopped, []string{"0 true", "1 true", "2 true"}); diff != "" {
		t.Errorf("stopped, in order (-got +want):\n%s", diff)
	}
	if <-ask.Done(); !errors.Is(ask.Answer().Err, session.ErrEnded) {
		t.Errorf("ask ended with %v, want ErrEnded", ask.Answer().Err)
	}
	if _, err := s.Begin(jsonrpc.NumberID(9), func(error) {}); !errors.Is(err, session.ErrEnded) {
		t.Errorf("Begin after End = %v, want ErrEnded", err)
	}
	if _, err := s.Standalone().Append(plain("late")); !errors.Is(err, session.ErrEnded) {
		t.Errorf("Append after End = %v, want ErrEnded", err)
	}
}

// I20: open streams and requests in flight keep a session busy.
func TestIdle(t *testing.T) {
	s := newSession(rules())
	if !s.IsIdle() {
		t.Error("a new session is not idle")
	}
	x := begin(t, s, 1)
	if s.IsIdle() || s.EndIdle() {
		t.Error("a session with a request in flight is idle")
	}
	x.Finish(plain("end"))
	c := attach(s.Standalone())
	if s.IsIdle() || s.EndIdle() {
		t.Error("a session with an open stream is idle")
	}
	second := attach(s.Standalone())
	c.Detach()
	if s.IsIdle() {
		t.Error("a session whose stream changed consumers is idle")
	}
	second.Detach()
	if !s.EndIdle() {
		t.Error("EndIdle refused an idle session")
	}
}

func TestLevelIsKept(t *testing.T) {
	s := newSession(rules())
	if got := s.Level(); got != mcp.LogUnset {
		t.Errorf("Level = %v, want LogUnset", got)
	}
	s.SetLevel(mcp.LogError)
	if got := s.Level(); got != mcp.LogError {
		t.Errorf("Level = %v, want error", got)
	}
}

// An idle session costs at most 2 KiB, including its peer information.
func TestIdleSessionIsSmall(t *testing.T) {
	const n = 4000
	r := &session.Rules{Limits: session.DefaultLimits(), Counts: &session.Counters{}}
	table := session.NewTable(session.TableLimits{Total: n, PerPrincipal: n, Idle: hour, Fresh: hour})
	before := heapBytes()
	for i := range n {
		peer := &mcp.Peer{Version: mcp.V20251125, Info: make([]byte, 60), Capabilities: make([]byte, 60)}
		s := session.New(fmt.Sprintf("%026d", i), "", peer, r)
		s.Scope = mcp.NewScope("key", nil)
		x, err := s.Begin(jsonrpc.NumberID(1), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		attach(x.Stream())
		x.Finish(plain("end"))
		if _, err := table.Add(s, epoch); err != nil {
			t.Fatal(err)
		}
	}
	each := (heapBytes() - before) / n
	t.Logf("%d bytes per idle session", each)
	if each > 2048 {
		t.Errorf("an idle session costs %d bytes, want at most 2048", each)
	}
	runtime.KeepAlive(table)
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The consumer of the standalone stream gets what was queued before the end; asks are not
// sent, because no caller waits.
func TestEndDeliversQueuedMessages(t *testing.T) {
	s := newSession(rules())
	s.Initialized()
	c := attach(s.Standalone())
	mustAppend(t, s.Standalone(), plain("a"))
	if _, err := s.Standalone().Ask("roots/list", nil, nil); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s.Standalone(), plain("b"))
	s.End(mcp.Errorf(1, "over"))
	wantTake(t, c, session.Ended, "a", "b")
}
