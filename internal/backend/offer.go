// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// State says how far an Offer can be believed.
type State uint8

// The states. A stale Offer is the last good one of a backend that cannot be
// reached now; a backend that is down was never reached.
const (
	Starting State = iota
	Live
	Stale
	Down
)

// String returns the state's name as status and the log show it.
func (s State) String() string {
	return [...]string{"starting", "live", "stale", "down"}[s]
}

// Offer is what a backend offers at one moment. It is immutable.
type Offer struct {
	State        State
	Reason       string // why it is not live
	Server       mcp.Peer
	Instructions string
	Lists        Lists
	At           time.Time

	// Notices counts, for each list, how often it was fetched because the server has
	// said that it changed. It goes on counting while the Backend lives.
	Notices [catalog.NumKinds]uint64

	offered  listSet // the lists that there are
	notified listSet // those whose changes the server tells
	late     listSet // those that were never fetched, and are awaited

	changes uint64 // how many of those that the Backend has counted are in the lists
}

// IsNewer reports whether the offer has changes that the other one lacks.
func (o *Offer) IsNewer(other *Offer) bool { return o.changes > other.changes }

// silent returns the lists whose changes nobody tells.
func (o *Offer) unannounced() listSet { return o.offered &^ o.notified }

// Known reports whether the backend was ever reached, so that what it offers and
// what it is able to do are known.
func (o *Offer) Known() bool { return o.State == Live || o.State == Stale }

// Answered reports whether it is known what a list has, or why it is not known.
func (o *Offer) Answered(k catalog.Kind) bool { return o.State != Starting && !o.late.has(k) }

// inherited returns the offer as that of a Backend that has not reached the server yet.
func (o *Offer) inherited() *Offer {
	return &Offer{
		State: Stale, Reason: "its configuration changed, and it has not been reached since",
		Server: o.Server, Instructions: o.Instructions, Lists: o.Lists, At: o.At, offered: o.offered,
	}
}

// askAgain is how long a list is believed that came without a time to live from
// a server that does not announce changes. It is asked for again only when
// somebody wants it.
const defaultTTL = time.Minute

// freshFor returns how long the lists may be believed whose changes nobody
// tells: the shortest of those that say how long.
func (o *Offer) freshFor() time.Duration {
	d := defaultTTL
	for k, l := range o.Lists {
		if l.TTL > 0 && o.unannounced().has(catalog.Kind(k)) {
			d = min(d, l.TTL)
		}
	}
	return max(d, time.Second)
}

// untold returns the offer of a server that tells of no changes, whatever it has
// announced: its lists grow old from now on, and are asked for when wanted.
func (o *Offer) withoutNotices() *Offer {
	next := *o
	next.notified = 0
	return &next
}
