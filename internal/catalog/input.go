// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// State is how reliable the lists of a backend are.
type State uint8

// The states. The zero value is for a backend that was never reached: it offers nothing
// yet, and may later offer anything.
const (
	Missing State = iota
	Live
	Stale // the last good lists of a backend that cannot be reached
)

// A Backend is the input of Build for one backend, in the order of the configuration.
type Backend struct {
	Name  string // as configured; unique
	Rules Rules
	State State

	// IsPartial is whether it may come to offer more than what it declares. Its capabilities are
	// then as those of one that is Missing.
	IsPartial bool

	// OwnNames gives the items their own names and URIs.
	OwnNames bool

	// Unpinned reports that Options.Pin does not apply.
	Unpinned bool

	// NoApps is whether its apps are off: their pages are hidden, and its tools have nothing
	// about them.
	NoApps bool

	// Untyped lists its tools without their output schemas.
	Untyped bool

	Capabilities []byte // its capabilities object, or nil
	Instructions string

	Lists [NumKinds]List
}

// isKnown reports whether all items of a list are known.
func (in *Backend) isKnown(k Kind) bool { return in.State == Live && in.Lists[k].Problem == "" }

// A List is one complete list of a backend. The items must be valid JSON; they are kept
// and must not be changed.
type List struct {
	Items   []json.RawMessage
	TTL     time.Duration // how long a client may cache it
	Public  bool          // not specific to one user
	Problem string        // reason why it is incomplete, or ""
	Code    string        // of the Problem, or ""
	Failed  bool          // it could not be fetched; Items are older, if any
}

// Options are settings for all backends. The zero value means the defaults.
type Options struct {
	// FirstWins gives a name that several items would have to the first of them, in the
	// order of the backends and of their lists.
	FirstWins bool

	// Instructions replaces those of the backends.
	Instructions string

	// Private gives all lists private scope, as those of views have: principals see
	// different ones.
	Private bool

	// Pin, if not nil, decides about an item as its backend lists it, before anything else.
	Pin func(backend string, k Kind, item json.RawMessage) Pin

	// ReadsResults adds the tool of the gateway that reads the rest of results that were cut.
	ReadsResults bool

	// Patterns are patterns of names and URIs, by their places in the configuration, to check
	// for those that match nothing.
	Patterns []PlacedPattern

	// Absent are patterns of the names that backends have which are disabled. A rule that may
	// match such a name is not reported as one that matches nothing.
	Absent []string

	// Apps is what becomes of apps.
	Apps Apps

	// Profiles are the profiles to check for rules that match nothing; see Catalog.Profile.
	Profiles []Profile

	// MaxItems bounds each list of one backend: the first ones are kept. Zero means
	// DefaultMaxItems, negative no limit.
	MaxItems int

	// MaxSchema bounds a tool's input or output schema in bytes. Zero means
	// DefaultMaxSchema, negative no limit.
	MaxSchema int

	// PageItems bounds one page of a list. Zero means DefaultPageItems, negative no
	// limit.
	PageItems int
}

// Pin is what becomes of an item.
type Pin struct {
	Item    json.RawMessage // as it is offered: the item itself, or another definition of it
	Held    bool            // it is neither listed nor called
	Problem string          // why, or why Item is another one; "" for an item that is offered as it is
	Code    string          // of the problem
}

// mayBeAbsent reports whether a pattern may match an item of a backend that is disabled.
func (o *Options) mayBeAbsent(pattern string) bool {
	return slices.ContainsFunc(o.Absent, func(absent string) bool { return glob.Overlap(pattern, absent) })
}

// PlacedPattern is a pattern at a place, such as policy.rules[0].on[0].
type PlacedPattern struct{ Place, Pattern string }

// The defaults of Options.
const (
	DefaultMaxItems  = 2000
	DefaultMaxSchema = 256 << 10

	// DefaultPageItems is high because some clients read only the first page, and
	// bounded because some clients show the whole page to a model.
	DefaultPageItems = 1000

	// pageBytes and pageMembers end a page early, so that no page is rejected for its
	// size, for example by another gateway of this kind with its limits of 4 MiB and
	// 100,000 members.
	pageBytes   = 3 << 20
	pageMembers = 80_000
)

func limit(v, def int) int {
	switch {
	case v == 0:
		return def
	case v < 0:
		return math.MaxInt
	default:
		return v
	}
}
