// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

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

// Kind is one of the lists that a server offers.
type Kind uint8

// The kinds, in the order in which they are fetched.
const (
	Tools Kind = iota
	Resources
	Templates
	Prompts
	numKinds
)

// Method returns the kind's list method.
func (k Kind) Method() string {
	return [...]string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"}[k]
}

// Field returns the member of a list's result that holds the items.
func (k Kind) Field() mcp.Field {
	return [...]mcp.Field{mcp.FieldTools, mcp.FieldResources, mcp.FieldResourceTemplates, mcp.FieldPrompts}[k]
}

// List is one list of a backend, every page of it.
type List struct {
	Items   []jsontext.Value // as they arrived
	TTL     time.Duration    // how long it says that it stays true
	Public  bool             // not made for one user only
	Problem string           // why it is not whole, or ""
}

// Offer is what a backend offers at one moment. It is immutable.
type Offer struct {
	State        State
	Reason       string // why it is not live
	Server       mcp.Peer
	Instructions string
	Lists        [numKinds]List
	Announced    bool // the server tells of changes, and is listened to
	At           time.Time
}

// List returns one of the lists.
func (o *Offer) List(k Kind) List { return o.Lists[k] }

// Known reports whether the backend was ever reached, so that what it offers and
// what it is able to do are known.
func (o *Offer) Known() bool { return o.State == Live || o.State == Stale }

// askAgain is how long a list is believed that came without a time to live from
// a server that does not announce changes. It is asked for again only when
// somebody wants it.
const askAgain = time.Minute

// freshFor returns how long the lists may be believed: the shortest of those
// that say how long.
func (o *Offer) freshFor() time.Duration {
	d := askAgain
	for _, l := range o.Lists {
		if l.TTL > 0 {
			d = min(d, l.TTL)
		}
	}
	return max(d, time.Second)
}
