// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGoroutinesEndWithTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var owner Goroutines
		var ended atomic.Int32
		for range 3 {
			owner.Start(func(ctx context.Context) { // ends with the owner
				<-ctx.Done()
				ended.Add(1)
			})
			synctest.Wait()
		}
		cancel, ok := owner.Start(func(ctx context.Context) { <-ctx.Done() })
		cancel()
		owner.Finish(time.Second)
		owner.Close()
		if ended.Load() != 3 || !ok {
			t.Errorf("%d ended", ended.Load())
		}
		if _, ok := owner.Start(func(context.Context) {}); ok {
			t.Error("started after the end")
		}
	})
}
