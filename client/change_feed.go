// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/listenfilter"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// changes is a set of lists that have changed: a level, not a count. However
// often a list changes before somebody looks, it is fetched once; and because a
// mark stays until it is taken, what changes during the fetch is seen after it.
type changes uint8

const (
	changedTools changes = 1 << iota
	changedPrompts
	changedResources
)

// notices returns the methods that tell of the changes, in a fixed order.
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

// filter is what a listen wants to hear of (2026-07-28, basic/patterns/subscriptions).
type filter listenfilter.Filter

func parseFilter(params *mcp.Object) (filter, error) {
	f, err := listenfilter.Read(params)
	return filter(f), err
}

// lists returns the lists that the filter names; URIs are not lists, and a legacy
// server has to be asked for each of them by another request.
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

// with returns the filter that asks for the lists of c and for the URIs of f.
func (f filter) with(c changes) filter {
	lists := c.filter()
	lists.URIs = f.URIs
	return lists
}

// common returns what both filters ask for, the URIs and tasks in the order of f.
func (f filter) common(o filter) filter {
	both := (f.lists() & o.lists()).filter()
	both.URIs, both.TaskIDs = intersect(f.URIs, o.URIs), intersect(f.TaskIDs, o.TaskIDs)
	return both
}

// covers reports whether the filter asks for all lists and URIs of o. A task that has
// ended is nothing that anybody will tell of again.
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

// filter makes a filter of lists alone: it is what a legacy session is said to have
// acknowledged, which is what it declared and not what was asked for.
func (c changes) filter() filter {
	return filter{Tools: c&changedTools != 0, Prompts: c&changedPrompts != 0, Resources: c&changedResources != 0}
}

// acknowledge tells a listen's caller what it will hear of.
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

// acknowledged reads an acknowledgement. One that says nothing agrees to what was
// asked for.
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

// news is what a listen has not been told yet.
type news struct {
	lists     changes
	announced changes             // of lists, those that the server has told of; the rest is presumed
	updated   []*mcp.Notification // of resources, in the order in which they changed first, and of tasks
}

// tell tells a listen's caller of the news.
func (n news) notify(ctx context.Context, sink mcp.Caller) error {
	said := n.announced.notices()
	for _, method := range n.lists.notices() {
		n := &mcp.Notification{Method: method, Synthetic: !slices.Contains(said, method)}
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

// updateOf is the notice that a resource has changed, in our own words.
func updateOf(uri string) *mcp.Notification {
	n, err := mcp.NewNotification(methodUpdated, append(mcp.AppendString([]byte(`{"uri":`), uri), '}'))
	if err != nil {
		panic("client: a notice with one string does not parse: " + err.Error()) //nolint:forbidigo // AppendString writes valid JSON, whatever the text
	}
	return n
}

// changeFeed tells the listens of one session of its changes. The zero value is ready.
// It holds no queue, so that a slow listener costs no memory, and a stream that
// announces changes without end cannot fill anything.
type changeFeed struct {
	mu        sync.Mutex
	listeners map[*changeListener]struct{}
	uris      map[string]int // how many of out ask for each
}

// changeListener is one listen: what changed since it last looked.
type changeListener struct {
	want changes
	wake chan struct{} // capacity 1

	// Below: guarded by feed.mu.
	uris      map[string]bool
	tasks     map[string]bool
	lists     changes
	announced changes                      // of lists
	updated   map[string]*mcp.Notification // by URI, the newest of each
	order     []string                     // of updated
	states    map[string]*mcp.Notification // by task, the newest of each
}

// add registers a listen. It is done before the listen is acknowledged: what
// changes in between is told, rather than lost in a gap that nobody knows of.
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

// keep leaves the listen those resources and tasks that were agreed on.
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

// mark notes that lists have changed. It waits for nobody.
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

// update notes that a resource has changed, for those listens whom it concerns,
// and reports whether there is one. It waits for nobody.
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

// task notes the state of a task, for those listens that ask for it. It waits for
// nobody. What waits for a listener is the newest state alone, as a resource's is: it
// is bounded by the tasks that were asked for.
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

// subscribedLocked returns the URIs that an update of uri belongs to: itself, and
// those that it shows to be a part of. "This might be a sub-resource of the one that
// the client actually subscribed to" (2025-11-25 and 2026-07-28, schema,
// ResourceUpdatedNotificationParams). One that shows nothing is nobody's, even where
// there is one subscription alone: it may be of one that was just given up.
func (f *changeFeed) subscribedLocked(uri string) []string {
	var of []string
	for _, own := range append(parents(uri), uri) {
		if f.uris[own] > 0 {
			of = append(of, own)
		}
	}
	return of
}

// parents returns the URIs of which this one shows that it is a part: they end
// where it has a slash, a query or a fragment.
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

// Bounds of what is kept for a listener that does not look: above the resources
// that it has asked for, so many others; and of each no more than so many bytes.
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

// updateAllLocked has all resources that the listen asks for count as changed.
func (l *changeListener) updateAllLocked() {
	l.order = sorted(l.uris)
	l.updated = make(map[string]*mcp.Notification, len(l.uris))
	for _, uri := range l.order {
		l.updated[uri] = updateOf(uri)
	}
	l.wakeLocked()
}

// invalidate has everything count as changed that was not heard of in a gap.
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
	default: // it will look
	}
}

// take returns what has changed for a listen, and forgets it.
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
