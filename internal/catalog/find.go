// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/search"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Finder gives a profile two tools of the gateway: one that finds tools, and one that calls a tool by
// its name. Its short list has only these. What can be called is the same as without a Finder.
type Finder struct {
	// Always are patterns of the names of tools that the short list has besides.
	Always []string

	// Auto reports that some clients are not given the short list.
	Auto bool

	// Split adds a tool that calls only tools with readOnlyHint.
	Split bool
}

// The names of the tools of the gateway. A tool of a backend with one of them is not in a profile with a
// Finder, or for the last one, where results are cut.
const (
	FindTool         = "find_tool"
	CallTool         = "call_tool"
	CallToolReadOnly = "call_tool_readonly"
	ReadResult       = "read_result"
)

// ownTool is the Backend of an Entry that is a tool of the gateway.
const ownTool = -1

// IsOwn reports whether the item is a tool of the gateway, and so of no backend.
func (e *Entry) IsOwn() bool { return e.Backend == ownTool }

// ownTools are the tools of the gateway, as they are listed.
//
//nolint:gochecknoglobals // never changed
var ownTools = []*Entry{
	{Kind: Tools, Backend: ownTool, Name: FindTool, Own: FindTool, ReadOnly: true, Idempotent: true, item: []byte(
		`{"name":"find_tool","title":"Find tools","description":"Finds tools by what they do. Describe the task in a few words; the best fits come first. Then call one with call_tool.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"query":{"type":"string","description":"What the tool should do, such as: create an issue on GitHub"},` +
			`"limit":{"type":"integer","minimum":1,"maximum":10,"default":5},` +
			`"detail":{"type":"string","enum":["schema","signature","name"],"default":"schema","description":"schema: the JSON Schema of the arguments; signature: the arguments as a TypeScript type; name: names and descriptions alone"}},` +
			`"required":["query"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)},
	{Kind: Tools, Backend: ownTool, Name: CallTool, Own: CallTool, item: []byte(
		`{"name":"call_tool","title":"Call a tool","description":"Calls a tool that find_tool has found, with its arguments. The result is that of the tool.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"name":{"type":"string","description":"The name of the tool, as find_tool returns it"},` +
			`"arguments":{"type":"object","description":"The arguments of the tool"}},` +
			`"required":["name"]},"annotations":{"destructiveHint":true,"openWorldHint":true}}`)},
	{Kind: Tools, Backend: ownTool, Name: CallToolReadOnly, Own: CallToolReadOnly, ReadOnly: true, item: []byte(
		`{"name":"call_tool_readonly","title":"Call a tool that only reads","description":"Like call_tool, for tools with readOnlyHint alone.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"name":{"type":"string","description":"The name of the tool, as find_tool returns it"},` +
			`"arguments":{"type":"object","description":"The arguments of the tool"}},` +
			`"required":["name"]},"annotations":{"readOnlyHint":true,"openWorldHint":true}}`)},
}

// tools returns the tools of the gateway that a profile with the Finder has.
func (f *Finder) tools() []*Entry {
	if f.Split {
		return ownTools
	}
	return ownTools[:len(ownTools)-1]
}

// has reports whether a name is that of a tool of the gateway.
func (f *Finder) has(name string) bool {
	return slices.ContainsFunc(f.tools(), func(e *Entry) bool { return e.Name == name })
}

// lists reports whether a tool is in the short list.
func (f *Finder) lists(e *Entry) bool {
	return e.IsOwn() || slices.ContainsFunc(f.Always, func(p string) bool { return glob.Match(p, e.Name) })
}

// found is what a Catalog with a Finder has besides its sections. Each part is made on its first use.
type found struct {
	*Finder

	short func() section // the tools of the gateway, and those that are always listed
	whole func() section // the tools of backends, and read_result
	bytes func() int     // of the definitions of these

	mu     sync.Mutex
	marked map[string]*section // the tools of backends, with a member of _meta in those that are always listed

	index func() (*search.Index, []*Entry)
}

// withFinder adds the tools of the gateway to the tools of a Catalog. The entries are copies, since a table sets
// their places.
func (c *Catalog) withFinder(f *Finder) {
	tools := &c.sections[Tools]
	var entries []*Entry
	for _, e := range f.tools() {
		entries = append(entries, c.opt.Apps.showOwn(e))
	}
	for e := range tools.all() {
		if !f.has(e.Name) {
			own := *e
			entries = append(entries, &own)
		}
	}
	*tools = newSection(Tools, entries, tools.fresh, c.opt)
	c.found = newFound(f, *tools, c)
}

func newFound(f *Finder, tools section, c *Catalog) *found {
	lists, apps := c.shared, c.opt.Apps
	part := func(has func(*Entry) bool) func() section {
		return sync.OnceValue(func() section { return tools.narrow(has, tools.fresh, lists) })
	}
	return &found{
		Finder: f,
		short:  part(func(e *Entry) bool { return f.lists(e) || apps.isForApps(e) }),
		whole:  part(func(e *Entry) bool { return !f.has(e.Name) }),
		bytes: sync.OnceValue(func() (n int) {
			for e := range tools.all() {
				if !e.IsOwn() {
					n += len(e.item)
				}
			}
			return n
		}),
		index: sync.OnceValues(func() (*search.Index, []*Entry) {
			var entries []*Entry
			var texts []search.Tool
			for e := range tools.all() {
				if !e.IsOwn() && e.App.ForModel() {
					entries = append(entries, e)
					texts = append(texts, e.searchText())
				}
			}
			return search.New(texts), entries
		}),
	}
}

// searchText returns what of a tool is searched.
func (e *Entry) searchText() search.Tool {
	t := search.Tool{Name: e.Own, Server: e.BackendName}
	for name, raw := range jsonscan.Members(e.item) {
		switch name {
		case "title":
			t.Title, _ = jsonscan.DecodeText(raw)
		case "description":
			t.Description, _ = jsonscan.DecodeText(raw)
		case "annotations":
			if t.Title == "" {
				t.Title, _ = jsonscan.DecodeText(jsonscan.Member(raw, "title"))
			}
		case "inputSchema":
			for argument, schema := range jsonscan.Members(jsonscan.Member(raw, "properties")) {
				t.Arguments = append(t.Arguments, argument)
				if about, ok := jsonscan.DecodeText(jsonscan.Member(schema, "description")); ok {
					t.Arguments = append(t.Arguments, about)
				}
			}
		}
	}
	return t
}

// HasFinder reports whether the Catalog is that of a profile with a Finder.
func (c *Catalog) HasFinder() bool { return c.found != nil }

// MayListAll reports whether some clients are sent the tools of backends in place of the short list.
func (c *Catalog) MayListAll() bool { return c.found.Auto }

// ListFound is List for the short list of tools, of a Catalog with a Finder.
func (c *Catalog) ListFound(cursor string) (*mcp.Result, error) {
	s := c.found.short()
	return s.page(cursor)
}

// ListWhole is List for the tools of backends alone, of a Catalog with a Finder. If mark is not empty, the
// _meta of those that the short list has gets this member, with the value true.
func (c *Catalog) ListWhole(mark, cursor string) (*mcp.Result, error) {
	if mark != "" && len(c.found.Always) > 0 {
		return c.found.markedAs(mark).page(cursor)
	}
	s := c.found.whole()
	return s.page(cursor)
}

// WholeBytes returns the size of the definitions of the tools of backends.
func (c *Catalog) WholeBytes() int { return c.found.bytes() }

// markedAs returns the list in which the tools that are always listed are marked.
func (f *found) markedAs(mark string) *section {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.marked[mark]; s != nil {
		return s
	}
	whole := f.whole()
	var entries []*Entry
	for e := range whole.all() {
		own := *e
		if f.lists(e) {
			own.item = withMeta(e.item, mark, "true")
		}
		entries = append(entries, &own)
	}
	s := newSection(Tools, entries, whole.fresh, whole.opt)
	if f.marked == nil {
		f.marked = make(map[string]*section)
	}
	f.marked[mark] = &s
	return &s
}

// withMeta returns an item with a member in its _meta, in place of one with the name. What is not an
// object counts as no _meta.
func withMeta(item []byte, name, value string) []byte {
	var meta []byte
	item = jsonscan.RewriteMembers(item, func(member string, raw []byte) []byte {
		if member != "_meta" {
			return raw
		}
		if jsonscan.IsObject(raw) {
			meta = raw
		}
		return nil
	})
	meta = jsonscan.RewriteMembers(meta, func(member string, raw []byte) []byte {
		if member == name {
			return nil
		}
		return raw
	})
	return jsonscan.WithMember(item, "_meta", jsonscan.WithMember(meta, name, []byte(value)))
}

// Nearest returns the tools of backends whose names are closest to a name that none of them has, and at most
// limit: those with a similar spelling, and those with the same words.
func (c *Catalog) Nearest(name string, limit int) []*Entry {
	var names []string
	for e := range c.Entries(Tools) {
		if !e.IsOwn() && e.App.ForModel() {
			names = append(names, e.Name)
		}
	}
	var near []*Entry
	if like := spelling.Nearest(name, names); like != "" {
		e, _ := c.Tool(like)
		near = append(near, e)
	}
	for _, e := range c.Search(name, limit) {
		if !slices.Contains(near, e) {
			near = append(near, e)
		}
	}
	return near[:min(len(near), limit)]
}

// Search returns the tools of backends that fit a query, the best one first, and at most limit. It
// finds exactly those that can be called. The Catalog has a Finder.
func (c *Catalog) Search(query string, limit int) []*Entry {
	index, entries := c.found.index()
	var best []*Entry
	for _, h := range index.Search(query, limit) {
		best = append(best, entries[h.Tool])
	}
	return best
}

// checkFinders reports tools of backends that a profile does not have because of their names.
func (b *builder) checkFinders(c *Catalog) {
	for i := range b.opt.Profiles {
		p := &b.opt.Profiles[i]
		if p.Finder == nil {
			continue
		}
		for e := range c.Entries(Tools) {
			if p.Admits(e) && p.Finder.has(p.nameOf(e)) {
				b.report.problems = append(b.report.problems, Problem{
					Profile: p.Name, Code: code.NameReserved, Withheld: true,
					Text: fmt.Sprintf("tool %s of backend %s is left out, because the profile has a tool of the gateway with this name; rename it", quote(p.nameOf(e)), quote(e.BackendName)),
				})
			}
		}
	}
}
