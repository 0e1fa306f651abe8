// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func mustTake(t *testing.T, r *Slots, ours bool) *Slot {
	t.Helper()
	pl := r.Take(t.Context(), Purpose{Internal: ours})
	if pl == nil {
		t.Fatalf("no place: %d of %d used, kept one taken: %d", r.shared.used, r.Max, r.reserved.used)
	}
	return pl
}

// taking waits for a slot in a goroutine, which ends when it sends the one value of the
// channel.
func taking(ctx context.Context, r *Slots, n Purpose) <-chan *Slot {
	got := make(chan *Slot, 1)
	go func() { got <- r.Take(ctx, n) }()
	synctest.Wait()
	return got
}

func wantNone(t *testing.T, what string, got <-chan *Slot) {
	t.Helper()
	select {
	case pl := <-got:
		t.Fatalf("%s: got %+v, want to wait", what, pl)
	default:
	}
}

func wantEmpty(t *testing.T, r *Slots) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared != (slotCount{}) || r.reserved != (slotCount{}) || len(r.queue) != 0 {
		t.Errorf("left behind: %+v, kept: %+v, %d waiting", r.shared, r.reserved, len(r.queue))
	}
}

// An internal request finds a slot however many clients there are, and takes none of
// theirs while the reserved one is free.
func TestSlotReservedForInternalUse(t *testing.T) {
	r := &Slots{Max: 2}
	one, two := mustTake(t, r, false), mustTake(t, r, false)
	if pl := r.Take(t.Context(), Purpose{}); pl != nil {
		t.Error("a third client got a place")
	}
	own := mustTake(t, r, true)
	if pl := r.Take(t.Context(), Purpose{Internal: true}); pl != nil {
		t.Error("a second one of ours got a place beyond all")
	}
	one.Release()
	more := mustTake(t, r, true)
	if pl := r.Take(t.Context(), Purpose{}); pl != nil {
		t.Error("a client got the place that ours has taken")
	}
	for _, pl := range []*Slot{one, two, own, more, more} { // the second release does nothing
		pl.Release()
	}
	wantEmpty(t, r)
}

// As many requests wait as slots are closing, in order, until the remote end has ended.
func TestClosingSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Slots{Max: 2}
		one, two := mustTake(t, r, false), mustTake(t, r, false)
		one.MarkClosing()
		one.MarkClosing() // no effect
		first := taking(t.Context(), r, Purpose{})
		wantNone(t, "while the far end is there", first)
		if pl := <-taking(t.Context(), r, Purpose{}); pl != nil {
			t.Error("a second one was promised the one place that is leaving")
		}
		two.MarkClosing()
		second := taking(t.Context(), r, Purpose{})
		two.Release()
		synctest.Wait()
		got := <-first
		wantNone(t, "behind the first one", second)
		one.Release()
		(<-second).Release()
		got.Release()
		wantEmpty(t, r)
	})
}

// Internal requests wait for the reserved slot if it is closing, rather than evict a
// client. Clients cannot wait for that one.
func TestReservedSlotThatIsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Slots{Max: 1}
		client, own := mustTake(t, r, false), mustTake(t, r, true)
		own.MarkClosing()
		if pl := <-taking(t.Context(), r, Purpose{}); pl != nil {
			t.Error("a client was promised the place that is kept")
		}
		evict := func() bool { t.Error("somebody was asked to leave"); return false }
		next := taking(t.Context(), r, Purpose{Internal: true, Evict: evict})
		wantNone(t, "while the far end is there", next)
		own.Release()
		(<-next).Release()
		client.Release()
		wantEmpty(t, r)
	})
}

// One pipe is evicted for each request that needs a slot. A request that stops waiting
// leaves the slot to the next.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Slots{Max: 3}
		var held []*Slot
		for range 3 {
			held = append(held, mustTake(t, r, false))
		}
		made := 0
		n := Purpose{Evict: func() bool {
			if made == len(held) {
				return false
			}
			held[made].MarkClosing()
			made++
			return true
		}}
		ctx, giveUp := context.WithCancel(t.Context())
		first, second := taking(ctx, r, n), taking(t.Context(), r, n)
		giveUp()
		if pl := <-first; pl != nil {
			t.Error("a place after the waiting was given up")
		}
		third := taking(t.Context(), r, n)
		if made != 2 {
			t.Errorf("room was made %d times for 2 who wait", made)
		}
		held[0].Release()
		(<-second).Release()
		// The second slot is free at once, for a waiting request.
		(<-third).Release()
		for _, pl := range held {
			pl.Release()
		}
		wantEmpty(t, r)
		if pl := r.Take(ctx, n); pl != nil {
			t.Error("a place for somebody who has gone")
		}
	})
}

// A slot of an internal pipe becomes a client's, and the reserved one is free again. A
// slot that was released meanwhile is not counted twice.
func TestSlotsSwap(t *testing.T) {
	r := &Slots{Max: 1}
	spare := mustTake(t, r, true)
	client := mustTake(t, r, false)
	client.MarkClosing()
	r.Swap(spare, client)
	if r.shared.closing != 0 || r.reserved.closing != 1 {
		t.Errorf("%d leaving, the kept one: %d; want the one that leaves to be the kept one now", r.shared.closing, r.reserved.closing)
	}
	client.Release()
	own := mustTake(t, r, true)
	if pl := r.Take(t.Context(), Purpose{Internal: true}); pl != nil {
		t.Error("one place more than there are")
	}
	spare.Release()
	next := mustTake(t, r, false)
	r.Swap(spare, next) // the pipe of next has ended
	next.Release()
	own.Release()
	wantEmpty(t, r)
}

// In any order, the limit holds, every promised slot is granted, and nothing is left
// behind.
func TestSlotsUnderLoad(t *testing.T) {
	const limit, clients = 3, 12
	synctest.Test(t, func(t *testing.T) {
		r := &Slots{Max: limit}
		var mu sync.Mutex
		var idle []*Slot // may be evicted
		open, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			open += by
			most = max(most, open)
		}
		end := func(pl *Slot) { // a remote end that takes time
			pl.MarkClosing()
			time.Sleep(time.Millisecond)
			count(-1)
			pl.Release()
		}
		pop := func() *Slot {
			mu.Lock()
			defer mu.Unlock()
			if len(idle) == 0 {
				return nil
			}
			pl := idle[0]
			idle = slices.Delete(idle, 0, 1)
			return pl
		}
		var wg sync.WaitGroup
		evict := func() bool {
			pl := pop()
			if pl == nil {
				return false
			}
			pl.MarkClosing()
			wg.Go(func() { end(pl) }) // ends by itself; waited for below
			return true
		}
		served := 0
		for i := range clients {
			// Ends by itself; waited for below.
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for range 200 {
					pl := r.Take(t.Context(), Purpose{Internal: i == 0, Evict: evict})
					if pl == nil {
						time.Sleep(time.Millisecond)
						continue
					}
					count(+1)
					time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
					mu.Lock()
					served++
					idle = append(idle, pl)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for pl := pop(); pl != nil; pl = pop() {
			end(pl)
		}
		if most > limit+1 || open != 0 || served < clients*20 {
			t.Errorf("at most %d open at a time, want %d; %d left; %d served", most, limit+1, open, served)
		}
		wantEmpty(t, r)
	})
}
