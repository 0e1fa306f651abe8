// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"bytes"
	"fmt"
	"runtime"
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
	x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, nil)
	x.ChargeTo("p", 32*kib)
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

// The total is reached with its last byte, for every principal.
func TestPendingExcessOfAll(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]session.Excess{511: session.TotalExcess, 512: session.TotalExcess, 513: session.NoExcess} {
		r := pendingRules(total, 1024)
		x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, nil)
		x.ChargeTo("p", 0)
		attach(x.Stream())
		x.Finish(sized(512))
		if got := r.Pending.Excess("q"); got != want {
			t.Errorf("Excess = %v with 512 of %d KiB, want %v", got, total, want)
		}
		grow(t, reservation(r, "q"), 64, want)
	}
}

// A principal without answers costs no memory.
func TestPrincipalsWithoutAnswersAreForgotten(t *testing.T) {
	const n = 4000
	r := pendingRules(1024, 512)
	before := heapBytes()
	for i := range n {
		v := reservation(r, fmt.Sprintf("%026d", i))
		grow(t, v, 64, session.NoExcess)
		v.Release()
	}
	if each := (heapBytes() - before) / n; each > 32 {
		t.Errorf("a principal without answers costs %d bytes", each)
	}
	runtime.KeepAlive(r)
}

// The queue of a disconnected client does not count; what is retained for a client that may
// reconnect counts in the LogPool.
func TestPendingEndsWithItsClient(t *testing.T) {
	t.Parallel()
	r := pendingRules(1024, 512)
	x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, nil)
	x.ChargeTo("p", 0)
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
	c.PrimingID()
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
	for name, r := range map[string]*session.Rules{"principal": pendingRules(1024, 128), "total": pendingRules(128, 1024)} {
		fill := func() (n int) {
			x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, nil)
			x.ChargeTo("p", 0)
			attach(x.Stream())
			for ; n < 100; n++ {
				if full, err := x.Stream().Append(sized(16)); full != nil || err != nil {
					break
				}
			}
			return n
		}
		if n := fill(); n != 128/16 {
			t.Errorf("%s: %d messages of 16 KiB wait", name, n)
		}
		if n := fill(); n != 64/16 {
			t.Errorf("%s: %d messages of 16 KiB wait on another stream", name, n)
		}
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
	x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, nil)
	x.ChargeTo("p", 0)
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
	grow(t, all[1], 64, session.NoExcess) // it has them
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

// Beyond a limit one reservation continues, and another one only after it was released.
func TestOneReservationContinues(t *testing.T) {
	for name, tt := range map[string]struct {
		rules      *session.Rules
		principals [4]string
		want       session.Excess
	}{
		"of a principal": {pendingRules(1024, 128), [4]string{"p", "p", "p", "p"}, session.PrincipalExcess},
		"of all":         {pendingRules(128, 1024), [4]string{"p", "q", "r", "s"}, session.TotalExcess},
	} {
		t.Run(name, func(t *testing.T) {
			var all [4]*session.Reservation
			for i, p := range tt.principals {
				all[i] = reservation(tt.rules, p)
			}
			first, second, third, late := all[0], all[1], all[2], all[3]
			grow(t, first, 32, session.NoExcess)
			grow(t, first, 64, session.NoExcess)
			grow(t, second, 63, session.NoExcess)
			grow(t, second, 64, session.NoExcess)
			grow(t, third, 64, session.NoExcess) // beyond the limit
			grow(t, late, 64, tt.want)
			second.Release()
			grow(t, late, 64, tt.want)
			third.Release()
			grow(t, first, 128, session.NoExcess)
			grow(t, late, 64, session.NoExcess) // beyond the limit
		})
	}
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
				x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, nil)
				x.ChargeTo("p", 0)
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
