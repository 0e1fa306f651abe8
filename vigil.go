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
type vigil struct {
	g      *Gateway
	ctx    context.Context //nolint:containedctx // of the listen, which is what this is
	of     requester
	caller mcp.Caller
	want   filter
	told   *told

	mu      sync.Mutex
	telling bool // somebody tells, and looks again before it ends
	again   bool
	over    bool
	tellers sync.WaitGroup
}

// Watch serves a subscriptions/listen that names no resources and no tasks. It makes a
// Gateway an [mcp.Watcher].
func (g *Gateway) Watch(ctx context.Context, req *mcp.Request, caller mcp.Caller) (stop func(), err error) {
	g.sole.note(req)
	want, err := g.filterOf(req)
	if err != nil {
		return nil, err
	}
	if len(want.URIs)+len(want.TaskIDs) > 0 {
		return nil, errors.ErrUnsupported // these take goroutines of their own
	}
	// Until run, a change that comes meanwhile is only noted.
	w := &vigil{g: g, ctx: ctx, of: clientOf(req), caller: caller, want: want, telling: true}
	// In this order, as in listen.
	g.changes.add(w)
	w.told = g.baseline(w.of, want)
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
func (w *vigil) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.telling:
		w.again = true
	case w.want.lists() && w.told.behind(w.g.viewFor(w.of).version()).Any():
		w.telling = true
		// Ends when all that is due was told, or with the listen, whose stop waits for it.
		w.tellers.Go(func() { _ = w.run() }) // what could not be told stays due, for the next time
	}
}

// run tells what is due until nothing is.
func (w *vigil) run() error {
	for {
		err := w.g.tell(w.ctx, w.of, w.caller, w.want, w.told)
		if !w.lookAgain(err) {
			return err
		}
	}
}

// lookAgain reports whether something may have come since run looked, which it has not
// where it failed: the next change tries again.
func (w *vigil) lookAgain(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.telling = err == nil && w.again && !w.over
	w.again = false
	return w.telling
}

// stop ends the listen, whose context has ended.
func (w *vigil) stop() {
	w.g.changes.remove(w)
	w.end()
	w.tellers.Wait()
}

func (w *vigil) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}
