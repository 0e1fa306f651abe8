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

// translations caches results as translated for the legacy revisions. A Handler that
// returns the same result to all clients, such as a catalog, has it translated once for
// each revision. A result that is new each time costs only the entry that marks it as
// seen. The zero value is empty.
type translations[T any] struct {
	seen atomic.Pointer[[]translation[T]]
}

// translation is a result as translated for one revision.
type translation[T any] struct {
	from    weak.Pointer[mcp.Result]
	version mcp.Version
	to      *T // nil if it was seen only once
}

// maxTranslations bounds the cache: some pages of some lists for each revision.
const maxTranslations = 32

// get returns the translation of res for the revision, and calls translate if it is not
// cached.
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
	// A race loses one of the two entries, and nothing else.
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

// listCache caches the results of list methods.
type listCache = translations[mcp.Object]

// legacyObject returns the result without the modern fields, translated for the revision.
func legacyObject(v mcp.Version, method string, res *mcp.Result) mcp.Object {
	translated := revision.Result(v, method, res)
	e := removeModernFields(&translated.Object)
	out, err := e.Apply(&translated.Object)
	if err != nil {
		return translated.Object // only values that are set can be invalid, and none is
	}
	return out
}

// removeModernFields removes the fields that only modern results have: the type, and the
// caching hints, which only the gateway uses.
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
