// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// As many processes start at a time as there are slots; a start that hangs delays the
// others by slotTime, and they do not start one after another.
func TestStartSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(startSlots, minStartSlots)
		began := time.Now()
		var mu sync.Mutex
		running, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			running += by
			most = max(most, running)
		}
		var all sync.WaitGroup
		for range 26 {
			all.Go(func() { // ends with its start
				done := free.acquire(t.Context())
				count(+1)
				time.Sleep(time.Second)
				count(-1)
				done()
			})
		}
		all.Wait()
		if took := time.Since(began); most != minStartSlots || took != 7*time.Second {
			t.Errorf("%d at a time, all after %v; want %d and 7s", most, took, minStartSlots)
		}
		for range minStartSlots {
			free.acquire(t.Context()) // these hang
		}
		began = time.Now()
		done := free.acquire(t.Context())
		if took := time.Since(began); took != slotTime {
			t.Errorf("a start waited %v for those that hang, want %v", took, slotTime)
		}
		done()
		done()
		synctest.Wait()
		if len(free) != 0 {
			t.Errorf("%d turns are taken at the end", len(free))
		}
		for range minStartSlots {
			free.acquire(t.Context())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		free.acquire(ctx)() // returns, and releases nothing
		if len(free) != minStartSlots {
			t.Errorf("%d turns are taken, want %d", len(free), minStartSlots)
		}
		time.Sleep(slotTime)
	})
}

// initialize waits for backends that wait for a slot as for others: discoverTimeout,
// however long the queue is. A list waits for them.
func TestDiscoverDoesNotWaitForStartSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g := &Gateway{ctx: ctx, info: []byte("{}")}
		queued := &activeBackend{Backend: backend.New(backend.Config{Name: "b"})} // its Run waits
		v := &view{cfg: (&config.Config{}).Effective(), backends: []*activeBackend{queued}, settled: make([]knownLists, 1)}
		v.catalog = v.build(v.offers())
		v.discovery = g.discoveryOf(v.catalog)
		g.view.Store(v)
		began := time.Now()
		if _, err := g.discover(ctx, &mcp.Request{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != discoverTimeout {
			t.Errorf("initialize waited %v, want %v", took, discoverTimeout)
		}
		if _, ok := v.listsPending(catalog.Tools); !ok {
			t.Error("a list does not wait for it")
		}
	})
}
