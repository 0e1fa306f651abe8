// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// vigil is a listen for the lists alone. There is a goroutine for it only while
// something is told: a gateway may have a hundred thousand of them, and nothing happens
// on nearly all of them nearly all of the time.
type listWatch struct {
	g      *Gateway
	ctx    context.Context //nolint:containedctx // of the listen, which is what this is
	of     requester
	caller mcp.Caller
	want   listenFilter
	seen   *seenLists

	mu      sync.Mutex
	sending bool // somebody tells, and looks again before it ends
	rerun   bool
	stopped bool
	senders sync.WaitGroup
}

// Watch serves a subscriptions/listen that names no resources and no tasks. It makes a
// Gateway an [mcp.Watcher].
func (g *Gateway) Watch(ctx context.Context, req *mcp.Request, caller mcp.Caller) (stop func(), err error) {
	g.onlyClient.set(req)
	want, err := g.parseFilter(req)
	if err != nil {
		return nil, err
	}
	if len(want.URIs)+len(want.TaskIDs) > 0 {
		return nil, errors.ErrUnsupported // these take goroutines of their own
	}
	// Until run, a change that comes meanwhile is only noted.
	w := &listWatch{g: g, ctx: ctx, of: clientOf(req), caller: caller, want: want, sending: true}
	// In this order, as in listen.
	g.changed.subscribe(w)
	w.seen = g.initialSeen(w.of, want)
	if err = acknowledge(ctx, caller, want); err == nil {
		err = w.run()
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w.stop, nil
}

// wake has somebody look whether there is something to tell. It never waits.
func (w *listWatch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.sending:
		w.rerun = true
	case w.want.anyList() && w.seen.diff(w.g.viewFor(w.of).version()).Any():
		w.sending = true
		// Ends when all that is due was told, or with the listen, whose stop waits for it.
		w.senders.Go(func() { _ = w.run() }) // what could not be told stays due, for the next time
	}
}

// run tells what is due until nothing is.
func (w *listWatch) run() error {
	for {
		err := w.g.sendListChanged(w.ctx, w.of, w.caller, w.want, w.seen)
		if !w.mustRunAgain(err) {
			return err
		}
	}
}

// lookAgain reports whether something may have come since run looked, which it has not
// where it failed: the next change tries again.
func (w *listWatch) mustRunAgain(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = err == nil && w.rerun && !w.stopped
	w.rerun = false
	return w.sending
}

// stop ends the listen, whose context has ended.
func (w *listWatch) stop() {
	w.g.changed.unsubscribe(w)
	w.markStopped()
	w.senders.Wait()
}

func (w *listWatch) markStopped() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}
