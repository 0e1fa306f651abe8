// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// table is the entries of one kind of a Catalog that Build has made. Its views share it.
type table struct {
	kind    Kind
	entries []*Entry
	at      map[string]int
	sums    []Digest // of the entries
	opt     Options
}

func newTable(k Kind, entries []*Entry, opt Options) *table {
	t := &table{kind: k, entries: entries, at: make(map[string]int, len(entries)), sums: make([]Digest, len(entries)), opt: opt}
	for i, e := range entries {
		e.Place, t.at[e.Name] = i, i
		sum := sha256.Sum256(e.item)
		t.sums[i] = Digest(sum[:])
	}
	return t
}

// part is some entries of a table. The zero value has none.
type part struct {
	*table

	shown places // of the entries, or nil for all of them
}

// section is everything of one kind that a Catalog has: a part of a table, and the list of it. The
// zero value is that of no Build.
type section struct {
	part
	*encodedList

	len int
}

// all returns the entries, in the order of the list.
func (s *part) all() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if s.table == nil {
			return
		}
		for i, e := range s.entries {
			if s.shown.has(i) && !yield(e) {
				return
			}
		}
	}
}

// find returns the entry with the name that clients use.
func (s *part) find(name string) (*Entry, bool) {
	if s.table == nil {
		return nil, false
	}
	i, ok := s.at[name]
	if !ok || !s.shown.has(i) {
		return nil, false
	}
	return s.entries[i], true
}

// removes reports whether the table has an entry with this name, which the part has not.
func (s *part) removes(name string) bool {
	if s.table == nil {
		return false
	}
	i, ok := s.at[name]
	return ok && !s.shown.has(i)
}

// places is a set of indices of a table. Nil has all of them.
type places []uint64

func newPlaces(n int) places { return make(places, (n+63)/64) }

func (p places) has(i int) bool { return p == nil || p[i/64]&(1<<(i%64)) != 0 }

func (p places) add(i int) { p[i/64] |= 1 << (i % 64) }

// key returns the set as a text.
func (p places) key() string {
	out := make([]byte, 0, 8*len(p))
	for _, word := range p {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return string(out)
}

// listFreshness is for how long, and for which clients, the results are valid.
type listFreshness struct {
	ttl    time.Duration
	public bool
}

// freshness merges the values of the backends: the shortest time and the most private
// scope (2026-07-28, server/utilities/caching). A merged list with missing or stale
// parts has a TTL of zero.
func freshness(k Kind, backends []Backend) listFreshness {
	var f listFreshness
	first := true
	for i := range backends {
		in := &backends[i]
		l := &in.Lists[k]
		switch {
		// Its items may arrive at any moment and change the list.
		case in.State == Missing:
			return listFreshness{}
		// A backend without such a list does not affect its freshness.
		case len(l.Items) == 0 && !k.declaredIn(in.Capabilities):
			continue
		case in.State == Stale, l.Failed:
			// The TTL began when the list was fetched and may have passed.
			l = &List{Public: l.Public}
		}
		if first {
			f, first = listFreshness{l.TTL, l.Public}, false
			continue
		}
		f.ttl = min(f.ttl, l.TTL)
		f.public = f.public && l.Public
	}
	// A server may have sent a negative value.
	f.ttl = max(f.ttl, 0)
	return f
}

// newSection returns a section with all entries. It encodes the list in advance, unless that is
// empty: lists are requested far more often than they change.
func newSection(k Kind, entries []*Entry, fresh listFreshness, opt Options) section {
	all := part{table: newTable(k, entries, opt)}
	s := section{part: all, len: len(entries), encodedList: &encodedList{part: all, fresh: fresh}}
	if len(entries) > 0 {
		s.made.Do(s.encodeAll)
	}
	return s
}

// encodedList is the list of a section, page by page. That of a view is encoded when it is
// requested first: a view may be made only to see whether its list has changed.
type encodedList struct {
	part

	fresh listFreshness

	made   sync.Once // the fields below
	items  []*Entry
	pages  []*mcp.Result
	cursor map[string]int // page index by cursor, for all pages but the first

	summed sync.Once
	digest Digest
}

func (s *encodedList) encodeAll() {
	s.items = s.entries
	if s.shown != nil {
		s.items = slices.Collect(s.all())
	}
	s.cursor = make(map[string]int)
	page, end := s.encode(0, s.fresh.public)
	s.pages = append(s.pages, page)
	// At least one page: an empty list is an answer too.
	for end < len(s.items) {
		s.cursor[encodeCursor(s.kind, s.fresh.public, s.items[end-1].Name)] = len(s.pages)
		page, end = s.encode(end, s.fresh.public)
		s.pages = append(s.pages, page)
	}
}

// encode returns the page that begins with the entry at start, with public or private
// scope, and the start of the next page.
func (s *encodedList) encode(start int, public bool) (*mcp.Result, int) {
	end, size := s.pageEnd(start)
	dst := make([]byte, 0, size+len(s.kind.Field().Key())+512)
	dst = append(dst, `{"resultType":"complete","ttlMs":`...)
	dst = strconv.AppendInt(dst, s.fresh.ttl.Milliseconds(), 10)
	// Written without an encoder: the items may be megabytes, and are not changed.
	if public {
		dst = append(dst, `,"cacheScope":"public"`...)
	} else {
		dst = append(dst, `,"cacheScope":"private"`...)
	}
	if end < len(s.items) {
		dst = append(dst, `,"nextCursor":"`...)
		dst = append(dst, encodeCursor(s.kind, public, s.items[end-1].Name)...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"`...)
	dst = append(dst, s.kind.Field().Key()...)
	dst = append(dst, `":[`...)
	for i, e := range s.items[start:end] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e.item...)
	}
	res, err := mcp.NewResult(append(dst, "]}"...))
	if err != nil {
		panic("catalog: a list of parsed items does not parse: " + err.Error()) //nolint:forbidigo // each item was parsed at this depth
	}
	return res, end
}

// pageEnd returns the end of the page that begins with an entry, and the size of its
// items in bytes. Each page has at least one item, however large.
func (s *encodedList) pageEnd(start int) (end, size int) {
	most, members := limit(s.opt.PageItems, DefaultPageItems), 0
	for end = start; end < len(s.items) && end-start < most; end++ {
		n, m := len(s.items[end].item)+len(","), bytes.Count(s.items[end].item, []byte(":"))
		if end > start && (size+n > pageBytes || members+m > pageMembers) {
			break
		}
		size += n
		members += m // an upper bound: some colons are in strings
	}
	return end, size
}

// encodeCursor returns the cursor for the items after the one with a name. It contains the
// name and not its position, so that it is valid in every Catalog that has the item:
// after a change, and in another process with the same configuration. It includes the kind,
// so that a cursor of another list is rejected, and the scope of the page before, so that a
// list that began as private continues as private.
func encodeCursor(k Kind, public bool, after string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorMark(k, public)}, after...))
}

// cursorMark is the same in all versions of the gateway: clients keep cursors.
func cursorMark(k Kind, public bool) byte {
	if public {
		return "0123S"[k]
	}
	return "4567s"[k]
}

// decodeCursor reverses encodeCursor, and rejects all other text.
func decodeCursor(k Kind, cursor string) (after string, public, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) < 2 {
		return "", false, false
	}
	after, public = string(b[1:]), b[0] == cursorMark(k, true)
	return after, public, encodeCursor(k, public, after) == cursor
}

// list returns the page for a cursor.
func (s *encodedList) list(cursor string) (*mcp.Result, bool) {
	if s == nil {
		return nil, false
	}
	s.made.Do(s.encodeAll)
	// The first two cases are the usual ones and cost nothing.
	if cursor == "" {
		return s.pages[0], true
	}
	if page, ok := s.cursor[cursor]; ok {
		return s.pages[page], true
	}
	after, public, ok := decodeCursor(s.kind, cursor)
	if !ok {
		return nil, false
	}
	// The item at the end of the client's last page is gone, so it is unknown which
	// items the client has seen: it must start again.
	e, ok := s.find(after)
	if !ok {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(s.items, e.Place, func(e *Entry, place int) int { return e.Place - place })
	// The cursor is from other page boundaries or another scope: "all subsequent pages
	// for that request MUST also be private" (2026-07-28, server/utilities/caching). A
	// list that has become private is private from here on.
	page, _ := s.encode(i+1, public && s.fresh.public)
	return page, true
}

// Digest identifies the content of one list: lists with the same items in the same
// order have the same Digest. The zero value is for no list.
type Digest [16]byte

// version returns the digest of the list. It is made of those of the items, so that that of a view
// costs little.
func (s *encodedList) version() Digest {
	if s == nil {
		return Digest{}
	}
	s.summed.Do(func() {
		h := sha256.New()
		for i := range s.sums {
			if s.shown.has(i) {
				h.Write(s.sums[i][:])
			}
		}
		s.digest = Digest(h.Sum(nil))
	})
	return s.digest
}
