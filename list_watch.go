// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// listWatch is a listen for lists only. It has a goroutine only while it sends: a
// gateway may have a hundred thousand of them, nearly all idle nearly all of the time.
type listWatch struct {
	g      *Gateway
	ctx    context.Context //nolint:containedctx // the context of the listen, which is what this is
	of     requester
	caller mcp.Caller
	want   listen.Filter
	seen   *seenLists

	mu      sync.Mutex
	sending bool // a goroutine sends, and checks again before it ends
	rerun   bool
	stopped bool
	senders sync.WaitGroup
}

// Watch serves a subscriptions/listen for lists only. With ServeNow it makes a Gateway an
// [mcp.HandlerExtension].
func (g *Gateway) Watch(ctx context.Context, req *mcp.Request, caller mcp.Caller) (stop func(), err error) {
	g.onlyClient.set(req)
	want, err := g.parseFilter(req)
	if err != nil {
		return nil, err
	}
	if len(want.URIs)+len(want.TaskIDs) > 0 {
		return nil, errors.ErrUnsupported // resources and tasks need goroutines
	}
	// With sending set, a change before run is only recorded.
	w := &listWatch{g: g, ctx: ctx, of: clientOf(req), caller: caller, want: want, sending: true}
	// In this order, as in listen.
	g.changed.subscribe(w)
	w.seen = g.initialSeen(w.of, want)
	if err = want.Acknowledge(ctx, caller); err == nil {
		err = w.run()
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w.stop, nil
}

// wake starts sending if notifications are due. It does not block.
func (w *listWatch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.sending:
		w.rerun = true
	case w.want.Lists() != 0 && w.seen.diff(w.g.viewFor(w.of).version()).Any():
		w.sending = true
		// Ends when all that is due was sent, or with the listen; stop waits for it.
		w.senders.Go(func() { _ = w.run() }) // what could not be sent stays due until the next change
	}
}

// run sends what is due until nothing is.
func (w *listWatch) run() error {
	for {
		err := w.g.sendListChanged(w.ctx, w.of, w.caller, w.want, w.seen)
		if !w.mustRunAgain(err) {
			return err
		}
	}
}

// mustRunAgain reports whether there may be a change since run sent. After a failure it
// reports false: the next change tries again.
func (w *listWatch) mustRunAgain(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = err == nil && w.rerun && !w.stopped
	w.rerun = false
	return w.sending
}

// stop ends the listen. Its context has ended.
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
