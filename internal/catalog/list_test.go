// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// G1+ 2026-07-28 server/utilities/caching: "Servers MUST include caching hints on
// results with `resultType: "complete"` returned by the following operations"
func TestListBytes(t *testing.T) {
	c := Build([]Backend{
		backend("a").with(Tools, tool("x")).with(Resources, resource("r:1")),
		backend("b").with(Tools, tool("y")).with(Templates, template("r:{n}")).with(Prompts, prompt("p")).with(Skills, skill("skill://p/s/SKILL.md")),
	}, Options{})
	want := [NumKinds]string{
		`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"a__x","inputSchema":{"type":"object"}},{"name":"b__y","inputSchema":{"type":"object"}}]}`,
		`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","resources":[{"uri":"r:1","name":"r"}]}`,
		`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","resourceTemplates":[{"uriTemplate":"r:{n}","name":"t"}]}`,
		`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","prompts":[{"name":"b__p"}]}`,
		`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","skills":[{"uri":"skill://b/p/s/SKILL.md","frontmatter":{"name":"s","uri":"not this one"},"resources":[{"uri":"skill://b/p/s/SKILL.md","digest":"sha256:aa","size":7},{"uri":"skill://b/p/s/more.md","digest":"sha256:bb","size":8}]}]}`,
	}
	for k := range NumKinds {
		res, err := c.List(k, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.Bytes()); got != want[k] {
			t.Errorf("%s:\ngot  %s\nwant %s", k.Method(), got, want[k])
		}
	}
}

// A declared capability has a list, even an empty one.
//
// G10- 2026-07-28 server/tools: "This set MAY be empty"
func TestEmptyList(t *testing.T) {
	for name, c := range map[string]*Catalog{
		"no backends":      Build(nil, Options{}),
		"a missing one":    Build([]Backend{{Name: "a"}}, Options{}),
		"nothing admitted": Build([]Backend{backend("a").with(Tools, tool("x"))}, Options{}).View(func(*Entry) bool { return false }),
	} {
		for k := range NumKinds {
			p := readPage(t, c, k, "")
			if len(p.items(k)) != 0 || p.NextCursor != nil || p.CacheScope != "private" {
				t.Errorf("%s: %s answers %+v", name, k.Method(), p)
			}
		}
	}
}

// The zero Catalog offers nothing, and hides nothing.
func TestZeroCatalog(t *testing.T) {
	c := new(Catalog)
	for k := range NumKinds {
		for _, name := range []string{"", "x", "ui://a/x"} {
			if _, ok := c.Find(k, name); ok || c.Hides(k, name) {
				t.Errorf("%s %q: found %t, hidden %t", k, name, ok, c.Hides(k, name))
			}
		}
		if res, err := c.List(k, ""); err == nil {
			t.Errorf("%s: %s", k.Method(), res.Bytes())
		}
	}
	for _, params := range []string{`{"ref":{"type":"ref/prompt","name":"x"}}`, `{"ref":{"type":"ref/resource","uri":"ui://a/x"}}`} {
		obj, err := mcp.ParseObject([]byte(params))
		if err != nil {
			t.Fatal(err)
		}
		if e, _, ok := c.Reference(&obj); ok {
			t.Errorf("%s refers to %+v", params, e)
		}
	}
	if c.Version() != (Version{}) {
		t.Error("the zero Catalog has a version")
	}
	if _, ok := c.Skill("skill://a/x"); ok || c.HeldFor("x:y") != nil {
		t.Error("the zero Catalog has a skill or a held template")
	}
}

// The same input gives the same bytes, whatever the order of maps.
//
// G8+ 2026-07-28 server/tools: "Servers SHOULD return tools in a deterministic order"
func TestG8ListsAreDeterministic(t *testing.T) {
	build := func() *Catalog {
		var in []Backend
		for i := range 5 {
			in = append(in, backend(fmt.Sprint("b", i)).with(Tools, numbered(20, tool)...).with(Prompts, numbered(20, prompt)...))
		}
		return Build(in, Options{PageItems: 7})
	}
	first := build()
	for range 100 {
		c := build()
		for k := range NumKinds {
			for cursor := range first.sections[k].cursor {
				want, _ := first.List(k, cursor)
				got, err := c.List(k, cursor)
				if err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
					t.Fatalf("%s %q differs: %v", k.Method(), cursor, err)
				}
			}
		}
		if c.Version() != first.Version() {
			t.Fatal("the versions differ")
		}
	}
}

func TestPages(t *testing.T) {
	const n = 100
	item := [NumKinds]func(string) string{tool, resource, template, prompt, skill}
	for k := range NumKinds {
		for _, size := range []int{1, 7, 50, 99, 100, 101, -1} {
			c := Build([]Backend{backend("a").with(k, numbered(n, item[k])...)}, Options{PageItems: size})
			pages := readAll(t, c, k)
			want := 1
			if size > 0 {
				want = (n + size - 1) / size
			}
			if len(pages) != want {
				t.Errorf("%s in pages of %d: %d pages, want %d", k.Method(), size, len(pages), want)
			}
			var all []string
			for _, p := range pages {
				for _, item := range p.items(k) {
					all = append(all, string(item))
				}
			}
			var listed []string
			for e := range c.Entries(k) {
				listed = append(listed, string(e.JSON()))
			}
			if !slices.Equal(all, listed) || len(all) != n {
				t.Errorf("%s in pages of %d: %d items, or not the same", k.Method(), size, len(all))
			}
		}
	}
}

func TestDefaultPage(t *testing.T) {
	small := Build([]Backend{backend("a").with(Tools, numbered(DefaultPageItems, tool)...)}, Options{})
	if pages := readAll(t, small, Tools); len(pages) != 1 {
		t.Errorf("%d tools take %d pages", DefaultPageItems, len(pages))
	}
	large := Build([]Backend{backend("a").with(Tools, numbered(DefaultPageItems+1, tool)...)}, Options{})
	if pages := readAll(t, large, Tools); len(pages) != 2 || len(pages[1].Tools) != 1 {
		t.Errorf("one more takes %d pages", len(pages))
	}
}

// A receiver with the default limits accepts every page.
func TestPagesAreBounded(t *testing.T) {
	heavy := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"description":%q}`, name, strings.Repeat("x", 100_000))
	}
	manifold := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"_":[%s{}]}`, name, strings.Repeat(`{"a":1},`, 1000))
	}
	for name, item := range map[string]func(string) string{"bytes": heavy, "members": manifold} {
		c := Build([]Backend{backend("a").with(Prompts, numbered(50, item)...)}, Options{})
		total, cursor := 0, ""
		for more := true; more; {
			res, err := c.List(Prompts, cursor)
			if err != nil {
				t.Fatal(err)
			}
			msg := jsonrpc.AppendResult(nil, jsonrpc.NumberID(1), res.Bytes())
			if _, err := mcp.Parse(msg, mcp.Limits{}); err != nil || len(msg) > 4<<20 {
				t.Fatalf("%s: a page of %d bytes: %v", name, len(msg), err)
			}
			total += len(readPage(t, c, Prompts, cursor).Prompts)
			cursor, more = res.Text(mcp.FieldNextCursor)
		}
		if total != 50 {
			t.Errorf("%s: %d items", name, total)
		}
	}
}

// A page ends before the item with which it would have too many bytes or members.
func TestPagesAreFull(t *testing.T) {
	heavy := func(n int) string {
		const frame = `{"name":"x","description":""},`
		return `{"name":"x","description":"` + strings.Repeat("x", n-len(frame)) + `"}`
	}
	manifold := func(n int) string {
		const others = 2
		return `{"name":"x","_":[` + strings.Repeat(`{"a":1},`, n-others) + `{}]}`
	}
	for name, tt := range map[string]struct {
		item func(n int) string
		most int
	}{"bytes": {heavy, pageBytes}, "members": {manifold, pageMembers}} {
		for extra, want := range map[int]int{-1: 1, 0: 1, 1: 2} {
			empty := ""
			last := strings.Replace(tt.item(tt.most/2+extra), `"x"`, `"y"`, 1)
			c := Build([]Backend{backend("a").with(Prompts, tt.item(tt.most/2), last).rules(Rules{Prefix: &empty})}, Options{})
			if pages := readAll(t, c, Prompts); len(pages) != want {
				t.Errorf("%s: with %d more than fit, %d pages, want %d", name, extra, len(pages), want)
			}
		}
	}
}

func TestOneHugeItemIsAPage(t *testing.T) {
	huge := fmt.Sprintf(`{"name":"huge","description":%q}`, strings.Repeat("x", 2*pageBytes))
	c := Build([]Backend{backend("a").with(Prompts, prompt("x"), huge, prompt("y"))}, Options{})
	if pages := readAll(t, c, Prompts); len(pages) != 3 {
		t.Errorf("%d pages, want 3", len(pages))
	}
}

// "Servers SHOULD provide stable cursors": a cursor continues after its item, even if
// items before and after it were added and removed.
func TestCursorSurvivesChanges(t *testing.T) {
	all := numbered(30, tool)
	before := Build([]Backend{backend("b").with(Tools, all...)}, Options{PageItems: 10})
	cursor := *readPage(t, before, Tools, "").NextCursor
	changed := slices.Concat(all[:3], all[5:15], []string{tool("new")}, all[15:])
	after := Build([]Backend{backend("a").with(Tools, tools("x", "y")...), backend("b").with(Tools, changed...)}, Options{PageItems: 10})
	var got []string
	for next := &cursor; next != nil; {
		p := readPage(t, after, Tools, *next)
		for _, item := range p.Tools {
			got = append(got, string(item))
		}
		next = p.NextCursor
	}
	var want []string
	for _, item := range slices.Concat(all[10:15], []string{tool("new")}, all[15:]) {
		want = append(want, strings.Replace(item, `"name":"`, `"name":"b__`, 1))
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestCursorOfTheLastItem(t *testing.T) {
	before := Build([]Backend{backend("a").with(Tools, numbered(4, tool)...)}, Options{PageItems: 2})
	cursor := *readPage(t, before, Tools, "").NextCursor
	after := Build([]Backend{backend("a").with(Tools, numbered(2, tool)...)}, Options{PageItems: 2})
	if p := readPage(t, after, Tools, cursor); len(p.Tools) != 0 || p.NextCursor != nil {
		t.Errorf("the list goes on with %+v", p)
	}
}

func TestCursorOfAShortName(t *testing.T) {
	empty := ""
	in := []Backend{backend("a").with(Tools, tools("x", "y")...).rules(Rules{Prefix: &empty})}
	cursor := *readPage(t, Build(in, Options{PageItems: 1}), Tools, "").NextCursor
	if p := readPage(t, Build(in, Options{}), Tools, cursor); len(p.Tools) != 1 {
		t.Errorf("%d tools after the first of two", len(p.Tools))
	}
}

// Replicas of another version read the same cursors: a digit for the list and its scope,
// and the name of the last item.
func TestCursorsOfOtherVersions(t *testing.T) {
	for cursor, public := range map[string]bool{"3a__n0009": true, "7a__n0009": false} {
		b := backend("a").with(Prompts, numbered(30, prompt)...)
		b.Lists[Prompts].Public = public
		c := Build([]Backend{b}, Options{PageItems: 10})
		if got, want := *readPage(t, c, Prompts, "").NextCursor, base64.RawURLEncoding.EncodeToString([]byte(cursor)); got != want {
			t.Errorf("public %v: the cursor is %s, want %s", public, got, want)
		}
	}
}

// G7- 2026-07-28 server/utilities/pagination: "Invalid cursors SHOULD result in an
// error with code -32602 (Invalid params)."
func TestG7UnknownCursor(t *testing.T) {
	c := Build([]Backend{backend("a").with(Tools, numbered(30, tool)...).with(Prompts, numbered(30, prompt)...)}, Options{PageItems: 10})
	cursor := *readPage(t, c, Tools, "").NextCursor
	gone := Build([]Backend{backend("a").with(Tools, tools("x", "y", "z")...)}, Options{PageItems: 1})
	hidden := c.View(func(e *Entry) bool { return e.Own != "n0009" })
	tests := []struct {
		name   string
		c      *Catalog
		kind   Kind
		cursor string
	}{
		{"junk", c, Tools, "junk"},
		{"not base64", c, Tools, "!"},
		{"padded", c, Tools, cursor + "="},
		{"with a line break", c, Tools, cursor + "\n"},
		{"longer", c, Tools, cursor + "AA"},
		{"of another list", c, Prompts, cursor},
		{"of a list without items", c, Resources, cursor},
		{"of nothing", c, Tools, encodeCursor(Tools, true, "")},
		{"of an item that is gone", gone, Tools, cursor},
		{"of an item that is hidden", hidden, Tools, cursor},
		{"a name", c, Tools, "a__n0009"},
		{"long", c, Tools, strings.Repeat("A", 1<<20)},
	}
	for _, tt := range tests {
		res, err := tt.c.List(tt.kind, tt.cursor)
		if !errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}) || res != nil {
			t.Errorf("%s: got %v, %v, want error %d", tt.name, res, err, mcp.CodeInvalidParams)
		}
	}
}

// G5+ 2026-07-28 server/utilities/caching: "Servers MUST apply the same `cacheScope`
// to all response pages for a given list request."
func TestG5AllPagesHaveTheSameScope(t *testing.T) {
	private := backend("b").with(Tools, numbered(5, tool)...)
	private.Lists[Tools].Public = false
	c := Build([]Backend{backend("a").with(Tools, numbered(20, tool)...), private}, Options{PageItems: 3})
	all := Build([]Backend{backend("a").with(Tools, numbered(20, tool)...)}, Options{PageItems: 3})
	for want, c := range map[string]*Catalog{"private": c, "public": all} {
		pages := readAll(t, c, Tools)
		if len(pages) < 7 {
			t.Errorf("%d pages, want more", len(pages))
		}
		for i, p := range pages {
			if p.CacheScope != want || p.ResultType != "complete" {
				t.Errorf("page %d is %q, %q, want %q", i, p.CacheScope, p.ResultType, want)
			}
		}
	}
}

// A list that began as private continues as private, whatever has changed meanwhile.
//
// G5- 2026-07-28 server/utilities/caching: "if the first page of a `tools/list` response has
// `cacheScope: "private"`, all subsequent pages for that request **MUST** also be
// `"private"`."
func TestPrivateListStaysPrivate(t *testing.T) {
	one := backend("a").with(Tools, numbered(20, tool)...)
	public := Build([]Backend{one}, Options{PageItems: 3})
	for name, before := range map[string]*Catalog{
		"a backend was missing":         Build([]Backend{one, {Name: "b"}}, Options{PageItems: 3}),
		"and its pages were cut anew":   Build([]Backend{one, {Name: "b"}}, Options{PageItems: 4}),
		"it was not all that there was": public.View(func(e *Entry) bool { return e.Own != "n0001" }),
	} {
		first := readPage(t, before, Tools, "")
		pages := 0
		for next := first.NextCursor; next != nil; pages++ {
			p := readPage(t, public, Tools, *next)
			if first.CacheScope != "private" || p.CacheScope != "private" {
				t.Errorf("%s: the first page is %q, and a later one is %q", name, first.CacheScope, p.CacheScope)
			}
			next = p.NextCursor
		}
		if pages < 5 {
			t.Errorf("%s: %d more pages", name, pages)
		}
	}
}

func FuzzCursor(f *testing.F) {
	c := Build([]Backend{backend("a").with(Tools, numbered(30, tool)...)}, Options{PageItems: 7})
	for cursor := range c.sections[Tools].cursor {
		f.Add(cursor, uint8(Tools))
	}
	for i, name := range []string{"x", "a__n0003", "a__n0029", "\x00", "日本"} {
		f.Add(encodeCursor(Tools, i%2 == 0, name), uint8(i))
	}
	f.Add("", uint8(0))
	f.Add("MA==", uint8(0))
	f.Fuzz(func(t *testing.T, cursor string, kind uint8) {
		k := Kind(kind) % NumKinds
		after, public, ok := decodeCursor(k, cursor)
		if ok && encodeCursor(k, public, after) != cursor {
			t.Errorf("%q is a second form of the cursor after %q", cursor, after)
		}
		for _, public := range []bool{false, true} {
			back, same, ok := decodeCursor(k, encodeCursor(k, public, cursor))
			if cursor != "" && (!ok || back != cursor || same != public) {
				t.Errorf("the cursor after %q leads on after %q", cursor, back)
			}
		}
		res, err := c.List(k, cursor)
		_, known := c.sections[k].find(after)
		if want := cursor == "" || ok && known; (err == nil) != want {
			t.Fatalf("List = %v, want an answer: %v", err, want)
		}
		if err == nil && !json.Valid(res.Bytes()) {
			t.Errorf("the page is no JSON: %s", res.Bytes())
		}
	})
}

func TestCursorIsOpaque(t *testing.T) {
	c := Build([]Backend{backend("a").with(Tools, numbered(30, tool)...)}, Options{PageItems: 10})
	cursor := *readPage(t, c, Tools, "").NextCursor
	if _, err := base64.RawURLEncoding.DecodeString(cursor); err != nil {
		t.Errorf("the cursor %q has characters that would need escapes: %v", cursor, err)
	}
}

func TestListAllocations(t *testing.T) {
	c := Build([]Backend{backend("a").with(Tools, numbered(100, tool)...)}, Options{PageItems: 10})
	cursor := *readPage(t, c, Tools, "").NextCursor
	got := testing.AllocsPerRun(100, func() {
		for _, cur := range []string{"", cursor} {
			if _, err := c.List(Tools, cur); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := c.Tool("a__n0050"); !ok {
			t.Fatal("not found")
		}
		c.Version()
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
