// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serial_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/serial"
)

// receiver receives one value for each value in gate.
type receiver struct {
	ctx  context.Context
	gate chan struct{}

	mu      sync.Mutex
	got     []int
	workers int
}

func (r *receiver) start(next func(context.Context) (int, bool)) bool {
	if r.ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers++
	go func() { // ends when the queue is empty or ctx has ended
		for v, ok := next(r.ctx); ok; v, ok = next(r.ctx) {
			<-r.gate
			r.mu.Lock()
			r.got = append(r.got, v)
			r.mu.Unlock()
		}
	}()
	return true
}

func (r *receiver) want(t *testing.T, got []int, workers int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, got) || r.workers != workers {
		t.Errorf("received %v by %d goroutines so far, want %v by %d", r.got, r.workers, got, workers)
	}
}

func TestOrderAndBound(t *testing.T) {
	for _, tt := range []struct {
		oldest bool
		want   []int
	}{
		{oldest: true, want: []int{0, 4, 5, 6}},
		{oldest: false, want: []int{0, 1, 2, 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &receiver{ctx: t.Context(), gate: make(chan struct{})}
			q := serial.Queue[int]{Max: 3, DropOldest: tt.oldest}
			dropped := make([]uint64, 7)
			for i := range dropped {
				dropped[i] = q.Put(i, r.start)
				synctest.Wait() // the first one is being received
			}
			if want := []uint64{0, 0, 0, 0, 1, 2, 3}; !slices.Equal(dropped, want) {
				t.Errorf("dropped %v, want %v", dropped, want)
			}
			close(r.gate)
			r.want(t, tt.want, 1)
			q.Put(7, r.start)
			r.want(t, append(tt.want, 7), 2)
		})
	}
}

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{ctx: t.Context(), gate: make(chan struct{})}
		q := serial.Queue[int]{Max: 10, Workers: 3}
		for i := range 8 {
			q.Put(i, r.start)
		}
		r.want(t, nil, 3)
		close(r.gate)
		synctest.Wait()
		slices.Sort(r.got)
		r.want(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, 3)
	})
}

// After the end of the owner, values are neither received nor do they leave a worker
// behind that does not exist.
func TestEndOfTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &receiver{ctx: ctx, gate: make(chan struct{})}
		q := serial.Queue[int]{Max: 10}
		q.Put(0, r.start)
		q.Put(1, r.start)
		synctest.Wait()
		cancel()
		close(r.gate)
		r.want(t, []int{0}, 1)
		q.Put(2, r.start)
		r.want(t, []int{0}, 1)
		r.ctx = t.Context() // another owner
		q.Put(3, r.start)
		r.want(t, []int{0, 2, 3}, 2)
	})
}
