// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// section is everything of one kind: the entries, where each stands, and the
// list, encoded page by page.
type section struct {
	kind    Kind
	entries []*Entry
	at      map[string]int
	fresh   freshnessOf
	opt     Options

	pages  []*mcp.Result
	cursor map[string]int // of the pages but the first
	digest Digest
}

// freshnessOf is what the results say of how long and for whom they are true.
type freshnessOf struct {
	ttl    time.Duration
	public bool
}

// freshness merges what the backends say of their lists: the shortest time and
// the most private scope (2026-07-28, server/utilities/caching). A merged list in
// which something is missing or out of date is true for no time at all.
func freshness(k Kind, backends []Backend) freshnessOf {
	var f freshnessOf
	first := true
	for i := range backends {
		in := &backends[i]
		l := &in.Lists[k]
		switch {
		// It may come in the next moment, and then the list is another one.
		case in.State == Missing:
			return freshnessOf{}
		// Who has no such list says nothing of how long it is true.
		case len(l.Items) == 0 && !declares(in.Capabilities, k.capability()):
			continue
		case in.State == Stale, l.Failed:
			// What was true when it was fetched cannot be said to be true for any longer.
			l = &List{Public: l.Public}
		}
		if first {
			f, first = freshnessOf{l.TTL, l.Public}, false
			continue
		}
		f.ttl = min(f.ttl, l.TTL)
		f.public = f.public && l.Public
	}
	// A server may have written less than nothing.
	f.ttl = max(f.ttl, 0)
	return f
}

// newSection encodes the list, so that answering it is no work: lists are asked
// for far more often than they change.
func newSection(k Kind, entries []*Entry, fresh freshnessOf, opt Options) section {
	s := section{
		kind:    k,
		entries: entries,
		at:      make(map[string]int, len(entries)),
		fresh:   fresh,
		opt:     opt,
		cursor:  make(map[string]int),
		digest:  digest(entries),
	}
	for i, e := range entries {
		s.at[e.Name] = i
	}
	page, end := s.encode(0, fresh.public)
	s.pages = append(s.pages, page)
	// At least one page, also of nothing: an empty list is an answer.
	for end < len(entries) {
		s.cursor[s.cursorAfter(end-1, fresh.public)] = len(s.pages)
		page, end = s.encode(end, fresh.public)
		s.pages = append(s.pages, page)
	}
	return s
}

// encode returns the page that begins with an entry, for all or for its client alone,
// and where the next begins.
func (s *section) encode(start int, public bool) (*mcp.Result, int) {
	end, size := s.pageEnd(start)
	dst := make([]byte, 0, size+len(s.kind.Field().Key())+512)
	dst = append(dst, `{"resultType":"complete","ttlMs":`...)
	dst = strconv.AppendInt(dst, s.fresh.ttl.Milliseconds(), 10)
	// Written by hand and not by an encoder: the items are megabytes, and stay as they are.
	if public {
		dst = append(dst, `,"cacheScope":"public"`...)
	} else {
		dst = append(dst, `,"cacheScope":"private"`...)
	}
	if end < len(s.entries) {
		dst = append(dst, `,"nextCursor":"`...)
		dst = append(dst, s.cursorAfter(end-1, public)...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"`...)
	dst = append(dst, s.kind.Field().Key()...)
	dst = append(dst, `":[`...)
	for i, e := range s.entries[start:end] {
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

// pageEnd returns where the page that begins with an entry ends, and how many
// bytes its items have. Each page has at least one item, however large.
func (s *section) pageEnd(start int) (end, size int) {
	most, members := limit(s.opt.PageItems, DefaultPageItems), 0
	for end = start; end < len(s.entries) && end-start < most; end++ {
		n, m := len(s.entries[end].item)+len(","), bytes.Count(s.entries[end].item, []byte(":"))
		if end > start && (size+n > pageBytes || members+m > pageMembers) {
			break
		}
		size += n
		members += m // at most: some colons stand in texts
	}
	return end, size
}

// cursorAfter returns the cursor of what follows an entry. It says the entry's
// name and nothing of its place, so that it leads on from there in every Catalog
// that has the entry: after a change, and in another process with the same
// configuration.
func (s *section) cursorAfter(i int, public bool) string {
	return encodeCursor(s.kind, public, s.entries[i].Name)
}

// encodeCursor writes the kind as well, so that a cursor of another list is
// refused and not mistaken for an item of the same name; and whether the page before
// was for all, so that what began as private goes on like that.
func encodeCursor(k Kind, public bool, after string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorMark(k, public)}, after...))
}

func cursorMark(k Kind, public bool) byte {
	if public {
		return '0' + byte(k)
	}
	return '0' + byte(NumKinds+k)
}

// decodeCursor reverses encodeCursor, and takes nothing else.
func decodeCursor(k Kind, cursor string) (after string, public, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) < 2 {
		return "", false, false
	}
	after, public = string(b[1:]), b[0] == cursorMark(k, true)
	return after, public, encodeCursor(k, public, after) == cursor
}

// list returns the page that a cursor asks for.
func (s *section) list(cursor string) (*mcp.Result, bool) {
	// The first two cost nothing: that is what nearly all who ask for a list come for.
	if cursor == "" && len(s.pages) > 0 {
		return s.pages[0], true
	}
	if page, ok := s.cursor[cursor]; ok {
		return s.pages[page], true
	}
	after, public, ok := decodeCursor(s.kind, cursor)
	if !ok {
		return nil, false
	}
	// An item that is gone since was the end of somebody's page: there is no telling what
	// that client has seen, and it begins anew.
	i, ok := s.at[after]
	if !ok {
		return nil, false
	}
	// The pages were cut elsewhere when it was given out, or were for somebody else: "all
	// subsequent pages for that request MUST also be private" (2026-07-28,
	// server/utilities/caching). Of a list that was public until now, this is not.
	page, _ := s.encode(i+1, public && s.fresh.public)
	return page, true
}

// find returns the entry that clients know by the name.
func (s *section) find(name string) (*Entry, bool) {
	i, ok := s.at[name]
	if !ok {
		return nil, false
	}
	return s.entries[i], true
}

// Digest stands for what one list says: two lists with the same items in the same
// order have the same one. The zero value is that of no list.
type Digest [16]byte

// digest takes the length of each item too, because two items in a row are not
// the same as one of the same bytes.
func digest(entries []*Entry) Digest {
	h := sha256.New()
	var size [8]byte
	for _, e := range entries {
		binary.BigEndian.PutUint64(size[:], uint64(len(e.item)))
		h.Write(size[:])
		h.Write(e.item)
	}
	return Digest(h.Sum(nil)[:16])
}
