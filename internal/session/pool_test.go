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
			if s.Kept() > 4000+4000 {
				t.Errorf("%s keeps %d", s.ID, s.Kept())
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
