// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomItem makes a tool with members of all kinds around its name, some with names
// that the gateway looks for.
func randomItem(r *rand.Rand, name string) string {
	parts := []string{
		fmt.Sprintf(`"name"%s:%s%q`, space(r), space(r), name),
		`"inputSchema":{"type":"object","properties":{"name":{"type":"string"},"uri":{}}}`,
	}
	extra := []string{
		`"title":"name"`, `"_meta":{"name":"x","a/b":[1,2]}`, `"icons":[{"src":"data:,\"name\":"}]`,
		`"annotations":{"name":1,"readOnlyHint":true}`, `"x-1":1e400`, `"x-2":null`, `"x-3":"\ud83d\ude00"`, `"uri":"x:y"`,
	}
	for _, e := range extra {
		if r.IntN(2) == 0 {
			parts = append(parts, e)
		}
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "{" + space(r) + strings.Join(parts, space(r)+","+space(r)) + space(r) + "}"
}

func space(r *rand.Rand) string {
	return strings.Repeat(" ", r.IntN(2)) + strings.Repeat("\n", r.IntN(2))
}

// Splicing a name equals decoding, changing and encoding, without the losses:
// everything else is the same.
func TestSpliceIsAnEdit(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		item := randomItem(r, "own")
		c := Build([]Backend{backend("b").with(Tools, item)}, Options{})
		e, ok := c.Tool("b__own")
		if !ok {
			t.Fatalf("seed %d: %s is not offered: %s", seed, item, problems(c))
		}
		var got, want map[string]json.RawMessage
		if err := json.Unmarshal(e.JSON(), &got); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, e.JSON(), err)
		}
		if err := json.Unmarshal([]byte(item), &want); err != nil {
			t.Fatal(err)
		}
		want["name"] = json.RawMessage(`"b__own"`)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("seed %d (-got +want):\n%s", seed, diff)
		}
		if len(e.JSON()) != len(item)+len("b__") {
			t.Errorf("seed %d: %s became %s", seed, item, e.JSON())
		}
	}
}

// A client that pages while the lists change reads every item that exists throughout,
// once: other changes do not move it. If the item of its cursor is gone, it gets an
// error.
func TestPagingThroughChanges(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		size := 1 + r.IntN(5)
		all := numbered(20, prompt)
		stays := make([]bool, len(all))
		for i := range stays {
			stays[i] = r.IntN(2) == 0
		}
		snapshot := func() *Catalog {
			var now []string
			for i, item := range all {
				if stays[i] || r.IntN(2) == 0 {
					now = append(now, item)
				}
			}
			return Build([]Backend{backend("b").with(Prompts, now...)}, Options{PageItems: size})
		}
		got, whole := pageThrough(t, snapshot)
		if len(slices.Compact(slices.Clone(got))) != len(got) || !slices.IsSorted(got) {
			t.Fatalf("seed %d: read twice, or out of order: %q", seed, got)
		}
		for i, item := range all {
			name := strings.Replace(item, `"name":"`, `"name":"b__`, 1)
			if whole && stays[i] && !slices.Contains(got, name) {
				t.Errorf("seed %d: %s was there all the time and was not read: %q", seed, name, got)
			}
		}
	}
}

// pageThrough reads a list with each page from another snapshot. It reports whether it
// reached the end.
func pageThrough(t *testing.T, snapshot func() *Catalog) (items []string, whole bool) {
	t.Helper()
	cursor := ""
	for {
		c := snapshot()
		if _, err := c.List(Prompts, cursor); err != nil {
			return items, false
		}
		p := readPage(t, c, Prompts, cursor)
		for _, item := range p.Prompts {
			items = append(items, string(item))
		}
		if p.NextCursor == nil {
			return items, true
		}
		cursor = *p.NextCursor
	}
}

// A resource has one owner: the first in file order of the backends that list it,
// whatever backends are added or removed after it.
func TestResourceOwnerIsTheFirst(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		owner := make(map[string]string)
		var in []Backend
		for i := range 1 + r.IntN(4) {
			b := backend(fmt.Sprint("b", i))
			for range r.IntN(5) {
				uri := fmt.Sprint("x:", r.IntN(6))
				b = b.with(Resources, resource(uri))
				if owner[uri] == "" {
					owner[uri] = b.Name
				}
			}
			in = append(in, b)
		}
		c := Build(in, Options{FirstWins: r.IntN(2) == 0})
		if c.sections[Resources].len != len(owner) {
			t.Errorf("seed %d: %d resources, want %d", seed, c.sections[Resources].len, len(owner))
		}
		for uri, name := range owner {
			if e, ok := c.Resource(uri); !ok || e.BackendName != name {
				t.Errorf("seed %d: %s belongs to %+v, want %s", seed, uri, e, name)
			}
		}
	}
}

// A view of a view is the view of both.
func TestViewsCompose(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		base := Build(randomBackends(r), Options{FirstWins: true})
		one := func(e *Entry) bool { return e.Backend%2 == 0 }
		two := func(e *Entry) bool { return len(e.Own)%2 == 1 }
		both := base.View(func(e *Entry) bool { return one(e) && two(e) })
		chained := base.View(one).View(two)
		if both.Version() != chained.Version() {
			t.Errorf("seed %d: %q and %q", seed, names(both, Tools), names(chained, Tools))
		}
		for e := range base.Entries(Tools) {
			_, listed := both.Tool(e.Name)
			if listed != (one(e) && two(e)) {
				t.Errorf("seed %d: %s listed: %v", seed, e.Name, listed)
			}
		}
	}
}
