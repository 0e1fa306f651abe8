// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Changes holds the changes not yet reported to a listen.
type Changes struct {
	Lists     Lists
	announced Lists               // those of lists that the server has announced; the others are presumed
	Updated   []*mcp.Notification // of resources, in the order of their first change, then of tasks in the order of the filter
}

// Notify sends the changes to a listen's caller.
func (n Changes) Notify(ctx context.Context, to mcp.Caller) error {
	announced := n.announced.Methods()
	for _, method := range n.Lists.Methods() {
		n := &mcp.Notification{Method: method, Synthetic: !slices.Contains(announced, method)}
		if err := to.Notify(ctx, n); err != nil {
			return err
		}
	}
	for _, update := range n.Updated {
		if err := to.Notify(ctx, update); err != nil {
			return err
		}
	}
	return nil
}

// ResourceUpdated returns a notification for a changed resource.
func ResourceUpdated(uri string) *mcp.Notification {
	n, err := mcp.NewNotification(MethodUpdated, append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}'))
	if err != nil {
		panic("listen: a notice with one string does not parse: " + err.Error()) //nolint:forbidigo // AppendString writes valid JSON, whatever the text
	}
	return n
}

// A Feed distributes the changes of one session to its listens. It keeps a bounded
// state per listen instead of a queue, so that neither a slow listen nor a flood of
// notifications exhausts memory. The zero value is ready.
type Feed struct {
	mu        sync.Mutex
	listeners map[*Listener]struct{}
	uris      map[string]int // how many listeners ask for each
}

// A Listener is one listen, with the changes since it last took them.
type Listener struct {
	want Lists
	wake chan struct{} // capacity 1; see Wake

	// The fields below are guarded by Feed.mu.
	uris      map[string]bool
	lists     Lists
	announced Lists                        // of lists
	updated   map[string]*mcp.Notification // the newest by URI
	order     []string                     // the keys of updated, by first change
	tasks     []string
	states    map[string]*mcp.Notification // the newest by task; nil for one without news
}

// Add registers a listen. Call it before the listen is acknowledged, so that no change
// in between is lost.
func (f *Feed) Add(want Filter) *Listener {
	l := &Listener{want: want.Lists(), uris: setOf(want.URIs), wake: make(chan struct{}, 1)}
	l.setTasks(want.TaskIDs)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listeners == nil {
		f.listeners, f.uris = make(map[*Listener]struct{}), make(map[string]int)
	}
	f.listeners[l] = struct{}{}
	for uri := range l.uris {
		f.uris[uri]++
	}
	return l
}

// Remove ends what Add has begun.
func (f *Feed) Remove(l *Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.listeners[l]; !ok {
		return
	}
	delete(f.listeners, l)
	for uri := range l.uris {
		f.dropLocked(uri)
	}
}

// IsEmpty reports whether there is no listen.
func (f *Feed) IsEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.listeners) == 0
}

func (f *Feed) dropLocked(uri string) {
	if f.uris[uri]--; f.uris[uri] == 0 {
		delete(f.uris, uri)
	}
}

// Narrow removes from the listen the resources and tasks that were not agreed on, with
// what has changed of them.
func (f *Feed) Narrow(l *Listener, agreed Filter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.setTasks(agreed.TaskIDs)
	kept := setOf(agreed.URIs)
	for uri := range l.uris {
		if !kept[uri] {
			delete(l.uris, uri)
			f.dropLocked(uri)
		}
	}
	l.order = slices.DeleteFunc(l.order, func(uri string) bool {
		if slices.ContainsFunc(append(parents(uri), uri), func(own string) bool { return l.uris[own] }) {
			return false
		}
		delete(l.updated, uri)
		return true
	})
}

func (l *Listener) setTasks(ids []string) {
	states := make(map[string]*mcp.Notification, len(ids))
	for _, id := range ids {
		states[id] = l.states[id]
	}
	l.tasks, l.states = ids, states
}

// Mark records that lists have changed. It does not block.
func (f *Feed) Mark(c Lists) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if l.want&c == 0 {
			continue
		}
		l.lists |= l.want & c
		l.announced |= l.want & c
		l.wakeLocked()
	}
}

// UpdateResource records that a resource has changed for the listens that ask for it, and
// reports whether there is one. It does not block.
func (f *Feed) UpdateResource(n *mcp.Notification) bool {
	uri, ok := n.Params.Text(mcp.FieldURI)
	if !ok {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.subscribedLocked(uri)
	found := false
	for l := range f.listeners {
		if slices.ContainsFunc(of, func(uri string) bool { return l.uris[uri] }) {
			found = true
			l.noteLocked(uri, n)
		}
	}
	return found
}

// UpdateTask records the state of a task for the listens that ask for it. It does not block.
// Only the newest state is kept, so that the memory is bounded by the tasks asked for.
func (f *Feed) UpdateTask(n *mcp.Notification) {
	id, ok := n.Params.Text(mcp.FieldTaskID)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if _, ok := l.states[id]; ok {
			l.states[id] = n
			l.wakeLocked()
		}
	}
}

// subscribedLocked returns the subscribed URIs that an update of uri belongs to: uri
// itself and those that contain it by their path. "This might be a sub-resource of the
// one that the client actually subscribed to" (2025-11-25 and 2026-07-28, schema,
// ResourceUpdatedNotificationParams). An update of an unrelated URI belongs to no
// subscription, even if there is only one: it may concern a subscription that was just
// cancelled.
func (f *Feed) subscribedLocked(uri string) []string {
	var of []string
	for _, own := range append(parents(uri), uri) {
		if f.uris[own] > 0 {
			of = append(of, own)
		}
	}
	return of
}

// Contains reports whether an update of a resource belongs to a subscription to another one: they
// are the same, or the subscribed one contains it by its path.
func Contains(subscribed, uri string) bool {
	return uri == subscribed || slices.Contains(parents(uri), subscribed)
}

// parents returns the prefixes of uri that end at a slash, a query or a fragment.
func parents(uri string) []string {
	var found []string
	for i := range len(uri) {
		switch uri[i] {
		case '/':
			found = append(found, uri[:i])
			if i+1 < len(uri) {
				found = append(found, uri[:i+1])
			}
		case '?', '#':
			found = append(found, uri[:i])
		}
	}
	return found
}

// Limits of the updates kept for a slow listen: of other resources than those asked
// for, and in bytes of each.
const (
	MaxSubResources = 1000
	MaxUpdate       = 4 << 10
)

func (l *Listener) noteLocked(uri string, n *mcp.Notification) {
	if len(n.Params.Bytes())+len(n.Params.Beside()) > MaxUpdate {
		n = ResourceUpdated(uri)
	}
	if l.updated == nil {
		l.updated = make(map[string]*mcp.Notification)
	}
	_, known := l.updated[uri]
	if !known && len(l.updated) >= len(l.uris)+MaxSubResources {
		l.updateAllLocked()
		return
	}
	if !known {
		l.order = append(l.order, uri)
	}
	l.updated[uri] = n
	l.wakeLocked()
}

// updateAllLocked marks all resources of the listen as changed.
func (l *Listener) updateAllLocked() {
	l.order = sorted(l.uris)
	l.updated = make(map[string]*mcp.Notification, len(l.uris))
	for _, uri := range l.order {
		l.updated[uri] = ResourceUpdated(uri)
	}
	l.wakeLocked()
}

// Invalidate marks everything as changed, after a gap in the notifications.
func (f *Feed) Invalidate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if l.want != 0 || len(l.uris) > 0 {
			l.lists = l.want
			l.updateAllLocked()
		}
	}
}

// Wake returns the channel that receives a value when there are changes to take.
func (l *Listener) Wake() <-chan struct{} { return l.wake }

func (l *Listener) wakeLocked() {
	select {
	case l.wake <- struct{}{}:
	default: // already signalled
	}
}

// Take returns the changes of a listen and clears them.
func (f *Feed) Take(l *Listener) Changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := Changes{Lists: l.lists, announced: l.announced}
	for _, uri := range l.order {
		n.Updated = append(n.Updated, l.updated[uri])
	}
	for _, id := range l.tasks {
		if state := l.states[id]; state != nil {
			n.Updated = append(n.Updated, state)
			l.states[id] = nil
		}
	}
	l.lists, l.announced, l.order, l.updated = 0, 0, nil, nil
	return n
}
