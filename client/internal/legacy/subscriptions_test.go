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
		var queue []*subscription
		var busy []sentRequest
		work := func(sub *subscription, queued bool) {
			if queued {
				queue = append(queue, sub)
			}
		}
		begin := func() {
			sub := queue[0]
			queue = queue[1:]
			wanted, needed := all.next(sub)
			if !needed {
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
			work(b.sub, all.record(b.sub, b.wanted, err))
		}
		for range 60 {
			switch {
			case r.IntN(3) == 0:
				sub, queued := all.acquire(fmt.Sprint("x:", r.IntN(3)))
				joined = append(joined, sub)
				work(sub, queued)
			case len(joined) > 0 && r.IntN(2) == 0:
				i := r.IntN(len(joined))
				work(joined[i], all.release(joined[i]))
				joined = append(joined[:i], joined[i+1:]...)
			case len(busy) > 0 && r.IntN(2) == 0:
				finish(r.IntN(4) == 0)
			case len(queue) > 0 && len(busy) < maxSubscribeWorkers:
				begin()
			}
		}
		for _, sub := range joined { // the session is replaced
			work(sub, all.release(sub))
		}
		for len(busy) > 0 || len(queue) > 0 {
			for len(queue) > 0 && len(busy) < maxSubscribeWorkers {
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
		if len(all.byURI) != 0 {
			t.Errorf("seed %d: %d resources are left", seed, len(all.byURI))
		}
	}
}

// The server's last state is the wanted one, also if that is subscribed.
func TestSubscriptionsFollowWhatIsWanted(t *testing.T) {
	var all subscriptions
	a, queued := all.acquire("x:1")
	if !queued {
		t.Fatal("nobody is to tell the server")
	}
	wanted, needed := all.next(a)
	if !wanted || !needed {
		t.Fatalf("told %v, %v, want that it is wanted", wanted, needed)
	}
	if all.release(a) { // during the request
		t.Error("a second request for the same")
	}
	if b, queued := all.acquire("x:1"); b != a || queued {
		t.Error("another entry, or another request, for the same resource")
	}
	if all.record(a, wanted, nil) {
		t.Error("the server is told what it knows")
	}
	if agreed, wait, err := all.state(a); !agreed || wait != nil || err != nil {
		t.Errorf("state %v, %v, %v; want agreed", agreed, wait, err)
	}
}
