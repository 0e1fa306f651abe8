// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// State is how reliable an Offer is.
type State uint8

// The states. A stale Offer is the last good one of a backend that cannot be reached
// now; a backend that is down was never reached.
const (
	Starting State = iota
	Live
	Stale
	Down
)

// String returns the state's name for status and log.
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

	// Notices counts, for each list, how often it was fetched because of a notification
	// of the server. It continues while the Backend lives.
	Notices [catalog.NumKinds]uint64

	offered  listSet // the lists that exist
	notified listSet // those that the server notifies of
	late     listSet // those that were never fetched, and are being fetched

	changes uint64 // how many of the Backend's counted changes the lists contain
}

// IsNewer reports whether the offer has changes that the other one lacks.
func (o *Offer) IsNewer(other *Offer) bool { return o.changes > other.changes }

// unannounced returns the lists that the server sends no notifications for.
func (o *Offer) unannounced() listSet { return o.offered &^ o.notified }

// Known reports whether the backend was ever reached, so that its lists and its
// capabilities are known.
func (o *Offer) Known() bool { return o.State == Live || o.State == Stale }

// Answered reports whether a list, or the reason of its failure, is known.
func (o *Offer) Answered(k catalog.Kind) bool { return o.State != Starting && !o.late.has(k) }

// inherited returns the offer as that of a Backend that has not reached the server yet.
func (o *Offer) inherited() *Offer {
	return &Offer{
		State: Stale, Reason: "its configuration changed, and it has not been reached since",
		Server: o.Server, Instructions: o.Instructions, Lists: o.Lists, At: o.At, offered: o.offered,
	}
}

// defaultTTL is the time to live of a list without one, from a server that does not
// announce changes. After that it is fetched on the next request for it.
const defaultTTL = time.Minute

// freshFor returns the shortest time to live of the lists without notifications.
func (o *Offer) freshFor() time.Duration {
	d := defaultTTL
	for k, l := range o.Lists {
		if l.TTL > 0 && o.unannounced().has(catalog.Kind(k)) {
			d = min(d, l.TTL)
		}
	}
	return max(d, time.Second)
}

// withoutNotices returns the offer of a server that sends no notifications, whatever it
// has announced: its lists expire, and are fetched on demand.
func (o *Offer) withoutNotices() *Offer {
	next := *o
	next.notified = 0
	return &next
}
