// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// listTimeout is how long the other lists wait for one that is late.
	listTimeout = 2 * time.Second

	// brokenRetryDelay is the delay before fetching a list again if fetching it broke
	// the connection more than once: the connection may also have carried calls.
	brokenRetryDelay = 2 * time.Minute
)

// listFailure records the failures of one list.
type listFailure struct {
	count int       // in a row
	due   time.Time // when to fetch the list again
}

// fetchGroup fetches the lists of a server, each independently: a list that fails or is
// slow does not affect the others. It belongs to one goroutine.
type fetchGroup struct {
	f         *fetcher
	offered   listSet
	lists     [catalog.NumKinds]catalog.List
	shared    [catalog.NumKinds]*snapshot // of lists
	errs      [catalog.NumKinds]error     // of the lists that failed
	busy      listSet                     // the lists that are being fetched
	refetch   listSet                     // the busy lists that have changed since the fetch began
	announced listSet                     // the lists that the server has notified of, until they are fetched
	results   chan fetched                // capacity for all of busy
}

// fetched is the result of one fetch.
type fetched struct {
	kind catalog.Kind
	list catalog.List
	err  error
}

// newFetchGroup returns a fetchGroup that starts with the current lists.
func newFetchGroup(f *fetcher) *fetchGroup {
	return &fetchGroup{f: f, lists: f.b.Offer().Lists, shared: f.b.Offer().shared, results: make(chan fetched, catalog.NumKinds)}
}

// fillOffer sets the lists of an offer, and counts the notifications for them.
func (g *fetchGroup) fillOffer(o *Offer) {
	o.late = g.busy &^ g.f.b.answered
	counted := g.announced &^ g.busy &^ g.failed()
	g.announced &^= counted
	for k := range g.offered.kinds() {
		o.Lists[k], o.shared[k] = g.lists[k], g.shared[k]
	}
	for k := range counted.kinds() {
		o.Notices[k]++
	}
	o.At = time.Now()
}

// fetch fetches the lists that are wanted and offered, one after the other. It skips a
// list that failed and is not due yet, unless the server has notified of it. A list
// that is late is received by store.
func (g *fetchGroup) fetch(ctx context.Context, wanted, announced listSet) {
	// "Only use capabilities that were successfully negotiated" (2025-11-25,
	// basic/lifecycle, "Operation"): what is not declared is not used, whatever the
	// notifications.
	g.announced |= announced & g.offered
	var begun, together listSet
	for k := range (wanted & g.offered).kinds() {
		switch {
		case !announced.has(k) && time.Now().Before(g.f.b.failures[k].due):
			continue
		case g.busy.has(k):
			g.refetch |= 1 << k
			continue
		}
		g.start(ctx, k)
		// The server may be unreachable: each request may take a long time to find out.
		if g.unsent(begun) {
			together |= 1 << k
		} else {
			g.await(ctx, 1<<k)
		}
		begun |= 1 << k
	}
	g.await(ctx, together)
}

// unsent reports whether a request for one of the lists could not be sent.
func (g *fetchGroup) unsent(of listSet) bool {
	for k := range of.kinds() {
		if f, ok := errors.AsType[*mcp.Fault](g.errs[k]); ok && f.Outcome == mcp.NotDispatched {
			return true
		}
	}
	return false
}

func (g *fetchGroup) start(ctx context.Context, k catalog.Kind) {
	g.busy |= 1 << k
	// Ends with ctx; wait receives its result.
	go func() {
		list, err := g.f.list(ctx, k)
		g.results <- fetched{k, list, err}
	}()
}

// await waits for lists, but at most listTimeout.
func (g *fetchGroup) await(ctx context.Context, of listSet) {
	if g.busy&of == 0 {
		return
	}
	late := time.After(listTimeout)
	for g.busy&of != 0 {
		select {
		case r := <-g.results:
			g.store(ctx, r)
		case <-late:
			g.markLate(g.busy & of)
			return
		}
	}
}

func (g *fetchGroup) markLate(of listSet) {
	for k := range of.kinds() {
		// The reason of a previous failure is more useful.
		if l := &g.lists[k]; !l.Failed {
			l.Failed = true
			l.Problem = fmt.Sprintf("%s: no response for %v, still waiting", k.Method(), listTimeout)
		}
	}
}

// awaitFirst waits until one list was fetched, or all have failed.
func (g *fetchGroup) awaitFirst(ctx context.Context) {
	for g.busy != 0 && g.failed() == g.offered&^g.busy && ctx.Err() == nil {
		select {
		case r := <-g.results:
			g.store(ctx, r)
		case <-ctx.Done():
		}
	}
}

// store stores the result of a fetch. If the list has changed since the fetch began, it
// fetches again instead.
func (g *fetchGroup) store(ctx context.Context, r fetched) {
	g.busy &^= 1 << r.kind
	t := &g.f.b.failures[r.kind]
	switch {
	case ctx.Err() != nil:
	case g.refetch.has(r.kind):
		g.refetch &^= 1 << r.kind
		g.start(ctx, r.kind)
	case r.err != nil:
		t.count++
		t.due = time.Now().Add(retryDelay(t.count, r.err))
		g.storeFailure(r.kind, r.err)
		g.f.b.answered |= 1 << r.kind
	default:
		*t = listFailure{}
		g.f.b.answered |= 1 << r.kind
		g.lists[r.kind], g.shared[r.kind] = g.f.b.cfg.Snapshots.share(r.list)
		g.errs[r.kind] = nil
	}
}

// storeFailure keeps the previous items of the list.
func (g *fetchGroup) storeFailure(k catalog.Kind, err error) {
	l := &g.lists[k]
	before := l.Problem
	l.Failed = true
	l.Problem = k.Method() + ": " + strings.TrimPrefix(g.f.b.reason(err), k.Method()+": ")
	if len(l.Items) > 0 {
		l.Problem += "; the previous list is still offered"
	}
	g.errs[k] = err
	if l.Problem != before {
		g.f.b.log.Warn("list not fetched", slog.String("method", k.Method()), slog.Any("err", err))
	}
}

// retryDelay returns the delay before a list that failed for the nth time is fetched
// again.
func retryDelay(n int, err error) time.Duration {
	wait := min(minRetryDelay<<min(n-1, 16), maxRetryDelay)
	f, ok := errors.AsType[*mcp.Fault](err)
	if n > 1 && ok && f.Code == mcp.CodeBackendFailed && f.Outcome == mcp.Unknown {
		wait = brokenRetryDelay
	}
	return backoff.Jitter(wait)
}

// failed returns the lists that failed and are not being fetched.
func (g *fetchGroup) failed() listSet {
	var failed listSet
	for k := range (g.offered &^ g.busy).kinds() {
		if g.lists[k].Failed {
			failed |= 1 << k
		}
	}
	return failed
}

// err returns why no list could be fetched. It is nil if one was, or still may be, and none was
// refused.
func (g *fetchGroup) err() error {
	for _, err := range g.errs {
		if g.f.b.cfg.ByAccess && isRefusal(err) {
			return err
		}
	}
	if g.failed() != g.offered {
		return nil
	}
	for k := range catalog.NumKinds {
		g.f.b.failures[k].due = time.Time{} // the next attempt is of the whole server
	}
	return cmp.Or(g.errs[:]...)
}

// retry returns a channel that receives when a failed list is due, or nil.
func (g *fetchGroup) retry() <-chan time.Time {
	var next time.Time
	for k := range g.failed().kinds() {
		if t := g.f.b.failures[k].due; next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// wait waits for the running fetches. Their context has ended.
func (g *fetchGroup) wait() {
	for g.busy != 0 {
		g.busy &^= 1 << (<-g.results).kind
	}
}
