// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// State is how reliable an Offer is.
type State uint8

// The states. A stale Offer is the last good one of a backend that cannot be reached
// now; a backend that is down was never reached. The process of one that is idle has
// ended because no client used it, and that of one that is kept has not been started
// yet: its lists are of an earlier run. The next call starts it.
const (
	Starting State = iota
	Live
	Stale
	Down
	Idle
	Kept

	NumStates
)

// String returns the state's name for status and log.
func (s State) String() string {
	return [...]string{"starting", "live", "stale", "down", "idle", "kept"}[s]
}

// IsResting reports whether the server is not tracked until it is used.
func (s State) IsResting() bool { return s == Idle || s == Kept }

// Offer is what a backend offers at one moment. It is immutable.
type Offer struct {
	State        State
	Reason       string // why it is not live
	Code         string // the code of the reason, or ""
	Server       mcp.Peer
	Instructions string
	Lists        Lists
	At           time.Time

	// Refused is whether the server has refused to list with the access that it was asked with.
	// It stays set while the server cannot be reached; see Config.ByAccess.
	Refused bool

	// Notices counts, for each list, how often it was fetched because of a notification
	// of the server. It continues while the Backend lives.
	Notices [catalog.NumKinds]uint64

	offered  listSet // the lists that exist
	notified listSet // those that the server notifies of
	late     listSet // those that were never fetched, and are being fetched

	changes uint64 // how many of the Backend's counted changes the lists contain

	shared [catalog.NumKinds]*snapshot // of Lists, or nil
}

// IsNewer reports whether the offer has changes that the other one lacks.
func (o *Offer) IsNewer(other *Offer) bool { return o.changes > other.changes }

// unannounced returns the lists that the server sends no notifications for.
func (o *Offer) unannounced() listSet { return o.offered &^ o.notified }

// Known reports whether the backend was ever reached, so that its lists and its
// capabilities are known.
func (o *Offer) Known() bool { return o.State == Live || o.State == Stale || o.State.IsResting() }

// Answered reports whether a list, or the reason of its failure, is known.
func (o *Offer) Answered(k catalog.Kind) bool { return o.State != Starting && !o.late.has(k) }

// AnsweredAny reports whether Answered is true for any list.
func (o *Offer) AnsweredAny() bool { return o.State != Starting && o.late != allLists }

// AnsweredAs reports whether Answered is the same for each list of both offers.
func (o *Offer) AnsweredAs(other *Offer) bool {
	return (o.State == Starting) == (other.State == Starting) && (o.State == Starting || o.late == other.late)
}

// before returns the offer as that of a Backend that has not reached the server yet.
func (o *Offer) before(state State, reason string) *Offer {
	return &Offer{
		State: state, Reason: reason,
		Server: o.Server, Instructions: o.Instructions, Lists: o.Lists, At: o.At, offered: o.offered,
	}
}

// defaultTTL is the time to live of a list without one, from a server that does not
// announce changes. After that it is fetched on the next request for it.
const defaultTTL = time.Minute

// freshFor returns the shortest time to live of the lists without notifications.
func (o *Offer) freshFor() time.Duration {
	d := defaultTTL
	for k := range o.unannounced().kinds() {
		if ttl := o.Lists[k].TTL; ttl > 0 {
			d = min(d, ttl)
		}
	}
	return max(d, time.Second)
}

// Lists are all lists of a server.
type Lists [catalog.NumKinds]catalog.List

// ListsFor returns what the server offers to a client, requested on behalf of that
// client and, if it has one, in its session. A list that fails is that of the Offer,
// which is not changed.
func (b *Backend) ListsFor(ctx context.Context, c Client) (Lists, error) {
	o, err := b.offerFor(ctx, c)
	if err != nil {
		return Lists{}, err
	}
	return o.Lists, nil
}

// offerFor returns what the server offers to a client, with the lists of ListsFor.
func (b *Backend) offerFor(ctx context.Context, c Client) (*Offer, error) {
	f := &fetcher{b: b, client: c}
	o, err := f.discover(ctx)
	if err != nil {
		return nil, err
	}
	for k := range o.offered.kinds() {
		if o.Lists[k], err = f.list(ctx, k); err != nil {
			o.Lists[k] = b.Offer().Lists[k]
		}
	}
	return o, nil
}

// ListsOf returns what the server offers to clients with these features, requested in a
// temporary session. The Offer is not changed.
func (b *Backend) ListsOf(ctx context.Context, p Features) (Lists, error) {
	c, end := b.temporaryClient(ctx, p)
	defer end()
	return b.ListsFor(ctx, c)
}

// ToolsOf is ListsOf for the tools alone. If the list fails, that is the error.
func (b *Backend) ToolsOf(ctx context.Context, p Features) (catalog.List, error) {
	c, end := b.temporaryClient(ctx, p)
	defer end()
	f := &fetcher{b: b, client: c}
	o, err := f.discover(ctx)
	if err != nil || !o.offered.has(catalog.Tools) {
		return catalog.List{}, err
	}
	return f.list(ctx, catalog.Tools)
}

// temporaryClient returns a client with these features, whose session lasts until end is
// called, in the server's turn.
func (b *Backend) temporaryClient(ctx context.Context, p Features) (c Client, end func()) {
	done := func() {}
	if b.cfg.Turn != nil {
		done = b.cfg.Turn(ctx)
	}
	c = b.clientOf(p)
	return c, func() {
		c.Scope.End()
		done()
	}
}

// Equal reports whether both have the same items in the same order.
func (l *Lists) Equal(o *Lists) bool {
	for k := range l {
		if !slices.EqualFunc(l[k].Items, o[k].Items, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			return false
		}
	}
	return true
}

// Features is a set of client features that servers are known to require before they
// offer a tool. There are few such sets, whatever clients declare.
type Features uint8

// The features.
const (
	hasElicitation Features = 1 << iota
	hasURLElicitation
	hasSampling
	hasRoots

	// RendersApps is MCP Apps (io.modelcontextprotocol/ui). Unlike the others it lets a server
	// offer something else, so it is not in AllFeatures.
	RendersApps
)

// AllFeatures has every feature but RendersApps. Its lists are those of Offer.
const AllFeatures = hasElicitation | hasURLElicitation | hasSampling | hasRoots

// FeaturesOf returns the features of a client that has declared these capabilities.
// Invalid capabilities declare nothing.
func FeaturesOf(capabilities []byte) Features {
	var c struct {
		Elicitation *map[string]jsontext.Value `json:"elicitation"`
		Sampling    *map[string]jsontext.Value `json:"sampling"`
		Roots       *map[string]jsontext.Value `json:"roots"`
	}
	if jsonv2.Unmarshal(orObject(capabilities), &c, jsontext.AllowDuplicateNames(true)) != nil {
		return 0
	}
	var p Features
	if c.Elicitation != nil {
		p |= hasElicitation
		if _, ok := (*c.Elicitation)["url"]; ok {
			p |= hasURLElicitation
		}
	}
	if c.Sampling != nil {
		p |= hasSampling
	}
	if c.Roots != nil {
		p |= hasRoots
	}
	if extension.Declares(capabilities, extension.UI) {
		p |= RendersApps
	}
	return p
}

// capabilities returns the capabilities of a client that has exactly these features.
func (p Features) capabilities() []byte {
	var members []string
	if p&hasElicitation != 0 {
		modes := `"form":{}`
		if p&hasURLElicitation != 0 {
			modes += `,"url":{}`
		}
		members = append(members, `"elicitation":{`+modes+`}`)
	}
	if p&hasSampling != 0 {
		members = append(members, `"sampling":{"context":{},"tools":{}}`)
	}
	if p&hasRoots != 0 {
		members = append(members, `"roots":{"listChanged":true}`)
	}
	if p&RendersApps != 0 {
		members = append(members, `"extensions":{"`+extension.UI+`":`+extension.UICapability+`}`)
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

// PeerOf returns the gateway itself as a client with these features.
func (b *Backend) PeerOf(p Features) *mcp.Peer {
	return &mcp.Peer{Version: mcp.LatestModern, Info: b.cfg.Info, Capabilities: p.capabilities()}
}

// clientOf returns the gateway itself as a client with these features, with a scope of its
// own.
func (b *Backend) clientOf(p Features) Client {
	return Client{Peer: b.PeerOf(p), Principal: b.cfg.Principal, Scope: mcp.NewScope("lists of "+b.cfg.Name, nil)}
}

// Has reports whether p has every feature of q.
func (p Features) Has(q Features) bool { return q&^p == 0 }

// Lacks returns the names of the features of AllFeatures that p does not have.
func (p Features) Lacks() []string {
	names := []string{"elicitation", "URL elicitation", "sampling", "roots"}
	lacking := names[:0:0]
	for i, name := range names {
		if p&(1<<i) == 0 {
			lacking = append(lacking, name)
		}
	}
	return lacking
}
