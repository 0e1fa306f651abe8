// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"testing"
	"time"
)

// A merged list has the shortest TTL and the most private scope, and a TTL of zero if
// it may be incomplete (INVARIANTS I32).
//
// G1- 2026-07-28 server/utilities/caching: "Servers MUST provide a `ttlMs` value that
// is `>= 0`."
func TestFreshness(t *testing.T) {
	list := func(name string, ttl time.Duration, public bool) Backend {
		b := backend(name).with(Tools, tool("x"))
		b.Lists[Tools].TTL, b.Lists[Tools].Public = ttl, public
		return b
	}
	state := func(b Backend, s State) Backend {
		b.State = s
		return b
	}
	without := Backend{Name: "w", State: Live, Capabilities: []byte(`{"prompts":{}}`)}
	empty := list("e", time.Second, true)
	empty.Lists[Tools].Items = nil
	tests := []struct {
		name  string
		in    []Backend
		ttl   int64
		scope string
	}{
		{"nobody", nil, 0, "private"},
		{"one", []Backend{list("a", time.Minute, true)}, 60_000, "public"},
		{"one, private", []Backend{list("a", time.Minute, false)}, 60_000, "private"},
		{"one, legacy", []Backend{list("a", 0, false)}, 0, "private"},
		{"negative counts as none", []Backend{list("a", -time.Second, true)}, 0, "public"},
		{"the shortest", []Backend{list("a", time.Minute, true), list("b", time.Second, true), list("c", time.Hour, true)}, 1000, "public"},
		{"the most private", []Backend{list("a", time.Minute, true), list("b", time.Hour, false), list("c", time.Minute, true)}, 60_000, "private"},
		{"none is the shortest", []Backend{list("a", time.Minute, true), list("b", 0, true)}, 0, "public"},
		{"one without tools has no say", []Backend{without, list("a", time.Minute, true)}, 60_000, "public"},
		{"one with none now has", []Backend{list("a", time.Minute, true), empty}, 1000, "public"},
		{"stale", []Backend{list("a", time.Minute, true), state(list("b", time.Minute, true), Stale)}, 0, "public"},
		{"missing", []Backend{list("a", time.Minute, true), state(without, Missing)}, 0, "private"},
	}
	for _, tt := range tests {
		p := readPage(t, Build(tt.in, Options{}), Tools, "")
		if p.TTL == nil || *p.TTL != tt.ttl || p.CacheScope != tt.scope {
			t.Errorf("%s: got %v, %q, want %d, %q", tt.name, p.TTL, p.CacheScope, tt.ttl, tt.scope)
		}
	}
}

func TestMissingBackendOffersNothing(t *testing.T) {
	b := backend("a").with(Tools, tool("x"))
	b.State = Missing
	if c := Build([]Backend{b}, Options{}); c.sections[Tools].len != 0 {
		t.Errorf("offered: %s", names(c, Tools))
	}
}

// INVARIANTS I41: an unreachable backend costs its own items only, and none if it was
// reached before.
func TestI41OneBackendDown(t *testing.T) {
	up := backend("up").with(Tools, tool("x"))
	down := backend("down").with(Tools, tool("y"))
	down.State = Stale
	if got, want := names(Build([]Backend{down, up, {Name: "never"}}, Options{}), Tools), "down__y up__x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
