// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// All sessions share one limit: beyond it, each may retain an equal part.
func TestPoolIsShared(t *testing.T) {
	rules := retaining()
	rules.Logs = session.NewLogPool(6000)
	greedy, modest := session.New("greedy", "", &mcp.Peer{}, rules), session.New("modest", "", &mcp.Peer{}, rules)
	small := newResumable(t, modest, 1).prime()
	small.c.Detach()
	small.x.Finish(finish("small"))
	var big []*resumable
	for i := range 3 {
		r := newResumable(t, greedy, uint64(i)).prime()
		r.c.Detach()
		r.x.Finish(finish(strings.Repeat("x", 3000)))
		big = append(big, r)
	}
	third := session.New("third", "", &mcp.Peer{}, rules)
	r := newResumable(t, third, 1).prime()
	r.c.Detach()
	r.x.Finish(finish(strings.Repeat("y", 3500)))
	if !rules.Logs.IsFull() {
		for _, s := range []*session.Session{greedy, modest, third} {
			if s.Retained() > 4000+4000 {
				t.Errorf("%s keeps %d", s.ID, s.Retained())
			}
		}
	}
	for _, s := range []*session.Session{greedy, modest, third} {
		s.Expire(at(0))
	}
	if rules.Logs.IsFull() {
		t.Errorf("%d bytes are kept of 6000", rules.Logs.Used())
	}
	small.back()
	small.see(session.Ended, "small")
	big[0].wantErr(big[0].last, at(0), &session.GoneError{Request: jsonrpc.NumberID(0), Ended: true, SharedLimit: true})
	for _, s := range []*session.Session{greedy, modest, third} {
		s.End(mcp.Errorf(1, "over"))
	}
	if got := rules.Logs.Used(); got != 0 {
		t.Errorf("%d bytes of sessions that have ended", got)
	}
}

// An owner that opens many sessions takes nothing from others.
func TestPoolIsSharedByOwners(t *testing.T) {
	rules := retaining()
	rules.Logs = session.NewLogPool(8000)
	keep := func(principal string, i int) *resumable {
		r := newResumable(t, session.New(fmt.Sprint(principal, i), principal, &mcp.Peer{}, rules), 1).prime()
		r.c.Detach()
		r.x.Finish(finish(strings.Repeat("x", 1500)))
		return r
	}
	var greedy []*resumable
	for i := range 20 {
		greedy = append(greedy, keep("greedy", i))
	}
	modest := keep("modest", 0)
	if !rules.Logs.IsFull() {
		t.Fatalf("%d bytes are kept, which is no test", rules.Logs.Used())
	}
	// In the worst order: the session that retains little expires first.
	for _, r := range append([]*resumable{modest}, greedy...) {
		r.sess.Expire(at(0))
	}
	if rules.Logs.IsFull() {
		t.Errorf("%d bytes are kept of 8000", rules.Logs.Used())
	}
	modest.back()
	modest.see(session.Ended, strings.Repeat("x", 1500))
	last := greedy[len(greedy)-1] // found the pool full
	last.wantErr(last.last, at(0), &session.GoneError{Request: jsonrpc.NumberID(1), Ended: true, SharedLimit: true})
}

// An owner with sessions that retain nothing leaves its share to the others.
func TestPoolIsSharedByThoseWhoUseIt(t *testing.T) {
	rules := retaining()
	rules.Logs = session.NewLogPool(6000)
	keep := func(principal string, size int) *resumable {
		r := newResumable(t, session.New(principal, principal, &mcp.Peer{}, rules), 1).prime()
		r.c.Detach()
		r.x.Finish(finish(strings.Repeat("x", size)))
		return r
	}
	for i := range 5 {
		keep(fmt.Sprint("gone", i), 1000).sess.End(mcp.Errorf(1, "over"))
	}
	keep("first", 5000)
	second := keep("second", 1000)
	if !rules.Logs.IsFull() {
		t.Fatalf("%d bytes are kept, which is no test", rules.Logs.Used())
	}
	second.back() // within its half
	second.see(session.Ended, strings.Repeat("x", 1000))
}

// A pool is full if it has more than its limit, and not before.
func TestPoolIsFull(t *testing.T) {
	measure := func(limit int64) (used int64, full bool) {
		rules := retaining()
		rules.Logs = session.NewLogPool(limit)
		newResumable(t, newSession(rules), 1).prime()
		return rules.Logs.Used(), rules.Logs.IsFull()
	}
	used, _ := measure(2000)
	for limit, want := range map[int64]bool{used - 1: true, used: false, used + 1: false} {
		if got, full := measure(limit); got != used || full != want {
			t.Errorf("%d of %d bytes are used, full: %v, want %v", got, limit, full, want)
		}
	}
}
