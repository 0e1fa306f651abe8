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

// translations remember what results have become for the revisions of the legacy era:
// a Handler that answers everybody with one and the same result, as a catalog does, has
// it translated once and not for each client. A result that is new each time leaves
// nothing behind but the place where it was seen. The zero value is empty.
type translations[T any] struct {
	seen atomic.Pointer[[]translation[T]]
}

// translation is what a result has become for a revision.
type translation[T any] struct {
	from    weak.Pointer[mcp.Result]
	version mcp.Version
	to      *T // nil while it was seen only once
}

// maxTranslations bounds what is remembered: some pages of some lists for each
// revision.
const maxTranslations = 32

// of returns what the result is for a client of the revision, and has it made where
// that is not remembered.
func (l *translations[T]) get(v mcp.Version, res *mcp.Result, translate func() T) T {
	if l == nil {
		return translate()
	}
	key := translation[T]{from: weak.Make(res), version: v}
	old := l.load()
	i := slices.IndexFunc(old, func(t translation[T]) bool { return t.from == key.from && t.version == v })
	if i >= 0 && old[i].to != nil {
		return *old[i].to
	}
	out := translate()
	if i >= 0 {
		key.to = &out
	}
	// A race loses what one of two has remembered, and nothing else.
	next := append(make([]translation[T], 0, len(old)+1), key)
	for j, t := range old {
		if j != i && len(next) < maxTranslations && t.from.Value() != nil {
			next = append(next, t)
		}
	}
	l.seen.Store(&next)
	return out
}

func (l *translations[T]) load() []translation[T] {
	if p := l.seen.Load(); p != nil {
		return *p
	}
	return nil
}

// lists are the lists that were given out.
type listCache = translations[mcp.Object]

// legacyObject is the result without what only modern results have, and with what the
// revision cannot carry said in what it can.
func legacyObject(v mcp.Version, method string, res *mcp.Result) mcp.Object {
	translated := revision.Result(v, method, res)
	e := removeModernFields(&translated.Object)
	out, err := e.Apply(&translated.Object)
	if err != nil {
		return translated.Object // only what is set can be wrong, and nothing is
	}
	return out
}

// unmodern takes away what only modern results have: of what kind they are, and for
// how long and whom they hold, which we keep to ourselves.
func removeModernFields(res *mcp.Object) mcp.Edit {
	var e mcp.Edit
	for _, f := range [...]mcp.Field{mcp.FieldResultType, mcp.FieldTTL, mcp.FieldCacheScope} {
		if res.Has(f) {
			e.Delete(f)
		}
	}
	return e
}

func isList(method string) bool { return strings.HasSuffix(method, "/list") }
