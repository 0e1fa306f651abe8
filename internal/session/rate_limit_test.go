// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// paced returns rules with a rate limit of a burst of three and then one per second for
// both kinds, and large queues.
func rateLimited() *session.Rules {
	r := rules()
	r.Limits.Messages, r.Limits.Bytes = 1000, 1<<20
	r.Limits.Progress = session.RateLimit{Burst: 3, Every: time.Second}
	r.Limits.Logs = session.RateLimit{Burst: 2, Every: time.Second}
	return r
}

// report reports progress, and returns how long it is deferred.
func report(t *testing.T, x *session.Exchange, text string, now time.Time) time.Duration {
	t.Helper()
	due, full, err := x.Report(msg(session.Progress, "t", text), now)
	if full != nil || err != nil {
		t.Fatalf("Report(%s): full %v, %v; want neither", text, full != nil, err)
	}
	if due.IsZero() {
		return 0
	}
	return due.Sub(now)
}

// wantKept checks how long progress is deferred.
func wantDeferred(t *testing.T, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("kept back for %v, want %v", got, want)
	}
}

// DELIVERY 5.7: a burst is sent; beyond it the latest is deferred until its time has come.
func TestProgressRateLimit(t *testing.T) {
	r := rateLimited()
	x := stateless(t, r)
	c := attach(x.Stream())
	now := time.Unix(1000, 0)
	for i := range 3 {
		wantDeferred(t, report(t, x, fmt.Sprint(i), now), 0)
	}
	wantTake(t, c, session.Open, "0", "1", "2")
	wantDeferred(t, report(t, x, "3", now), time.Second)
	wantDeferred(t, report(t, x, "4", now.Add(400*time.Millisecond)), 600*time.Millisecond)
	wantTake(t, c, session.Open)
	if due := x.Release(now.Add(999 * time.Millisecond)); due != now.Add(time.Second) {
		t.Errorf("Release before its time: due %v, want %v", due, now.Add(time.Second))
	}
	if due := x.Release(now.Add(time.Second)); !due.IsZero() {
		t.Errorf("Release in its time: due %v, want none", due)
	}
	wantTake(t, c, session.Open, "4")
	wantDeferred(t, report(t, x, "5", now.Add(time.Second)), time.Second)
	// A newer one within the limit replaces the deferred one.
	wantDeferred(t, report(t, x, "6", now.Add(2*time.Second)), 0)
	if due := x.Release(now.Add(time.Hour)); !due.IsZero() {
		t.Errorf("Release of nothing: due %v", due)
	}
	wantTake(t, c, session.Open, "6")
	if got := r.Counts.Merged.Load(); got != 2 {
		t.Errorf("merged = %d, want 2", got)
	}
	// After a pause a whole burst is available again.
	now = now.Add(time.Hour)
	for i := range 3 {
		wantDeferred(t, report(t, x, fmt.Sprint(i), now), 0)
	}
	wantDeferred(t, report(t, x, "3", now), time.Second)
}

// Deferred progress precedes the terminal, which does not wait.
func TestDeferredProgressPrecedesTerminal(t *testing.T) {
	now := time.Unix(1000, 0)
	flood := func(x *session.Exchange) {
		for i := range 1000 {
			_, _, _ = x.Report(msg(session.Progress, "t", fmt.Sprint(i)), now)
		}
	}
	t.Run("finish", func(t *testing.T) {
		x := stateless(t, rateLimited())
		c := attach(x.Stream())
		flood(x)
		x.Finish(plain("end"))
		wantTake(t, c, session.Ended, "0", "1", "2", "999", "end")
		if due := x.Release(now.Add(time.Hour)); !due.IsZero() {
			t.Errorf("Release after the end: due %v", due)
		}
	})
	t.Run("the end of the session", func(t *testing.T) {
		s := newSession(rateLimited())
		x := begin(t, s, 1)
		c := attach(x.Stream())
		flood(x)
		s.End(mcp.Errorf(1, "over"))
		got, _ := take(c)
		if len(got) != 5 || got[3] != "999" {
			t.Errorf("took %q; want the kept one before the error", got)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		x := new(session.Stateless).Begin(jsonrpc.NumberID(1), rateLimited(), func(error) {})
		c := attach(x.Stream())
		flood(x)
		x.Cancel(errors.New("why"))
		wantTake(t, c, session.Ended)
	})
	t.Run("a receiver that is slow", func(t *testing.T) {
		r := rateLimited()
		r.Limits.Messages = 4
		x := stateless(t, r)
		c := attach(x.Stream())
		flood(x)
		x.Finish(plain("end"))
		wantTake(t, c, session.Ended, "2", "999", "end")
	})
	t.Run("a receiver that is gone", func(t *testing.T) {
		x := stateless(t, rateLimited())
		c := attach(x.Stream())
		flood(x)
		c.Detach()
		x.Finish(plain("end"))
		wantTake(t, c, session.Revoked)
	})
}

// The form of the answer does not depend on deferred progress: it was decided by the burst
// before.
func TestDeferredProgressKeepsForm(t *testing.T) {
	r := rateLimited()
	r.Limits.Progress.Burst = 1
	x := stateless(t, r)
	report(t, x, "0", time.Unix(1000, 0))
	report(t, x, "1", time.Unix(1000, 0))
	x.Finish(plain("end"))
	if got := x.Form(false); got != session.SSE {
		t.Errorf("Form = %v, want SSE", got)
	}
}

// Log messages beyond their rate limit are dropped and counted; progress has its own limit.
func TestLogRateLimit(t *testing.T) {
	r := rateLimited()
	x := stateless(t, r)
	c := attach(x.Stream())
	now := time.Unix(1000, 0)
	for i := range 100 {
		due, full, err := x.Report(msg(session.Log, "", fmt.Sprint(i)), now)
		if !due.IsZero() || full != nil || err != nil {
			t.Fatalf("Report of a log message: %v, %v, %v; want nothing to wait for", due, full, err)
		}
	}
	report(t, x, "progress", now)
	wantTake(t, c, session.Open, "0", "1", "progress")
	_, _, _ = x.Report(msg(session.Log, "", "later"), now.Add(time.Second))
	wantTake(t, c, session.Open, "later")
	if got := r.Counts.Dropped.Load(); got != 98 {
		t.Errorf("dropped = %d, want 98", got)
	}
}

// Report waits for a full stream like Append, and a message that had to wait has not used
// up its turn.
func TestReportWaitsForSpace(t *testing.T) {
	r := rateLimited()
	r.Limits.Bytes = 80
	x := stateless(t, r)
	c := attach(x.Stream())
	now := time.Unix(1000, 0)
	mustAppend(t, x.Stream(), plain(strings.Repeat("x", 80)))
	for range 5 {
		if due, full, err := x.Report(msg(session.Progress, "t", "p"), now); full == nil || !due.IsZero() || err != nil {
			t.Fatalf("Report to a full stream: %v, %v, %v; want a channel", due, full, err)
		}
	}
	take(c)
	for range 3 {
		wantDeferred(t, report(t, x, "p", now), 0)
	}
	wantDeferred(t, report(t, x, "late", now), time.Second)
	take(c)
	mustAppend(t, x.Stream(), plain(strings.Repeat("x", 80)))
	if due := x.Release(now.Add(time.Second)); due != now.Add(2*time.Second) {
		t.Errorf("Release to a full stream: due %v, want a second later", due)
	}
	take(c)
	if due := x.Release(now.Add(2 * time.Second)); !due.IsZero() {
		t.Errorf("Release with space: due %v, want none", due)
	}
	wantTake(t, c, session.Open, "late")
}

// Report to an exchange that has ended fails, regardless of the rate limit.
func TestReportAfterTheEnd(t *testing.T) {
	x := stateless(t, rateLimited())
	now := time.Unix(1000, 0)
	for range 10 {
		_, _, _ = x.Report(msg(session.Progress, "t", "p"), now)
	}
	x.Finish(plain("end"))
	for _, class := range []session.Class{session.Progress, session.Log} {
		if _, _, err := x.Report(msg(class, "t", "late"), now); !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("class %v: %v, want ErrRequestEnded", class, err)
		}
	}
}

// FuzzPace reports progress at any moments: no more is sent than the limit allows, in
// order, and the latest precedes the end.
func FuzzRateLimit(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 200, 1, 1})
	f.Add([]byte{255, 3, 3, 3, 3, 3, 3, 3, 3, 255, 9})
	f.Fuzz(func(t *testing.T, gaps []byte) {
		r := rateLimited()
		x := new(session.Stateless).Begin(jsonrpc.NumberID(1), r, func(error) {})
		c := attach(x.Stream())
		start := time.Unix(1000, 0)
		now, due := start, time.Time{}
		for i, gap := range gaps {
			now = now.Add(time.Duration(gap) * 10 * time.Millisecond)
			if !due.IsZero() && !due.After(now) {
				due = x.Release(now)
			}
			if at, _, err := x.Report(msg(session.Progress, "t", fmt.Sprintf("%06d", i)), now); err != nil {
				t.Fatal(err)
			} else if !at.IsZero() {
				due = at
			}
		}
		got, _ := take(c)
		if most := 3 + int(now.Sub(start)/time.Second); len(got) > most {
			t.Fatalf("%d were given out in %v, want at most %d", len(got), now.Sub(start), most)
		}
		x.Finish(plain("end"))
		rest, _ := take(c)
		got = append(got, rest...)
		want := []string{fmt.Sprintf("%06d", len(gaps)-1), "end"}
		if len(gaps) == 0 {
			want = want[1:]
		}
		if diff := cmp.Diff(got[len(got)-len(want):], want); diff != "" {
			t.Fatalf("the end (-got +want):\n%s", diff)
		}
		for i := range len(got) - 2 {
			if got[i] >= got[i+1] {
				t.Fatalf("%q comes before %q", got[i], got[i+1])
			}
		}
	})
}
