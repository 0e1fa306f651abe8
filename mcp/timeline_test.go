// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Each stage has the time of the last mark, and those of a message the first one of the
// attempt. What was not reached is not known.
func TestTimelineStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Timeline
		l.Begin(time.Now())
		want := func(s Stage, at time.Duration, known bool) {
			t.Helper()
			if got, ok := l.At(s); ok != known || known && got != at {
				t.Errorf("stage %d: %v, %v; want %v, %v", s, got, ok, at, known)
			}
		}
		mark := func(stages ...Stage) {
			for _, s := range stages {
				l.Mark(s)
				time.Sleep(time.Second)
			}
		}
		mark(StageAdmitted, StageResolved)
		want(StageAdmitted, 0, true) // at once is known, too
		want(StageResolved, time.Second, true)
		want(StageLeased, 0, false)
		l.Attempt()
		mark(StageLeased, StageSent, StageSent, StageFirstByte, StageLastByte, StageFirstByte, StageLastByte)
		want(StageLeased, 2*time.Second, true)
		want(StageSent, 3*time.Second, true)
		want(StageFirstByte, 5*time.Second, true)
		want(StageLastByte, 8*time.Second, true)
		l.Attempt()
		want(StageResolved, time.Second, true)
		for s := StageLeased; s < NumStages; s++ {
			want(s, 0, false)
		}
		mark(StageLeased)
		want(StageLeased, 9*time.Second, true)
		l.Unmark(StageLeased)
		want(StageLeased, 0, false)
		if l.Attempts() != 2 {
			t.Errorf("%d attempts", l.Attempts())
		}
	})
}

// Only what an attempt waited for counts: not what happened before it, and nothing of a
// connection that was ready.
func TestTimelineOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(s float64) time.Time {
			return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
		}
		var none time.Time
		for name, tt := range map[string]struct {
			start, began, responded, ready  time.Time
			installing, starting, handshake time.Duration
		}{
			"all":                 {at(11), none, at(13), at(14), 0, 2 * time.Second, time.Second},
			"begun before":        {at(4), none, at(13), at(14), 0, 3 * time.Second, time.Second},
			"responded before":    {at(4), none, at(8), at(14), 0, 0, 4 * time.Second},
			"ready before":        {at(4), at(5), at(6), at(9), 0, 0, 0},
			"no process":          {none, none, at(12), at(14), 0, 0, 2 * time.Second},
			"probed before":       {none, none, at(2), at(14), 0, 0, 4 * time.Second},
			"a response unheard":  {at(11), none, at(14), at(14), 0, 3 * time.Second, 0},
			"ready as it arrived": {at(4), none, at(6), at(10), 0, 0, 0},
			"a package manager":   {at(11), at(12), at(14), at(15), time.Second, 3 * time.Second, time.Second},
			"installing before":   {at(4), at(12), at(14), at(15), 2 * time.Second, 4 * time.Second, time.Second},
			"installed before":    {at(4), at(9), at(14), at(15), 0, 4 * time.Second, time.Second},
		} {
			var l Timeline
			l.Begin(at(0))
			l.at[StageResolved].Store(int64(10*time.Second) + 1)
			l.Attempt()
			l.NoteOpening(tt.start, tt.began, tt.responded, tt.ready)
			if s, h := l.Opening(); s != tt.starting || h != tt.handshake || l.Installing() != tt.installing {
				t.Errorf("%s: %v, %v, %v; want %v, %v, %v", name, l.Installing(), s, h, tt.installing, tt.starting, tt.handshake)
			}
		}
	})
}

// The time with unanswered requests counts once, however many there are.
func TestTimelineAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Timeline
		l.Begin(time.Now())
		for _, delta := range []int{+1, +1, -1, -1, +1} {
			l.Asked(delta)
			time.Sleep(time.Second)
		}
		if n, waiting := l.Asks(); n != 3 || waiting != 4*time.Second {
			t.Errorf("%d asks, %v", n, waiting)
		}
		time.Sleep(time.Second)
		if n, waiting := l.Asks(); n != 3 || waiting != 5*time.Second {
			t.Errorf("%d asks, %v; one is unanswered", n, waiting)
		}
	})
}

// A Timeline has one id, and reports the delivery with the number of its record.
func TestTimelineIDAndDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Timeline
		l.Begin(time.Now())
		l.Delivered() // of a server without a gateway
		if l.ID() != 0 || !l.Take(7) || l.Take(8) || l.ID() != 7 {
			t.Errorf("id %d", l.ID())
		}
		var number uint64
		var after time.Duration
		l.OnDelivered(5, func(n uint64, d time.Duration) { number, after = n, d })
		time.Sleep(time.Minute)
		l.Delivered()
		if number != 5 || after.Round(time.Microsecond) != time.Minute {
			t.Errorf("record %d after %v", number, after)
		}
	})
}

// All methods that are called on the way of a request may be called on none, and
// concurrently.
func TestTimelineConcurrent(t *testing.T) {
	for _, l := range []*Timeline{nil, new(Timeline)} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				l.Attempt()
				for s := range NumStages {
					l.Mark(s)
				}
				l.NoteOpening(time.Time{}, time.Time{}, time.Now(), time.Now())
				l.Asked(+1)
				l.Asked(-1)
				l.Unmark(StageSent)
				_ = l.ID()
			})
		}
		wg.Wait()
	}
}
