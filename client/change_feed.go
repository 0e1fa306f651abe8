// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listenfilter"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// changes is a set of changed lists. It is a level, not a count: a list that changes
// several times before a reader takes the set is fetched once. A mark remains until it
// is taken, so that a change during the fetch is seen after it.
type changes uint8

const (
	changedTools changes = 1 << iota
	changedPrompts
	changedResources
)

// notices returns the notification methods for the changes, in a fixed order.
func (c changes) notices() []string {
	var methods []string
	if c&changedTools != 0 {
		methods = append(methods, methodTools)
	}
	if c&changedPrompts != 0 {
		methods = append(methods, methodPrompts)
	}
	if c&changedResources != 0 {
		methods = append(methods, methodResources)
	}
	return methods
}

// filter is what a listen asks for (2026-07-28, basic/patterns/subscriptions).
type filter listenfilter.Filter

func parseFilter(params *mcp.Object) (filter, error) {
	f, err := listenfilter.Read(params)
	return filter(f), err
}

// lists returns the lists that the filter names. It leaves out URIs, for which a legacy
// server needs separate requests.
func (f filter) lists() changes {
	var c changes
	if f.Tools {
		c |= changedTools
	}
	if f.Prompts {
		c |= changedPrompts
	}
	if f.Resources {
		c |= changedResources
	}
	return c
}

// with returns a filter for the lists of c and the URIs of f.
func (f filter) with(c changes) filter {
	lists := c.filter()
	lists.URIs = f.URIs
	return lists
}

// common returns the intersection of the filters, with URIs and tasks in the order of
// f.
func (f filter) common(o filter) filter {
	both := (f.lists() & o.lists()).filter()
	both.URIs, both.TaskIDs = intersect(f.URIs, o.URIs), intersect(f.TaskIDs, o.TaskIDs)
	return both
}

// covers reports whether f asks for all lists and URIs of o. It ignores tasks: no
// notification will follow about a task that has ended.
func (f filter) covers(o filter) bool {
	return o.lists()&^f.lists() == 0 && len(intersect(o.URIs, f.URIs)) == len(o.URIs)
}

func intersect(names, others []string) []string {
	var both []string
	theirs := setOf(others)
	for _, name := range names {
		if theirs[name] {
			both = append(both, name)
		}
	}
	return both
}

func setOf(uris []string) map[string]bool {
	set := make(map[string]bool, len(uris))
	for _, uri := range uris {
		set[uri] = true
	}
	return set
}

// filter returns a filter of lists only. A legacy session acknowledges the lists that
// it has declared, whatever the listen asked for.
func (c changes) filter() filter {
	return filter{Tools: c&changedTools != 0, Prompts: c&changedPrompts != 0, Resources: c&changedResources != 0}
}

// acknowledge notifies a listen's caller of what was agreed.
func acknowledge(ctx context.Context, f filter, sink mcp.Caller) error {
	raw, err := json.Marshal(struct {
		F filter `json:"notifications"`
	}{f})
	if err != nil {
		return err
	}
	n, err := mcp.NewNotification(methodAcknowledged, raw)
	if err != nil {
		return err
	}
	return sink.Notify(ctx, n)
}

// acknowledged parses an acknowledgement. One without a filter agrees to what was asked
// for.
func acknowledged(n *mcp.Notification, asked filter) filter {
	if !n.Params.Has(mcp.FieldNotifications) {
		return asked
	}
	agreed, err := parseFilter(&n.Params)
	if err != nil {
		return filter{}
	}
	return asked.common(agreed)
}

// news holds the changes not yet reported to a listen.
type news struct {
	lists     changes
	announced changes             // those of lists that the server has announced; the others are presumed
	updated   []*mcp.Notification // of resources, in the order of their first change, then of tasks
}

// notify sends the changes to a listen's caller.
func (n news) notify(ctx context.Context, sink mcp.Caller) error {
	announced := n.announced.notices()
	for _, method := range n.lists.notices() {
		n := &mcp.Notification{Method: method, Synthetic: !slices.Contains(announced, method)}
		if err := sink.Notify(ctx, n); err != nil {
			return err
		}
	}
	for _, update := range n.updated {
		if err := sink.Notify(ctx, update); err != nil {
			return err
		}
	}
	return nil
}

// updateOf returns a notification for a changed resource.
func updateOf(uri string) *mcp.Notification {
	n, err := mcp.NewNotification(methodUpdated, append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}'))
	if err != nil {
		panic("client: a notice with one string does not parse: " + err.Error()) //nolint:forbidigo // AppendString writes valid JSON, whatever the text
	}
	return n
}

// changeFeed distributes the changes of one session to its listens. It keeps a bounded
// state per listen instead of a queue, so that neither a slow listen nor a flood of
// notifications exhausts memory. The zero value is ready.
type changeFeed struct {
	mu        sync.Mutex
	listeners map[*changeListener]struct{}
	uris      map[string]int // how many listeners ask for each
}

// changeListener is one listen, with the changes since it last took them.
type changeListener struct {
	want changes
	wake chan struct{} // capacity 1

	// The fields below are guarded by changeFeed.mu.
	uris      map[string]bool
	tasks     map[string]bool
	lists     changes
	announced changes                      // of lists
	updated   map[string]*mcp.Notification // the newest by URI
	order     []string                     // the keys of updated, by first change
	states    map[string]*mcp.Notification // the newest by task
}

// add registers a listen. Call it before the listen is acknowledged, so that no change
// in between is lost.
func (f *changeFeed) add(want filter) *changeListener {
	l := &changeListener{want: want.lists(), uris: setOf(want.URIs), tasks: setOf(want.TaskIDs), wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listeners == nil {
		f.listeners, f.uris = make(map[*changeListener]struct{}), make(map[string]int)
	}
	f.listeners[l] = struct{}{}
	for uri := range l.uris {
		f.uris[uri]++
	}
	return l
}

func (f *changeFeed) remove(l *changeListener) {
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

func (f *changeFeed) dropLocked(uri string) {
	if f.uris[uri]--; f.uris[uri] == 0 {
		delete(f.uris, uri)
	}
}

// keep removes from the listen the resources and tasks that were not agreed on.
func (f *changeFeed) keep(l *changeListener, agreed filter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.tasks = setOf(agreed.TaskIDs)
	kept := setOf(agreed.URIs)
	for uri := range l.uris {
		if !kept[uri] {
			delete(l.uris, uri)
			f.dropLocked(uri)
		}
	}
}

// mark records that lists have changed. It does not block.
func (f *changeFeed) mark(c changes) {
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

// update records that a resource has changed for the listens that ask for it, and
// reports whether there is one. It does not block.
func (f *changeFeed) update(n *mcp.Notification) bool {
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

// task records the state of a task for the listens that ask for it. It does not block.
// Only the newest state is kept, so that the memory is bounded by the tasks asked for.
func (f *changeFeed) task(n *mcp.Notification) {
	id, ok := n.Params.Text(mcp.FieldTaskID)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if !l.tasks[id] {
			continue
		}
		if l.states == nil {
			l.states = make(map[string]*mcp.Notification)
		}
		l.states[id] = n
		l.wakeLocked()
	}
}

// subscribedLocked returns the subscribed URIs that an update of uri belongs to: uri
// itself and those that contain it by their path. "This might be a sub-resource of the
// one that the client actually subscribed to" (2025-11-25 and 2026-07-28, schema,
// ResourceUpdatedNotificationParams). An update of an unrelated URI belongs to no
// subscription, even if there is only one: it may concern a subscription that was just
// cancelled.
func (f *changeFeed) subscribedLocked(uri string) []string {
	var of []string
	for _, own := range append(parents(uri), uri) {
		if f.uris[own] > 0 {
			of = append(of, own)
		}
	}
	return of
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
	maxSubResources = 1000
	maxUpdate       = 4 << 10
)

func (l *changeListener) noteLocked(uri string, n *mcp.Notification) {
	if len(n.Params.Bytes())+len(n.Params.Beside()) > maxUpdate {
		n = updateOf(uri)
	}
	if l.updated == nil {
		l.updated = make(map[string]*mcp.Notification)
	}
	_, known := l.updated[uri]
	if !known && len(l.updated) >= len(l.uris)+maxSubResources {
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
func (l *changeListener) updateAllLocked() {
	l.order = sorted(l.uris)
	l.updated = make(map[string]*mcp.Notification, len(l.uris))
	for _, uri := range l.order {
		l.updated[uri] = updateOf(uri)
	}
	l.wakeLocked()
}

// invalidate marks everything as changed, after a gap in the notifications.
func (f *changeFeed) invalidate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if l.want != 0 || len(l.uris) > 0 {
			l.lists = l.want
			l.updateAllLocked()
		}
	}
}

func sorted(uris map[string]bool) []string { return slices.Sorted(maps.Keys(uris)) }

func (l *changeListener) wakeLocked() {
	select {
	case l.wake <- struct{}{}:
	default: // already signalled
	}
}

// take returns the changes of a listen and clears them.
func (f *changeFeed) take(l *changeListener) news {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := news{lists: l.lists, announced: l.announced}
	for _, uri := range l.order {
		n.updated = append(n.updated, l.updated[uri])
	}
	for _, id := range slices.Sorted(maps.Keys(l.states)) {
		n.updated = append(n.updated, l.states[id])
	}
	l.lists, l.announced, l.order, l.updated, l.states = 0, 0, nil, nil, nil
	return n
}
