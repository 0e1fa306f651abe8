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

// section is everything of one kind: the entries, their positions, and the list,
// encoded page by page.
type section struct {
	kind    Kind
	entries []*Entry
	at      map[string]int
	fresh   listFreshness
	opt     Options

	pages  []*mcp.Result
	cursor map[string]int // page index by cursor, for all pages but the first
	digest Digest

	kept *section // keeps the section alive in sharedSections, or nil
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
		case len(l.Items) == 0 && !declares(in.Capabilities, k.capability()):
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

// newSection encodes the list in advance: lists are requested far more often than they
// change.
func newSection(k Kind, entries []*Entry, fresh listFreshness, opt Options) section {
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
	// At least one page: an empty list is an answer too.
	for end < len(entries) {
		s.cursor[s.cursorAfter(end-1, fresh.public)] = len(s.pages)
		page, end = s.encode(end, fresh.public)
		s.pages = append(s.pages, page)
	}
	return s
}

// encode returns the page that begins with the entry at start, with public or private
// scope, and the start of the next page.
func (s *section) encode(start int, public bool) (*mcp.Result, int) {
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

// pageEnd returns the end of the page that begins with an entry, and the size of its
// items in bytes. Each page has at least one item, however large.
func (s *section) pageEnd(start int) (end, size int) {
	most, members := limit(s.opt.PageItems, DefaultPageItems), 0
	for end = start; end < len(s.entries) && end-start < most; end++ {
		n, m := len(s.entries[end].item)+len(","), bytes.Count(s.entries[end].item, []byte(":"))
		if end > start && (size+n > pageBytes || members+m > pageMembers) {
			break
		}
		size += n
		members += m // an upper bound: some colons are in strings
	}
	return end, size
}

// cursorAfter returns the cursor for the items after an entry. It contains the entry's
// name and not its position, so that it is valid in every Catalog that has the entry:
// after a change, and in another process with the same configuration.
func (s *section) cursorAfter(i int, public bool) string {
	return encodeCursor(s.kind, public, s.entries[i].Name)
}

// encodeCursor includes the kind, so that a cursor of another list is rejected, and the
// scope of the page before, so that a list that began as private continues as private.
func encodeCursor(k Kind, public bool, after string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorMark(k, public)}, after...))
}

func cursorMark(k Kind, public bool) byte {
	if public {
		return '0' + byte(k)
	}
	return '0' + byte(NumKinds+k)
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
func (s *section) list(cursor string) (*mcp.Result, bool) {
	// The first two cases are the usual ones and cost nothing.
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
	// The item at the end of the client's last page is gone, so it is unknown which
	// items the client has seen: it must start again.
	i, ok := s.at[after]
	if !ok {
		return nil, false
	}
	// The cursor is from other page boundaries or another scope: "all subsequent pages
	// for that request MUST also be private" (2026-07-28, server/utilities/caching). A
	// list that has become private is private from here on.
	page, _ := s.encode(i+1, public && s.fresh.public)
	return page, true
}

// find returns the entry with the name that clients use.
func (s *section) find(name string) (*Entry, bool) {
	i, ok := s.at[name]
	if !ok {
		return nil, false
	}
	return s.entries[i], true
}

// Digest identifies the content of one list: lists with the same items in the same
// order have the same Digest. The zero value is for no list.
type Digest [16]byte

// digest includes the length of each item, because the same bytes can be split into
// items in different ways.
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
