// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// An Item can be added to a Mux: it is a [Tool], a [Resource], a [Template] or a
// [Prompt].
type Item interface {
	// put adds the item to a catalog that is not yet published.
	put(c *catalog) error
	// drop removes the item with the same kind and key.
	drop(c *catalog)
}

// errFixed is the error of a change to a fixed Mux.
var errFixed = errors.New("mux: a fixed Mux cannot be changed after its first request")

// Add adds items, or none if one of them is invalid. It replaces an item of the same
// kind and name, or URI, which keeps its place in the list. Clients that listen are
// notified once, after the last item.
func (m *Mux) Add(items ...Item) error {
	return m.change(func(c *catalog) error {
		for _, item := range items {
			if err := item.put(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remove removes the items with the same kind and name, or URI; other fields are
// ignored. It ignores items that do not exist.
func (m *Mux) Remove(items ...Item) error {
	return m.change(func(c *catalog) error {
		for _, item := range items {
			item.drop(c)
		}
		return nil
	})
}

// change replaces the catalog and notifies listening clients.
func (m *Mux) change(f func(*catalog) error) error {
	changed, err := m.swap(f)
	if err == nil {
		m.feed.Mark(changed)
	}
	return err
}

func (m *Mux) swap(f func(*catalog) error) (listen.Lists, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.current()
	if m.Fixed && old.served {
		return 0, errFixed
	}
	c := old.clone()
	if err := f(c); err != nil {
		return 0, err
	}
	c.summarize()
	m.catalog.Store(c)
	return c.changed, nil
}

// current returns the catalog, which must not be changed.
func (m *Mux) current() *catalog {
	if c := m.catalog.Load(); c != nil {
		return c
	}
	return &catalog{}
}

// serving returns the catalog for a request; from then on a fixed Mux cannot be
// changed.
func (m *Mux) serving() *catalog {
	c := m.current()
	if !m.Fixed || c.served {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c = m.current().clone()
	c.served = true
	m.catalog.Store(c)
	return c
}

// catalog is all items of a Mux at one time. It is immutable once it is published.
type catalog struct {
	tools     itemList[Tool]
	resources itemList[Resource]
	templates itemList[Template]
	prompts   itemList[Prompt]

	changed listen.Lists // since the previous catalog
	served  bool

	completes bool // an item has or had a Completer
	runsTasks bool // a tool runs or ran as a task
}

func (c *catalog) clone() *catalog {
	own := *c
	own.changed = 0
	own.tools, own.resources = c.tools.clone(), c.resources.clone()
	own.templates, own.prompts = c.templates.clone(), c.prompts.clone()
	return &own
}

// summarize updates the properties of the whole. Removed items still count, because
// they may come back: a client that knows the capability continues to use it.
func (c *catalog) summarize() {
	for _, t := range c.tools.entries {
		c.runsTasks = c.runsTasks || t.item.Task != TaskNever
	}
	for _, t := range c.templates.entries {
		c.completes = c.completes || len(t.item.Complete) > 0
	}
	for _, p := range c.prompts.entries {
		c.completes = c.completes || slices.ContainsFunc(p.item.Arguments, func(a Argument) bool { return a.Complete != nil })
	}
}

// capabilities declares the capabilities that the items need.
func (c *catalog) capabilities(has listen.Lists, fixed bool) jsontext.Value {
	changes, updates := `{"listChanged":true}`, `{"listChanged":true,"subscribe":true}`
	if fixed {
		changes, updates = `{}`, `{}`
	}
	var all []string
	add := func(is bool, name, value string) {
		if is {
			all = append(all, `"`+name+`":`+value)
		}
	}
	add(has&listen.Tools != 0, "tools", changes)
	add(has&listen.Resources != 0, "resources", updates)
	add(has&listen.Prompts != 0, "prompts", changes)
	add(c.completes, "completions", `{}`)
	add(len(all) > 0, "logging", `{}`) // every function has Call.Log
	add(c.runsTasks, "extensions", `{"io.modelcontextprotocol/tasks":{}}`)
	return jsontext.Value("{" + strings.Join(all, ",") + "}")
}

// itemList is the items of one kind, in the order in which they were added.
type itemList[T any] struct {
	entries  []entry[T]
	index    map[string]int // indices of slots
	last     uint64         // the highest number so far
	everUsed bool           // there is or was an item
}

// entry is one item.
type entry[T any] struct {
	key    string
	number uint64 // never reused
	item   T
	listed jsontext.Value // its JSON in the list
}

func (s *itemList[T]) clone() itemList[T] {
	own := *s
	own.entries, own.index = slices.Clone(s.entries), maps.Clone(s.index)
	return own
}

// put adds an item and its JSON for the list.
func (s *itemList[T]) put(kind, key string, item T) error {
	if key == "" {
		return fmt.Errorf("mux: a %s without a name", kind)
	}
	listed, err := json.Marshal(item, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("mux: %s %q: %w", kind, key, err)
	}
	if s.index == nil {
		s.index = make(map[string]int)
	}
	s.everUsed = true
	if i, ok := s.index[key]; ok {
		s.entries[i].item, s.entries[i].listed = item, listed
		return nil
	}
	s.last++
	s.index[key] = len(s.entries)
	s.entries = append(s.entries, entry[T]{key, s.last, item, listed})
	return nil
}

// drop removes an item. It returns the list that it was in, or none if it did not exist.
func (s *itemList[T]) drop(key string, list listen.Lists) (changed listen.Lists) {
	i, ok := s.index[key]
	if !ok {
		return 0
	}
	s.entries = slices.Delete(s.entries, i, i+1)
	clear(s.index)
	for i, e := range s.entries {
		s.index[e.key] = i
	}
	return list
}

func (s *itemList[T]) get(key string) (*T, bool) {
	i, ok := s.index[key]
	if !ok {
		return nil, false
	}
	return &s.entries[i].item, true
}

// page returns one page of a list: the items after the one in the cursor of the
// request. Added and removed items do not move others to another page, so that a client
// that follows the cursors misses none of the items that exist throughout.
func page[T any](m *Mux, req *mcp.Request, member string, s *itemList[T]) (*mcp.Result, error) {
	after, err := cursorOf(req)
	if err != nil {
		return nil, err
	}
	from, _ := slices.BinarySearchFunc(s.entries, after+1, func(e entry[T], n uint64) int { return cmp.Compare(e.number, n) })
	rest := s.entries[from:]
	more := m.PageSize > 0 && len(rest) > m.PageSize
	if more {
		rest = rest[:m.PageSize]
	}
	out := append(append([]byte(`{"`), member...), `":[`...)
	for i, e := range rest {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e.listed...)
	}
	out = append(out, ']')
	if more {
		out = jsonscan.AppendString(append(out, `,"nextCursor":`...), cursor(rest[len(rest)-1].number))
	}
	if m.TTL > 0 {
		out = strconv.AppendInt(append(out, `,"ttlMs":`...), m.TTL.Milliseconds(), 10)
		out = append(out, `,"cacheScope":"public"`...) // all clients get the same
	}
	return mcp.NewResult(append(out, '}'))
}

// cursor returns the cursor for the items after a number. A made-up cursor does no
// harm: the list begins elsewhere.
func cursor(after uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, after))
}

// cursorOf returns the number after which the client wants to continue (2026-07-28,
// server/utilities/pagination, "Error Handling").
func cursorOf(req *mcp.Request) (after uint64, err error) {
	if !req.Params.Has(mcp.FieldCursor) {
		return 0, nil
	}
	text, _ := req.Params.Text(mcp.FieldCursor)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		if n, size := binary.Uvarint(raw); size > 0 && size == len(raw) && n < 1<<62 {
			return n, nil
		}
	}
	return 0, mcp.Errorf(mcp.CodeInvalidParams, "params.cursor is unknown: list again from the beginning")
}
