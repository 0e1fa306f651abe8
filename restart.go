// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
)

// ErrNoBackend is returned for a name that no backend has.
var ErrNoBackend = errors.New("no backend has this name")

// errNoProcess is returned for a backend that cannot be stopped.
var errNoProcess = errors.New("it is no process of the gateway, so it cannot be stopped")

// attemptTime bounds how long RetryBackend and RestartBackend wait for the backend.
const attemptTime = 20 * time.Second

// RetryBackend makes the gateway try to reach a backend now, whatever has failed before,
// and fetch its lists. It waits for the outcome, at most 20 s, and returns the state of
// the backend then.
func (g *Gateway) RetryBackend(ctx context.Context, name string) (BackendStatus, error) {
	b, ok := g.view.Load().backend(name)
	if !ok {
		return BackendStatus{}, ErrNoBackend
	}
	before := b.Offer()
	if b.client != nil {
		b.client.RetryStart()
	}
	if b.access != nil {
		b.access.retry()
	}
	b.Retry()
	if before.State == backend.Live || before.State.IsResting() {
		b.Refresh()
	}
	if b.users != nil {
		g.userLists.retry(b)
	}
	return g.awaitAttempt(ctx, b, func(now *activeBackend) bool {
		if now == b {
			return b.Offer() != before
		}
		return now.hasTried()
	})
}

// RestartBackend ends the processes or sessions of a backend and reaches it anew. Further
// calls use the new ones. Calls in progress may end within drain.timeout; those that have
// not ended then have the outcome unknown. What the server has kept for its clients is
// lost. RestartBackend waits for the new lists, at most 20 s. If the backend is restarted once
// more meanwhile, these are those of the latest restart.
func (g *Gateway) RestartBackend(ctx context.Context, name string) (BackendStatus, error) {
	b, err := g.replaceBackend(name, false) //nolint:contextcheck // backends outlive the request to restart one
	if err != nil {
		return BackendStatus{}, err
	}
	return g.awaitAttempt(ctx, b, (*activeBackend).hasTried)
}

// StopBackend is RestartBackend for a process, without the start: the next call starts
// it. It does not wait.
func (g *Gateway) StopBackend(name string) (BackendStatus, error) {
	b, err := g.replaceBackend(name, true)
	if err != nil {
		return BackendStatus{}, err
	}
	return b.status(), nil
}

// replaceBackend makes the gateway use another backend of the same configuration, and
// retires the present one.
func (g *Gateway) replaceBackend(name string, stop bool) (*activeBackend, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	old := g.view.Load()
	i := slices.IndexFunc(old.backends, func(b *activeBackend) bool { return b.Name() == name })
	switch {
	case i < 0:
		return nil, ErrNoBackend
	case old.backends[i].client == nil:
		return nil, fmt.Errorf("backend %q is part of the program", name)
	case stop && old.backends[i].srv.Transport() != config.TypeStdio:
		return nil, errNoProcess
	}
	b := old.backends[i]
	fresh := g.start(b.srv, b.limits, previous{offer: b.Offer(), reason: "it is being restarted", stopped: stop})
	for {
		next := old.successor()
		next.backends, next.catalog = slices.Clone(old.backends), old.catalog
		next.backends[i] = fresh
		next.offered = next.offers()
		g.derive(next, old)
		if g.view.CompareAndSwap(old, next) {
			break
		}
		old = g.view.Load() // with another catalog: backends are replaced under the lock
	}
	close(old.replaced)
	g.retire(b, old.cfg.Drain.Timeout)
	g.requestRebuild()
	return fresh, nil
}

// hasTried reports whether a new backend has tried to reach its server, or need not.
func (b *activeBackend) hasTried() bool { return b.Renewed() || b.Offer().State.IsResting() }

// awaitAttempt waits until the backend, or the one that has replaced it, has tried to reach
// its server. A backend that is replaced fails.
func (g *Gateway) awaitAttempt(ctx context.Context, b *activeBackend, hasTried func(*activeBackend) bool) (BackendStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	for {
		v := g.view.Load() // before the offer: a change after it replaces the view
		tried, status := hasTried(b) && b.Offer().State != backend.Starting, b.status()
		switch now, ok := g.view.Load().backend(b.Name()); {
		case ok && now != b:
			b = now
			continue
		case tried:
			return status, nil
		}
		select {
		case <-v.replaced:
		case <-g.ctx.Done():
			return BackendStatus{}, ErrClosed
		case <-ctx.Done():
			return b.status(), nil
		}
	}
}
