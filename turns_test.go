// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// As many processes start at a time as there are turns; one that hangs delays the others
// by turnTime, and the time of all is not that of one after another.
func TestStartsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(turns, minTurns)
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
				done := free.take(t.Context())
				count(+1)
				time.Sleep(time.Second)
				count(-1)
				done()
			})
		}
		all.Wait()
		if took := time.Since(began); most != minTurns || took != 7*time.Second {
			t.Errorf("%d at a time, all after %v; want %d and 7s", most, took, minTurns)
		}
		for range minTurns {
			free.take(t.Context()) // these hang
		}
		began = time.Now()
		done := free.take(t.Context())
		if took := time.Since(began); took != turnTime {
			t.Errorf("a start waited %v for those that hang, want %v", took, turnTime)
		}
		done()
		done()
		synctest.Wait()
		if len(free) != 0 {
			t.Errorf("%d turns are taken at the end", len(free))
		}
		for range minTurns {
			free.take(t.Context())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		free.take(ctx)() // returns, and gives back nothing
		if len(free) != minTurns {
			t.Errorf("%d turns are taken, want %d", len(free), minTurns)
		}
		time.Sleep(turnTime)
	})
}
