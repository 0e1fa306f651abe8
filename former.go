// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// FormerItem is an item that a backend listed earlier.
type FormerItem struct {
	Kind    string    `json:"kind"`    // tool, prompt, resource, or resource template
	Backend string    `json:"backend"` // the configured name
	Own     string    `json:"own"`     // the name or URI in the backend
	Name    string    `json:"name"`    // the one under which it was offered, if it was
	Until   time.Time `json:"until"`
	Cause   string    `json:"cause"` // list_changed, listed again, removed, or restarted
}

// The causes of FormerItem.
const (
	causeNotified  = "list_changed"
	causeListed    = "listed again" // and the backend has not notified of the change
	causeRemoved   = "removed"      // the backend is not in the configuration any more
	causeRestarted = "restarted"    // the configuration of the backend has changed
)

// formerNames remembers the items that left the lists of backends last. The zero value is
// ready.
type formerNames struct {
	mu    sync.Mutex
	items []FormerItem // at most maxFormer
	next  int          // the index of the oldest, once there are maxFormer
}

// Bounds of formerNames: it takes less than a megabyte.
const (
	maxFormer     = 1000
	maxFormerName = 256 // longer names are not remembered
)

// currentRules returns the backend with the rules of the current configuration, which a reload
// may have changed without a new backend.
func (g *Gateway) currentRules(b *activeBackend) *activeBackend {
	if now, ok := g.view.Load().backend(b.Name()); ok && now.Backend == b.Backend {
		return now
	}
	return b
}

// compare remembers the items of the old offer that the new one lacks.
func (f *formerNames) compare(b *activeBackend, old, next *backend.Offer) {
	if !old.Known() {
		return
	}
	before, after := b.input(old), b.input(next)
	for k := range catalog.NumKinds {
		if slices.EqualFunc(before.Lists[k].Items, after.Lists[k].Items, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }) {
			continue
		}
		cause := causeListed
		if old.Notices[k] != next.Notices[k] {
			cause = causeNotified
		}
		stays := make(map[string]bool)
		for own := range after.Names(k) {
			stays[own] = true
		}
		f.note(k, &before, stays, next.At, cause)
	}
}

// leave remembers all items of a backend that next does not have.
func (f *formerNames) leave(b *activeBackend, next *view) {
	cause := causeRemoved
	if _, ok := next.backend(b.Name()); ok {
		cause = causeRestarted
	}
	before, now := b.input(b.Offer()), time.Now()
	for k := range catalog.NumKinds {
		f.note(k, &before, nil, now, cause)
	}
}

// note remembers the items of a list except those that stay.
func (f *formerNames) note(k catalog.Kind, in *catalog.Backend, stays map[string]bool, until time.Time, cause string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for own, name := range in.Names(k) {
		if stays[own] || len(own) > maxFormerName || len(name) > maxFormerName {
			continue
		}
		item := FormerItem{k.String(), in.Name, own, name, until, cause}
		if len(f.items) < maxFormer {
			f.items = append(f.items, item)
			continue
		}
		f.items[f.next] = item
		f.next = (f.next + 1) % maxFormer
	}
}

// find returns the items that a name means, the newest of each backend and kind.
func (f *formerNames) find(name string) []FormerItem {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []FormerItem
	for i := range f.items {
		item := &f.items[(f.next+i)%len(f.items)]
		if item.Own != name && item.Name != name {
			continue
		}
		found = slices.DeleteFunc(found, func(o FormerItem) bool { return o.Kind == item.Kind && o.Backend == item.Backend && o.Own == item.Own })
		found = append(found, *item)
	}
	slices.Reverse(found)
	return found
}
