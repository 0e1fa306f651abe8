// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The helpers of this file make inputs for Build.

const allCapabilities = `{"completions":{},"logging":{},"prompts":{},"resources":{},"tools":{}}`

// backend returns a live backend that declares everything and lists nothing.
func backend(name string) Backend {
	b := Backend{Name: name, State: Live, Capabilities: []byte(allCapabilities)}
	for k := range NumKinds {
		b.Lists[k] = List{TTL: time.Minute, Public: true}
	}
	return b
}

// with adds items to one of the backend's lists, each as JSON text.
func (in Backend) with(k Kind, items ...string) Backend {
	for _, item := range items {
		in.Lists[k].Items = append(in.Lists[k].Items, json.RawMessage(item))
	}
	return in
}

// rules sets the backend's rules.
func (in Backend) rules(r Rules) Backend {
	in.Rules = r
	return in
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func prompt(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }

func resource(uri string) string { return fmt.Sprintf(`{"uri":%q,"name":"r"}`, uri) }

func template(uri string) string { return fmt.Sprintf(`{"uriTemplate":%q,"name":"t"}`, uri) }

// skill returns an entry of two files. The one with the instructions has the URI.
func skill(uri string) string {
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":"s","uri":"not this one"},"resources":[{"uri":%[1]q,"digest":"sha256:aa","size":7},{"uri":%q,"digest":"sha256:bb","size":8}]}`,
		uri, strings.TrimSuffix(uri, "SKILL.md")+"more.md")
}

func tools(names ...string) []string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = tool(name)
	}
	return items
}

// numbered returns the items of a list of n.
func numbered(n int, item func(name string) string) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(fmt.Sprintf("n%04d", i))
	}
	return items
}

// names returns the names of the offered items, in the order of the list.
func names(c *Catalog, k Kind) string {
	var out []string
	for e := range c.Entries(k) {
		out = append(out, e.Name)
	}
	return strings.Join(out, " ")
}

// problems returns the problems, one per line.
func problems(c *Catalog) string {
	var out strings.Builder
	for _, p := range c.Problems() {
		out.WriteString(p.String() + "\n")
	}
	return out.String()
}

// page is one decoded page of a list.
type page struct {
	ResultType string  `json:"resultType"`
	TTL        *int64  `json:"ttlMs"`
	CacheScope string  `json:"cacheScope"`
	NextCursor *string `json:"nextCursor"`

	Tools             []json.RawMessage `json:"tools"`
	Resources         []json.RawMessage `json:"resources"`
	ResourceTemplates []json.RawMessage `json:"resourceTemplates"`
	Prompts           []json.RawMessage `json:"prompts"`
	Skills            []json.RawMessage `json:"skills"`
}

func (p *page) items(k Kind) []json.RawMessage {
	return [NumKinds][]json.RawMessage{p.Tools, p.Resources, p.ResourceTemplates, p.Prompts, p.Skills}[k]
}

func readPage(t testing.TB, c *Catalog, k Kind, cursor string) page {
	t.Helper()
	res, err := c.List(k, cursor)
	if err != nil {
		t.Fatalf("%s %q: %v", k.Method(), cursor, err)
	}
	var p page
	if err := json.Unmarshal(res.Bytes(), &p); err != nil {
		t.Fatalf("%s %q: %v", k.Method(), cursor, err)
	}
	if p.items(k) == nil {
		t.Fatalf("%s %q: no array of items: %.200s", k.Method(), cursor, res.Bytes())
	}
	return p
}

// readAll reads all pages of a list.
func readAll(t testing.TB, c *Catalog, k Kind) []page {
	t.Helper()
	pages := []page{readPage(t, c, k, "")}
	for {
		next := pages[len(pages)-1].NextCursor
		if next == nil {
			return pages
		}
		if len(pages) > 5000 {
			t.Fatal("the list does not end")
		}
		pages = append(pages, readPage(t, c, k, *next))
	}
}
