// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

type toolPage struct {
	Tools      []struct{ Name string }
	NextCursor *string
}

func pageOf(t *testing.T, m *Mux, cursor *string) (names []string, next *string) {
	t.Helper()
	params := []byte(`{}`)
	if cursor != nil {
		params = append(jsonscan.AppendString([]byte(`{"cursor":`), *cursor), '}')
	}
	var p toolPage
	if err := json.Unmarshal([]byte(answer(t, m, "tools/list", string(params))), &p); err != nil {
		t.Fatal(err)
	}
	for _, tool := range p.Tools {
		names = append(names, tool.Name)
	}
	return names, p.NextCursor
}

func many(n int) *Mux {
	m := &Mux{PageSize: 3}
	for i := range n {
		m.MustAdd(hello(fmt.Sprintf("t%d", i)))
	}
	return m
}

// Following the cursors returns each item once.
func TestPages(t *testing.T) {
	for n, want := range map[int][]int{0: nil, 1: {1}, 3: {3}, 4: {3, 1}, 6: {3, 3}, 7: {3, 3, 1}} {
		m := many(n)
		m.MustAdd(note("x:y"))
		if n == 0 {
			m.MustAdd(hello("gone"))
			_ = m.Remove(hello("gone"))
			want = []int{0}
		}
		var sizes []int
		seen := make(map[string]bool)
		for cursor, more := (*string)(nil), true; more; more = cursor != nil {
			var names []string
			names, cursor = pageOf(t, m, cursor)
			sizes = append(sizes, len(names))
			for _, name := range names {
				if seen[name] {
					t.Errorf("%d items: %s comes twice", n, name)
				}
				seen[name] = true
			}
		}
		if !slices.Equal(sizes, want) || len(seen) != n {
			t.Errorf("%d items: pages of %v with %d items, want %v", n, sizes, len(seen), want)
		}
	}
}

// Items added and removed between two pages do not move others.
func TestPagesDuringChanges(t *testing.T) {
	m := many(9)
	first, cursor := pageOf(t, m, nil)
	if err := m.Remove(hello("t0"), hello("t2"), hello("t4")); err != nil {
		t.Fatal(err)
	}
	m.MustAdd(hello("new"))
	second, cursor := pageOf(t, m, cursor)
	third, cursor := pageOf(t, m, cursor)
	if cursor != nil {
		t.Errorf("there is more after %v", third)
	}
	got := slices.Concat(first, second, third)
	if want := []string{"t0", "t1", "t2", "t3", "t5", "t6", "t7", "t8", "new"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// "Invalid cursors SHOULD result in an error with code -32602 (Invalid params)"
// (2026-07-28, server/utilities/pagination, "Error Handling").
func TestInvalidCursors(t *testing.T) {
	m := many(4)
	for _, cursor := range []string{`""`, `"x"`, `7`, `null`, `"!!"`, `"AAAA"`, `"_____________w"`, `{}`} {
		refused(t, m, request(t, "tools/list", `{"cursor":`+cursor+`}`), mcp.CodeInvalidParams, "params.cursor")
	}
}

// A list has its TTL, if it is set.
func TestListTTL(t *testing.T) {
	m := New(hello("a"))
	m.TTL = 90 * time.Second
	equal(t, "list", answer(t, m, "tools/list", ``), `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"ttlMs":90000,"cacheScope":"public"}`)
}
