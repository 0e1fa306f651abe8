// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// sentRequest is one resource for which a worker has sent a request.
type sentRequest struct {
	sub    *subscription
	wanted bool
}

// M168, I2, I28: in whatever order listens begin and end, and however the server
// answers, there is one request per resource at a time, its last state is the wanted
// one, and nothing remains without listens. When a session is replaced, all of its
// listens leave it at once.
func TestM168SubscriptionsReturnToZero(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all subscriptions
		knows := map[string]bool{} // the server's state
		var joined []*subscription
		var busy []sentRequest
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
			busy = append(busy, sentRequest{sub, wanted})
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

// The server's last state is the wanted one, also if that is subscribed.
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
	if all.release(a) { // during the request
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
