// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func mustTake(t *testing.T, r *processSlots, ours bool) *processSlot {
	t.Helper()
	pl := r.take(t.Context(), slotPurpose{internal: ours})
	if pl == nil {
		t.Fatalf("no place: %d of %d used, kept one taken: %v", r.used, r.max, r.reserved)
	}
	return pl
}

// taking waits for a slot in a goroutine, which ends when it sends the one value of the
// channel.
func taking(ctx context.Context, r *processSlots, n slotPurpose) <-chan *processSlot {
	got := make(chan *processSlot, 1)
	go func() { got <- r.take(ctx, n) }()
	synctest.Wait()
	return got
}

func wantNone(t *testing.T, what string, got <-chan *processSlot) {
	t.Helper()
	select {
	case pl := <-got:
		t.Fatalf("%s: got %+v, want to wait", what, pl)
	default:
	}
}

func wantEmpty(t *testing.T, r *processSlots) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used != 0 || r.reserved || r.closing != 0 || r.reservedClosing || len(r.queue) != 0 {
		t.Errorf("left behind: %d used, kept %v, %d leaving (kept: %v), %d waiting", r.used, r.reserved, r.closing, r.reservedClosing, len(r.queue))
	}
}

// An internal request finds a slot however many clients there are, and takes none of
// theirs while the reserved one is free.
func TestSlotReservedForInternalUse(t *testing.T) {
	r := &processSlots{max: 2}
	one, two := mustTake(t, r, false), mustTake(t, r, false)
	if pl := r.take(t.Context(), slotPurpose{}); pl != nil {
		t.Error("a third client got a place")
	}
	own := mustTake(t, r, true)
	if pl := r.take(t.Context(), slotPurpose{internal: true}); pl != nil {
		t.Error("a second one of ours got a place beyond all")
	}
	one.release()
	more := mustTake(t, r, true)
	if pl := r.take(t.Context(), slotPurpose{}); pl != nil {
		t.Error("a client got the place that ours has taken")
	}
	for _, pl := range []*processSlot{one, two, own, more, more} { // the second release does nothing
		pl.release()
	}
	wantEmpty(t, r)
}

// As many requests wait as slots are closing, in order, until the remote end has ended.
func TestClosingSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &processSlots{max: 2}
		one, two := mustTake(t, r, false), mustTake(t, r, false)
		one.markClosing()
		one.markClosing() // no effect
		first := taking(t.Context(), r, slotPurpose{})
		wantNone(t, "while the far end is there", first)
		if pl := <-taking(t.Context(), r, slotPurpose{}); pl != nil {
			t.Error("a second one was promised the one place that is leaving")
		}
		two.markClosing()
		second := taking(t.Context(), r, slotPurpose{})
		two.release()
		synctest.Wait()
		got := <-first
		wantNone(t, "behind the first one", second)
		one.release()
		(<-second).release()
		got.release()
		wantEmpty(t, r)
	})
}

// Internal requests wait for the reserved slot if it is closing, rather than evict a
// client. Clients cannot wait for that one.
func TestReservedSlotThatIsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &processSlots{max: 1}
		client, own := mustTake(t, r, false), mustTake(t, r, true)
		own.markClosing()
		if pl := <-taking(t.Context(), r, slotPurpose{}); pl != nil {
			t.Error("a client was promised the place that is kept")
		}
		evict := func() bool { t.Error("somebody was asked to leave"); return false }
		next := taking(t.Context(), r, slotPurpose{internal: true, evict: evict})
		wantNone(t, "while the far end is there", next)
		own.release()
		(<-next).release()
		client.release()
		wantEmpty(t, r)
	})
}

// One pipe is evicted for each request that needs a slot. A request that stops waiting
// leaves the slot to the next.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &processSlots{max: 3}
		var held []*processSlot
		for range 3 {
			held = append(held, mustTake(t, r, false))
		}
		made := 0
		n := slotPurpose{evict: func() bool {
			if made == len(held) {
				return false
			}
			held[made].markClosing()
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
		held[0].release()
		(<-second).release()
		// The second slot is free at once, for a waiting request.
		(<-third).release()
		for _, pl := range held {
			pl.release()
		}
		wantEmpty(t, r)
		if pl := r.take(ctx, n); pl != nil {
			t.Error("a place for somebody who has gone")
		}
	})
}

// A slot of an internal pipe becomes a client's, and the reserved one is free again. A
// slot that was released meanwhile is not counted twice.
func TestSlotsSwap(t *testing.T) {
	r := &processSlots{max: 1}
	spare := mustTake(t, r, true)
	client := mustTake(t, r, false)
	client.markClosing()
	r.swap(spare, client)
	if r.closing != 0 || !r.reservedClosing {
		t.Errorf("%d leaving, the kept one: %v; want the one that leaves to be the kept one now", r.closing, r.reservedClosing)
	}
	client.release()
	own := mustTake(t, r, true)
	if pl := r.take(t.Context(), slotPurpose{internal: true}); pl != nil {
		t.Error("one place more than there are")
	}
	spare.release()
	next := mustTake(t, r, false)
	r.swap(spare, next) // the pipe of next has ended
	next.release()
	own.release()
	wantEmpty(t, r)
}

// In any order, the limit holds, every promised slot is granted, and nothing is left
// behind.
func TestSlotsUnderLoad(t *testing.T) {
	const limit, clients = 3, 12
	synctest.Test(t, func(t *testing.T) {
		r := &processSlots{max: limit}
		var mu sync.Mutex
		var idle []*processSlot // may be evicted
		open, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			open += by
			most = max(most, open)
		}
		end := func(pl *processSlot) { // a remote end that takes time
			pl.markClosing()
			time.Sleep(time.Millisecond)
			count(-1)
			pl.release()
		}
		pop := func() *processSlot {
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
			pl.markClosing()
			wg.Go(func() { end(pl) }) // ends by itself; waited for below
			return true
		}
		served := 0
		for i := range clients {
			// Ends by itself; waited for below.
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for range 200 {
					pl := r.take(t.Context(), slotPurpose{internal: i == 0, evict: evict})
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
