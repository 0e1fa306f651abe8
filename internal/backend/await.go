// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import "time"

// Awaited is what a Backend waits for while it is starting.
type Awaited uint8

// What a Backend waits for, in this order.
const (
	AwaitsNothing  Awaited = iota // Run has not begun
	AwaitsClient                  // a request of the only client
	AwaitsTurn                    // the start of other servers
	AwaitsResponse                // the first response of the server
	AwaitsLists                   // the first of its lists
)

// await is what the Backend waits for, and since when.
type await struct {
	what  Awaited
	since time.Time
}

// Awaits returns what the Backend waits for until its first Offer, and since when.
func (b *Backend) Awaits() (what Awaited, since time.Time) {
	if a := b.awaits.Load(); a != nil {
		return a.what, a.since
	}
	return AwaitsNothing, time.Time{}
}

func (b *Backend) nowAwaits(what Awaited) {
	b.awaits.Store(&await{what, time.Now()})
}
