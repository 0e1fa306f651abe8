// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"strings"
	"sync/atomic"
	"weak"

	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// lists remembers what lists have become for the revisions of the legacy era: a
// Handler that answers everybody with one and the same result, as a catalog does, has
// it translated once and not for each client. A result that is new each time leaves
// nothing behind but the place where it was seen. The zero value is empty.
type lists struct {
	seen atomic.Pointer[[]translation]
}

// translation is what a result has become for a revision.
type translation struct {
	from    weak.Pointer[mcp.Result]
	version mcp.Version
	to      *mcp.Object // nil while it was seen only once
}

// maxTranslations bounds what is remembered: some pages of some lists for each
// revision.
const maxTranslations = 32

// translate returns the result of a list as a client of the revision gets it.
func (l *lists) translate(v mcp.Version, method string, res *mcp.Result) mcp.Object {
	if l == nil {
		return legacyObject(v, method, res)
	}
	key := translation{from: weak.Make(res), version: v}
	old := l.load()
	i := slices.IndexFunc(old, func(t translation) bool { return t.from == key.from && t.version == v })
	if i >= 0 && old[i].to != nil {
		return *old[i].to
	}
	out := legacyObject(v, method, res)
	if i >= 0 {
		key.to = &out
	}
	// A race loses what one of two has remembered, and nothing else.
	next := append(make([]translation, 0, len(old)+1), key)
	for j, t := range old {
		if j != i && len(next) < maxTranslations && t.from.Value() != nil {
			next = append(next, t)
		}
	}
	l.seen.Store(&next)
	return out
}

func (l *lists) load() []translation {
	if p := l.seen.Load(); p != nil {
		return *p
	}
	return nil
}

// legacyObject is the result without what only modern results have, and with what the
// revision cannot carry said in what it can.
func legacyObject(v mcp.Version, method string, res *mcp.Result) mcp.Object {
	translated := revision.Result(v, method, res)
	e := unmodern(&translated.Object)
	out, err := e.Apply(&translated.Object)
	if err != nil {
		return translated.Object // only what is set can be wrong, and nothing is
	}
	return out
}

// unmodern takes away what only modern results have: of what kind they are, and for
// how long and whom they hold, which we keep to ourselves.
func unmodern(res *mcp.Object) *mcp.Edit {
	var e mcp.Edit
	for _, f := range [...]mcp.Field{mcp.FieldResultType, mcp.FieldTTL, mcp.FieldCacheScope} {
		if res.Has(f) {
			e.Delete(f)
		}
	}
	return &e
}

func isList(method string) bool { return strings.HasSuffix(method, "/list") }
