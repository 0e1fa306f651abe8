// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// discoverTimeout bounds how long initialize and server/discover wait for backends that
// are starting. It is below the shortest known timeout of a client (ADR 0044).
const discoverTimeout = 3 * time.Second

// noLimit is the wait of a pending function without a limit.
const noLimit = time.Duration(-1)

// pending reports whether a backend that lacking accepts is still starting, and for how
// long to wait for it: until its start has taken limit. A negative limit means no limit.
func (v *view) pending(limit time.Duration, lacking func(*activeBackend, knownLists) bool) (left time.Duration, ok bool) {
	now := time.Now()
	for i, b := range v.backends {
		// The first view of a configuration is built at once, whatever its backends do.
		if v.settled == nil {
			return noLimit, true
		}
		if !lacking(b, v.settled[i]) {
			continue
		}
		switch rest := b.remainingStart(limit, now); {
		case rest < 0:
			return noLimit, true
		case rest > 0:
			left, ok = max(left, rest), true
		}
	}
	return left, ok
}

// remainingStart returns what is left of the limit for the start of the backend, or
// noLimit.
func (b *activeBackend) remainingStart(limit time.Duration, now time.Time) time.Duration {
	if limit < 0 {
		return noLimit
	}
	began, ok := b.Began()
	if !ok {
		return limit // it waits for a start slot
	}
	return max(0, limit-now.Sub(began))
}

// listsPending is pending for a list, to which every backend may add.
func (v *view) listsPending(k catalog.Kind) (time.Duration, bool) {
	return v.pending(v.cfg.Limits.FirstList, func(_ *activeBackend, h knownLists) bool { return !h[k] })
}

// discoverPending is pending for the result of server/discover.
func (v *view) discoverPending() (time.Duration, bool) {
	limit := v.cfg.Limits.FirstList
	if limit < 0 || limit > discoverTimeout {
		limit = discoverTimeout
	}
	return v.pending(limit, func(_ *activeBackend, h knownLists) bool { return h.nothing() })
}

// await returns nil once pending reports false for the current view, or an error if ctx
// or the Gateway ends before.
func (g *Gateway) await(ctx context.Context, pending func(*view) (time.Duration, bool)) error {
	if _, wait := pending(g.view.Load()); !wait {
		return nil
	}
	built := newSignal()
	g.built.subscribe(built) // before the next check, so that no view is missed
	defer g.built.unsubscribe(built)
	for {
		left, wait := pending(g.view.Load())
		if !wait {
			return nil
		}
		if err := g.awaitBuilt(ctx, built, left); err != nil {
			return err
		}
	}
}

// awaitBuilt waits for another view, or until left has passed.
func (g *Gateway) awaitBuilt(ctx context.Context, built signal, left time.Duration) error {
	over, stop := timeoutChan(left)
	defer stop()
	select {
	case <-built:
		return nil
	case <-over:
		return nil
	case <-g.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// timeoutChan returns a channel that receives after d; with a negative d, which is no
// limit, it never does.
func timeoutChan(d time.Duration) (over <-chan time.Time, stop func() bool) {
	if d < 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// withTimeout is context.WithTimeout for a limit: a negative one means no limit.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// startSlots limits how many processes start at a time: more of them than the machine
// has processors take longer each, until all exceed their time limit.
type startSlots chan struct{}

const (
	minStartSlots = 4

	// slotTime is how long a start keeps its slot. A start that hangs delays the others
	// by no more.
	slotTime = 2 * time.Second
)

func newStartSlots() startSlots { return make(startSlots, max(minStartSlots, 2*runtime.GOMAXPROCS(0))) }

// acquire waits for a slot, or until ctx ends. done releases the slot.
func (t startSlots) acquire(ctx context.Context) (done func()) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	var once sync.Once
	free := func() { once.Do(func() { <-t }) }
	late := time.AfterFunc(slotTime, free)
	return func() {
		late.Stop()
		free()
	}
}

// startSlotFor returns the function that acquires a start slot for a backend, or nil if
// no process is started.
func (g *Gateway) startSlotFor(b *activeBackend) func(context.Context) func() {
	if b.client == nil || b.srv.Command == "" {
		return nil
	}
	return g.startSlots.acquire
}
