// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
)

// announcer tells whoever keeps the lists of a server that one has changed, on behalf
// of readers that must not wait. What comes while it tells is told once, after that.
// It has a goroutine only while there is something to tell. The zero value is ready.
type announcer struct {
	mu      sync.Mutex
	wanted  bool // something has changed since it was last told
	running bool
}

// note has a change told, without waiting. Where the owner closes, nobody is told any
// more.
func (a *announcer) note(owner *tasks, tell func()) {
	if !a.begin() {
		return
	}
	// Lent, because who is told may do anything, closing the owner included; ends when
	// nothing is left to tell.
	told := owner.lend(func(ctx context.Context) {
		for a.next(ctx.Err() != nil) {
			tell()
		}
	})
	if !told {
		a.next(true)
	}
}

// begin reports whether a goroutine is needed.
func (a *announcer) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := !a.running
	a.wanted, a.running = true, true
	return idle
}

// next reports whether there is something to tell, unless no more is to be told; if
// not, the goroutine is over.
func (a *announcer) next(stop bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = a.wanted && !stop
	a.wanted = false
	return a.running
}
