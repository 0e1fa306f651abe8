// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const kib = 1 << 10

// pendingRules returns rules with these limits, in KiB.
func pendingRules(total, perPrincipal int64) *session.Rules {
	return &session.Rules{
		Limits:  session.DefaultLimits(),
		Counts:  new(session.Counters),
		Logs:    session.NewLogPool(1 << 30),
		Pending: session.NewPending(session.PendingLimits{Total: total * kib, PerPrincipal: perPrincipal * kib}),
	}
}

func sized(n int) session.Message { return session.Message{Body: make([]byte, n*kib)} }

func wantBytes(t *testing.T, r *session.Rules, what string, want int64) {
	t.Helper()
	if got := r.Pending.Bytes(); got != want*kib {
		t.Errorf("%s: %d KiB are counted, want %d", what, got/kib, want)
	}
}

// Queued bytes and bytes being written count once, until they are written.
func TestPendingCountsUntilWritten(t *testing.T) {
	t.Parallel()
	r := pendingRules(1024, 512)
	x := session.NewStateless(jsonrpc.NumberID(1), r, nil)
	x.CountFor("p", 32*kib)
	c := x.Stream().Attach(make(chan struct{}, 1))
	wantBytes(t, r, "before", 0)
	if full, err := x.Stream().Append(sized(160)); full != nil || err != nil {
		t.Fatal(full, err)
	}
	wantBytes(t, r, "a message waits", 160)
	x.Finish(sized(320))
	wantBytes(t, r, "the terminal, too, and what is beside it", 512)
	if got := r.Pending.Excess("p"); got != session.PrincipalExcess {
		t.Errorf("Excess = %v", got)
	}
	if got := r.Pending.Excess("q"); got != session.NoExcess {
		t.Errorf("Excess of another = %v", got)
	}
	if batch, _ := c.Take(nil); len(batch) != 1 {
		t.Fatalf("%d messages", len(batch))
	}
	wantBytes(t, r, "one is being written", 512)
	if _, state := c.Take(nil); state != session.Ended {
		t.Fatal(state)
	}
	wantBytes(t, r, "it is written", 352)
	c.Detach()
	wantBytes(t, r, "all is written", 0)
	if got := r.Pending.Excess("p"); got != session.NoExcess {
		t.Errorf("Excess = %v at the end", got)
	}
}

// The queue of a disconnected client does not count; what is retained for a client that may
// reconnect counts in the LogPool.
func TestPendingEndsWithItsClient(t *testing.T) {
	t.Parallel()
	r := pendingRules(1024, 512)
	x := session.NewStateless(jsonrpc.NumberID(1), r, nil)
	x.CountFor("p", 0)
	c := x.Stream().Attach(make(chan struct{}, 1))
	x.Finish(sized(64))
	c.Detach()
	wantBytes(t, r, "it has left", 0)

	s := session.New("id", "p", &mcp.Peer{}, r)
	y, err := s.Begin(jsonrpc.NumberID(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	c = y.Stream().Attach(make(chan struct{}, 1))
	c.MakeResumable()
	c.Prime()
	y.Finish(sized(64))
	wantBytes(t, r, "it waits", 64)
	c.Detach()
	wantBytes(t, r, "it is kept", 0)
	if used := r.Logs.Used(); used < 64*kib {
		t.Errorf("%d bytes are kept", used)
	}
	s.End(&mcp.Error{})
	wantBytes(t, r, "the session has ended", 0)
}

// For a principal that has reached its limit, the queue of each of its streams is limited
// more closely.
func TestPendingBoundsStreams(t *testing.T) {
	t.Parallel()
	r := pendingRules(1024, 128)
	x := session.NewStateless(jsonrpc.NumberID(1), r, nil)
	x.CountFor("p", 0)
	x.Stream().Attach(make(chan struct{}, 1))
	n := 0
	for ; n < 100; n++ {
		if full, err := x.Stream().Append(sized(16)); full != nil || err != nil {
			break
		}
	}
	if n != 128/16 {
		t.Errorf("%d messages of 16 KiB wait", n)
	}
}

func reservation(r *session.Rules, principal string) *session.Reservation {
	v := new(session.Reservation)
	v.Init(r.Pending, principal)
	return v
}

func grow(t *testing.T, v *session.Reservation, n int64, want session.Excess) <-chan struct{} {
	t.Helper()
	got, room := v.Grow(n * kib)
	if got != want || (room == nil) != (want == session.NoExcess || want == session.RequestEnded) {
		t.Fatalf("Grow(%d KiB) = %v, %v; want %v", n, got, room, want)
	}
	return room
}

// An answer being received waits while others of its principal are held, and continues when
// one of these is written. Another principal's answer does not wait.
func TestReservationWaitsForSpace(t *testing.T) {
	t.Parallel()
	r := pendingRules(1024, 128)
	x := session.NewStateless(jsonrpc.NumberID(1), r, nil)
	x.CountFor("p", 0)
	c := x.Stream().Attach(make(chan struct{}, 1))
	x.Finish(sized(128))
	v := reservation(r, "p")
	room := grow(t, v, 64, session.PrincipalExcess)
	grow(t, reservation(r, "q"), 64, session.NoExcess)
	select {
	case <-room:
		t.Fatal("the limit is not reached")
	default:
	}
	c.Take(nil)
	c.Detach()
	<-room
	grow(t, v, 64, session.NoExcess)
	wantBytes(t, r, "both are received", 128)
	v.Release()
	grow(t, v, 64, session.RequestEnded)
	wantBytes(t, r, "one is left", 64)
}

// Answers that are half received do not wait for each other: one of each principal
// continues, and after it the next.
func TestReservationsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	r := pendingRules(256, 128)
	var all []*session.Reservation
	for _, p := range []string{"p", "q"} {
		for range 2 {
			v := reservation(r, p)
			grow(t, v, 64, session.NoExcess)
			all = append(all, v)
		}
	}
	grow(t, all[0], 128, session.NoExcess) // the leader, of its principal and of all
	grow(t, all[1], 128, session.PrincipalExcess)
	grow(t, all[2], 128, session.TotalExcess)
	grow(t, all[0], 256, session.NoExcess)
	all[0].Release()
	grow(t, all[1], 128, session.NoExcess)
	all[1].Release()
	grow(t, all[2], 128, session.NoExcess)
	grow(t, all[3], 128, session.PrincipalExcess)
	all[2].Release()
	grow(t, all[3], 128, session.NoExcess)
	all[3].Release()
	wantBytes(t, r, "at the end", 0)
}

// A waiter is not missed by a release at the same moment.
func TestReservationIsWoken(t *testing.T) {
	t.Parallel()
	r := pendingRules(1024, 64)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				v := reservation(r, "p")
				for {
					excess, room := v.Grow(64 * kib)
					if excess == session.NoExcess {
						break
					}
					<-room
				}
				x := session.NewStateless(jsonrpc.NumberID(1), r, nil)
				x.CountFor("p", 0)
				c := x.Stream().Attach(make(chan struct{}, 1))
				x.Finish(session.Message{Body: bytes.Repeat([]byte{'x'}, 64*kib)})
				v.Release()
				c.Take(nil)
				c.Detach()
			}
		})
	}
	wg.Wait()
	wantBytes(t, r, "at the end", 0)
}
