// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// kind is what a flight is to those who wait for it.
type kind uint8

const (
	call     kind = iota // ends by itself: drain waits for it
	listen               // ends when it is told to, with its result
	standing             // a standalone stream: ends when it is told to
	pipe                 // a stdio connection: outlives the others
)

// flight is something that runs for a client: what Shutdown waits for, and how
// to stop it.
type flight struct {
	kind   kind
	cancel context.CancelCauseFunc
	x      *session.Exchange // of calls and listens that have one

	tornDown atomic.Bool // ended by us and not by the client

	serial uint64 // guarded by flights.mu
}

// flights are all that runs for clients. There is one goroutine of ours, or one
// of net/http, for each.
type flights struct {
	mu       sync.Mutex
	draining bool
	last     uint64
	open     map[*flight]struct{}
	changed  chan struct{} // closed when one of open goes and somebody waits
}

// enter adds a flight, unless the server is draining.
func (f *flights) enter(fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return false
	}
	if f.open == nil {
		f.open = make(map[*flight]struct{})
	}
	f.last++
	fl.serial = f.last
	f.open[fl] = struct{}{}
	return true
}

func (f *flights) leave(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, fl)
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// drain has enter refuse from now on.
func (f *flights) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
}

func (f *flights) isDraining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

// of lists the open flights of some kinds in the order in which they began, and
// returns a channel that is closed when that is worth another look.
func (f *flights) of(kinds ...kind) ([]*flight, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*flight
	for fl := range f.open {
		if slices.Contains(kinds, fl.kind) {
			found = append(found, fl)
		}
	}
	slices.SortFunc(found, func(a, b *flight) int { return cmp.Compare(a.serial, b.serial) })
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return found, f.changed
}

// wait returns when no flight of these kinds is open, or with the context's
// error.
func (f *flights) wait(ctx context.Context, kinds ...kind) error {
	for {
		open, changed := f.of(kinds...)
		if len(open) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tearDown tells the flights of these kinds to end.
func (f *flights) tearDown(why error, kinds ...kind) {
	open, _ := f.of(kinds...)
	for _, fl := range open {
		fl.tornDown.Store(true)
		fl.cancel(why)
	}
}
