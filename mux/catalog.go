// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Item is something to add to a Mux: a [Tool], a [Resource], a [Template] or a
// [Prompt].
type Item interface {
	// put adds the item to a catalog that nobody else has yet.
	put(c *catalog) error
	// drop takes what has the item's kind and key out of it.
	drop(c *catalog)
}

// errFixed is the error of a change that was promised not to happen.
var errFixed = errors.New("mux: nothing changes once a fixed Mux serves")

// Add adds items, or none where one of them is not right; one of the same kind and
// name, or URI, is replaced, and keeps its place in the list. Clients that listen are
// told once, after the last.
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

// Remove removes items, of which nothing but the kind and the name, or the URI,
// counts. One that is not there is gone already.
func (m *Mux) Remove(items ...Item) error {
	return m.change(func(c *catalog) error {
		for _, item := range items {
			item.drop(c)
		}
		return nil
	})
}

// change replaces the catalog, and tells those who listen.
func (m *Mux) change(f func(*catalog) error) error {
	changed, err := m.swap(f)
	if err != nil {
		return err
	}
	m.ears.tell(news{lists: changed})
	return nil
}

func (m *Mux) swap(f func(*catalog) error) (lists, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.current()
	if m.Fixed && old.served {
		return lists{}, errFixed
	}
	c := old.clone()
	if err := f(c); err != nil {
		return lists{}, err
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

// serving is current for a request, after which a fixed Mux is.
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

// lists are those that clients can be told of.
type lists struct{ tools, resources, prompts bool }

func (l lists) any() bool { return l.tools || l.resources || l.prompts }

func (l lists) and(o lists) lists {
	return lists{l.tools && o.tools, l.resources && o.resources, l.prompts && o.prompts}
}

func (l lists) or(o lists) lists {
	return lists{l.tools || o.tools, l.resources || o.resources, l.prompts || o.prompts}
}

// catalog is all that a Mux has at one time. It is immutable once it is published.
type catalog struct {
	tools     shelf[Tool]
	resources shelf[Resource]
	templates shelf[Template]
	prompts   shelf[Prompt]

	changed lists // since the one before
	served  bool

	completes bool // there was something to complete
	runsTasks bool // there was a tool that runs as a task
}

func (c *catalog) clone() *catalog {
	own := *c
	own.changed = lists{}
	own.tools, own.resources = c.tools.clone(), c.resources.clone()
	own.templates, own.prompts = c.templates.clone(), c.prompts.clone()
	return &own
}

// summarize notes what is said of the whole. What was there once may be there again:
// a client that was told of it goes on to ask.
func (c *catalog) summarize() {
	for _, t := range c.tools.slots {
		c.runsTasks = c.runsTasks || t.item.Task != TaskNever
	}
	for _, t := range c.templates.slots {
		c.completes = c.completes || len(t.item.Complete) > 0
	}
	for _, p := range c.prompts.slots {
		c.completes = c.completes || slices.ContainsFunc(p.item.Arguments, func(a Argument) bool { return a.Complete != nil })
	}
}

// capabilities says what there is, and nothing else.
func (c *catalog) capabilities(has lists, fixed bool) jsontext.Value {
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
	add(has.tools, "tools", changes)
	add(has.resources, "resources", updates)
	add(has.prompts, "prompts", changes)
	add(c.completes, "completions", `{}`)
	add(len(all) > 0, "logging", `{}`) // each function has Call.Log
	add(c.runsTasks, "extensions", `{"io.modelcontextprotocol/tasks":{}}`)
	return jsontext.Value("{" + strings.Join(all, ",") + "}")
}

// shelf is what there is of one kind, in the order in which it was added.
type shelf[T any] struct {
	slots []slot[T]
	by    map[string]int // places in slots
	last  uint64         // of all numbers
	known bool           // there was something once
}

// slot is one item.
type slot[T any] struct {
	key    string
	number uint64 // never another's
	item   T
	listed jsontext.Value // as it is listed
}

func (s *shelf[T]) clone() shelf[T] {
	own := *s
	own.slots, own.by = slices.Clone(s.slots), maps.Clone(s.by)
	return own
}

// put adds an item, which is listed as it is encoded.
func (s *shelf[T]) put(kind, key string, item T) error {
	if key == "" {
		return fmt.Errorf("mux: a %s without a name", kind)
	}
	listed, err := json.Marshal(item, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("mux: %s %q: %w", kind, key, err)
	}
	if s.by == nil {
		s.by = make(map[string]int)
	}
	s.known = true
	if i, ok := s.by[key]; ok {
		s.slots[i].item, s.slots[i].listed = item, listed
		return nil
	}
	s.last++
	s.by[key] = len(s.slots)
	s.slots = append(s.slots, slot[T]{key, s.last, item, listed})
	return nil
}

// drop reports whether there was one.
func (s *shelf[T]) drop(key string) bool {
	i, ok := s.by[key]
	if !ok {
		return false
	}
	s.slots = slices.Delete(s.slots, i, i+1)
	clear(s.by)
	for i, slot := range s.slots {
		s.by[slot.key] = i
	}
	return true
}

func (s *shelf[T]) get(key string) (*T, bool) {
	i, ok := s.by[key]
	if !ok {
		return nil, false
	}
	return &s.slots[i].item, true
}
