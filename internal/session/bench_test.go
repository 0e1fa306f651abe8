// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// steps returns the frequent operations of a session, with the allocations that each may
// make: its objects, the channels of its waiters, and the closure of the caller. Their
// number must not depend on the number of sessions, streams or messages.
func steps(tb testing.TB) []step {
	now := time.Unix(1_800_000_000, 0)
	r := &session.Rules{Limits: session.DefaultLimits(), Counts: &session.Counters{}}
	s := newSession(r)
	standing := s.Standalone().Attach(make(chan struct{}, 1))
	s.Initialized()
	calls := new(session.Calls)
	result := callResult(tb, `{"content":[]}`)
	answer, change := plain("the answer"), msg(session.Change, "tools", "changed")
	var batch []session.Message
	lone := new(session.Stateless)
	wake := make(chan struct{}, 1)
	table, serial := session.NewTable(session.DefaultTableLimits()), 0
	return []step{
		{"a request in a session", 2, func() {
			x, err := s.Begin(jsonrpc.NumberID(1), func(error) {})
			if err != nil {
				tb.Fatal(err)
			}
			batch = answered(x, wake, answer, batch)
		}},
		{"a request without one", 2, func() {
			batch = answered(new(session.Stateless).Begin(jsonrpc.NumberID(1), r, func(error) {}), wake, answer, batch)
		}},
		{"a request in caller-provided memory", 1, func() {
			*lone = session.Stateless{}
			batch = answered(lone.Begin(jsonrpc.NumberID(1), r, func(error) {}), wake, answer, batch)
		}},
		{"a change", 1, func() {
			if full, err := s.Standalone().Append(change); full != nil || err != nil {
				tb.Fatal(full, err)
			}
			if batch, _ = standing.Take(batch[:0]); len(batch) != 1 {
				tb.Fatalf("took %d messages", len(batch))
			}
		}},
		{"a call", 1, func() {
			c := openCall(tb, calls, "tools/call")
			calls.Respond(c.ID(), result)
			if _, end := c.Next(); end == nil {
				tb.Fatal("no terminal")
			}
		}},
		{"a session's life", 6, func() {
			serial++
			s := session.New(fmt.Sprint(serial), "", &mcp.Peer{}, r)
			if _, err := table.Add(s, now); err != nil {
				tb.Fatal(err)
			}
			if _, err := table.Get(s.ID, "", "", now); err != nil {
				tb.Fatal(err)
			}
			table.Remove(s)
			s.End(&mcp.Error{Code: mcp.CodeInternalError, Message: "over"})
		}},
	}
}

// step is a frequent operation.
type step struct {
	name   string
	allocs float64 // at most
	do     func()
}

// answered ends an exchange and takes its terminal.
func answered(x *session.Exchange, wake chan struct{}, answer session.Message, batch []session.Message) []session.Message {
	c := x.Stream().Attach(wake)
	x.Finish(answer)
	batch, _ = c.Take(batch[:0])
	c.Detach()
	return batch
}

func BenchmarkStep(b *testing.B) {
	for _, s := range steps(b) {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.do()
			}
		})
	}
}

func TestStepsAllocateLittle(t *testing.T) {
	for _, s := range steps(t) {
		if got := testing.AllocsPerRun(200, s.do); got > s.allocs {
			t.Errorf("%s: %v allocations, want at most %v", s.name, got, s.allocs)
		}
	}
}

// The cost of a step does not depend on the number of sessions.
func TestStepsDoNotGrowWithSessions(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := &session.Rules{Limits: session.DefaultLimits(), Counts: &session.Counters{}}
	allocs := func(sessions int) float64 {
		limits := session.DefaultTableLimits()
		limits.Total = sessions + 10
		table := session.NewTable(limits)
		for i := range sessions {
			if _, err := table.Add(session.New(fmt.Sprint("s", i), "", &mcp.Peer{}, r), now); err != nil {
				t.Fatal(err)
			}
		}
		return testing.AllocsPerRun(100, func() {
			if _, err := table.Get("s1", "", "", now); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(10), allocs(10_000); few != 0 || many != 0 {
		t.Errorf("finding a session among 10 and 10,000: %v and %v allocations, want none", few, many)
	}
}
