// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"time"
)

// State says how far the lists of a backend can be believed.
type State uint8

// The states. The zero value is a backend that was never reached: it offers
// nothing, and may come to offer anything.
const (
	Missing State = iota
	Live
	Stale // the last good lists of one that cannot be reached now
)

// Backend is one backend as Build sees it, in the order of the configuration.
type Backend struct {
	Name  string // as configured; unique
	Rules Rules
	State State

	Capabilities []byte // its capabilities object, or nil
	Instructions string

	Lists [NumKinds]List
}

// List is one list of a backend, every page of it. The items must be valid JSON;
// they are kept and must not be changed.
type List struct {
	Items   []json.RawMessage
	TTL     time.Duration // how long a client may believe it
	Public  bool          // not made for one user only
	Problem string        // why it is not whole, or ""
	Failed  bool          // it could not be fetched; Items are of an earlier time, if any
}

// Options is what holds for all backends. The zero value is the default of each.
type Options struct {
	// FirstWins gives a name that several items would have to the first of them,
	// in the order of the backends and of their lists.
	FirstWins bool

	// Instructions replaces those of the backends.
	Instructions string

	// MaxItems bounds each list of one backend: the first ones are kept. Zero is
	// DefaultMaxItems, negative is no limit.
	MaxItems int

	// MaxSchema bounds a tool's input or output schema in bytes. Zero is
	// DefaultMaxSchema, negative is no limit.
	MaxSchema int

	// PageItems bounds one page of a list. Zero is DefaultPageItems, negative is
	// no limit.
	PageItems int
}

// The defaults of Options.
const (
	DefaultMaxItems  = 2000
	DefaultMaxSchema = 256 << 10

	// DefaultPageItems is high because there are clients that read the first
	// page only, and bounded because there are clients that show what they read
	// to a model.
	DefaultPageItems = 1000

	// pageBytes and pageMembers end a page that has fewer items than it may have,
	// so that no list becomes a message that is refused for its size: by another
	// gateway like this one, say, with its limits of 4 MiB and 100,000 members.
	pageBytes   = 3 << 20
	pageMembers = 80_000
)

func limit(v, def int) int {
	switch {
	case v == 0:
		return def
	case v < 0:
		return int(^uint(0) >> 1)
	default:
		return v
	}
}
