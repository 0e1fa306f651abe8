// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// telling is one resource that a worker is telling the server of.
type telling struct {
	sub    *subscription
	wanted bool
}

// M168, I2, I28: in whatever order listens come and go, and whatever the server makes
// of what it is told, it is told of each resource one thing at a time, what it knows
// last is what is wanted, and nothing is left when nobody listens. A session that is
// replaced has all of its listens leave it at once.
func TestM168SubscriptionsReturnToZero(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all subscriptions
		knows := map[string]bool{} // the server
		var joined []*subscription
		var busy []telling
		workers := 0
		work := func(one bool) {
			if one {
				workers++
			}
		}
		begin := func() {
			sub, wanted := all.next()
			if sub == nil {
				workers--
				return
			}
			for _, b := range busy {
				if b.sub == sub {
					t.Fatalf("seed %d: two things are told of %s at once", seed, sub.uri)
				}
			}
			busy = append(busy, telling{sub, wanted})
		}
		finish := func(fails bool) {
			i := r.IntN(len(busy))
			b := busy[i]
			busy = append(busy[:i], busy[i+1:]...)
			var err error
			if fails && b.wanted {
				err = errors.New("no")
			} else {
				knows[b.sub.uri] = b.wanted
			}
			all.record(b.sub, b.wanted, err)
		}
		for range 60 {
			switch {
			case r.IntN(3) == 0:
				sub, one := all.acquire(fmt.Sprint("x:", r.IntN(3)))
				joined = append(joined, sub)
				work(one)
			case len(joined) > 0 && r.IntN(2) == 0:
				i := r.IntN(len(joined))
				work(all.release(joined[i]))
				joined = append(joined[:i], joined[i+1:]...)
			case len(busy) > 0 && r.IntN(2) == 0:
				finish(r.IntN(4) == 0)
			case len(busy) < workers:
				begin()
			}
		}
		for _, sub := range joined { // the session is replaced
			work(all.release(sub))
		}
		for len(busy) > 0 || workers > 0 {
			for len(busy) < workers {
				begin()
			}
			if len(busy) > 0 {
				finish(false)
			}
		}
		for uri, known := range knows {
			if known {
				t.Errorf("seed %d: the server still tells of %s", seed, uri)
			}
		}
		if len(all.byURI)+len(all.queue)+all.workers != 0 {
			t.Errorf("seed %d: %d resources, %d to tell, %d workers are left", seed, len(all.byURI), len(all.queue), all.workers)
		}
	}
}

// What the server knows in the end is what is wanted, also where that is something.
func TestSubscriptionsFollowWhatIsWanted(t *testing.T) {
	var all subscriptions
	a, work := all.acquire("x:1")
	if !work {
		t.Fatal("nobody is to tell the server")
	}
	sub, wanted := all.next()
	if sub != a || !wanted {
		t.Fatalf("told %v, want that it is wanted", wanted)
	}
	if all.release(a) { // while it is being told
		t.Error("a second worker for the same")
	}
	if b, work := all.acquire("x:1"); b != a || work {
		t.Error("another entry, or another worker, for the same resource")
	}
	all.record(sub, wanted, nil)
	if again, _ := all.next(); again != nil {
		t.Error("the server is told what it knows")
	}
	if agreed, wait, err := all.state(a); !agreed || wait != nil || err != nil {
		t.Errorf("state %v, %v, %v; want agreed", agreed, wait, err)
	}
}
