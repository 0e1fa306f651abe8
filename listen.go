// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/listenfilter"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// changes wakes those who listen when the catalog was replaced. It carries no
// news, only that there may be some: a listener compares what it told last with
// what is true now, so that many changes are one notice and none is missed.
type changes struct {
	mu   sync.Mutex
	ears map[ear]struct{}
}

// ear is somebody who listens. wake never waits, and calls nothing of changes.
type ear interface{ wake() }

// bell is an ear that somebody waits for. It has capacity 1: once is enough.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) wake() {
	select {
	case b <- struct{}{}:
	default: // it has been woken already
	}
}

// add has an ear be woken after each change, until it is removed.
func (c *changes) add(e ear) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ears == nil {
		c.ears = make(map[ear]struct{})
	}
	c.ears[e] = struct{}{}
}

func (c *changes) remove(e ear) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ears, e)
}

// announce wakes all. It never waits.
func (c *changes) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range c.ears {
		e.wake()
	}
}

// filter is what a listener wants to hear (2026-07-28, basic/patterns/
// subscriptions, "Notification Filter"), and what was agreed.
type filter listenfilter.Filter

// filterOf reads the filter of a listen, and bounds it.
func (g *Gateway) filterOf(req *mcp.Request) (filter, error) {
	f, err := listenfilter.Read(&req.Params)
	want := filter(f)
	if err != nil {
		return want, err
	}
	if most := g.view.Load().cfg.Limits.Subscriptions; most >= 0 && len(want.URIs)+len(want.TaskIDs) > most {
		return want, &mcp.Fault{
			Code: mcp.CodeLimit, Outcome: mcp.NotDispatched,
			Message: fmt.Sprintf("%d resources and tasks in one subscription, and %d are allowed (limits.subscriptions)", len(want.URIs)+len(want.TaskIDs), most),
		}
	}
	return want, nil
}

// lists reports whether the filter wants to hear of a list.
func (f filter) lists() bool { return f.Tools || f.Prompts || f.Resources }

// allLists reports whether the filter wants to hear of every list, as sessions do.
func (f filter) allLists() bool { return f.Tools && f.Prompts && f.Resources }

// notices returns the notifications due for the difference of two versions. They
// have no parameters: which items have changed is not the client's to know, and
// what it lists next may be newer still.
func (f filter) notices(d catalog.Changes) []string {
	var due []string
	if f.Tools && d.Tools {
		due = append(due, "notifications/tools/list_changed")
	}
	if f.Prompts && d.Prompts {
		due = append(due, "notifications/prompts/list_changed")
	}
	if f.Resources && d.Resources {
		due = append(due, "notifications/resources/list_changed")
	}
	return due
}

// listen serves subscriptions/listen: the acknowledgement, then a notice for
// each change of the client's view and of the resources and tasks that it named, until
// the context ends.
func (g *Gateway) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	want, err := g.filterOf(req)
	if err != nil {
		return nil, err
	}
	// In this order: a change that comes after the ear is there wakes it, and one that
	// comes before is in the baseline or, for a session, due since its last list.
	changed := newBell()
	g.changes.add(changed)
	defer g.changes.remove(changed)
	of := clientOf(req)
	told := g.baseline(of, want)
	sub := newSubscribed(g, req, caller)
	defer sub.wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	want = sub.begin(ctx, want)
	if err := acknowledge(ctx, caller, want); err != nil {
		return nil, err
	}
	close(sub.open)
	for {
		if err := g.tell(ctx, of, caller, want, told); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return mcp.NewResult([]byte("{}"))
		case <-changed:
		}
		sub.follow(ctx)
	}
}

// tell sends the notices that are due since what was told last. What could not
// be told stays due.
func (g *Gateway) tell(ctx context.Context, of requester, caller mcp.Caller, want filter, told *told) error {
	if !want.lists() {
		return nil // what was told of lists is another listen's to note
	}
	// Before what is told: what changes in between is in the next notice.
	seen := told.look(func() *view { return g.viewFor(of) })
	for _, method := range want.notices(seen.due) {
		if err := caller.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
			return err
		}
	}
	told.set(seen)
	return nil
}

// acknowledge says what was agreed, before anything else is said (2026-07-28,
// basic/patterns/subscriptions, "Acknowledgment"). It is what was asked for of
// what there is: a member that filter does not have, and a resource or task that
// nobody tells of, is not agreed, and so the client knows that it will hear nothing of it.
func acknowledge(ctx context.Context, caller mcp.Caller, agreed filter) error {
	params, err := json.Marshal(map[string]filter{"notifications": agreed})
	if err != nil {
		return err
	}
	n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", params)
	if err != nil {
		return err
	}
	return caller.Notify(ctx, n)
}

// told is the state of the lists that one listener knows of, list by list: what it was told
// last, or what it has listed since. A legacy session is told of the lists alone that it
// has asked for. Its told outlives the stream, so that a change between two GETs is told
// with the second; where that supersedes the first, both may be telling for a moment.
type told struct {
	mu    sync.Mutex
	at    version
	knows [catalog.NumKinds]bool   // the listener has the list, or wants to hear of it in any case
	last  [catalog.NumKinds]uint64 // the look at which the list was seen as in at
	looks uint64                   // how often at was compared or set
}

// dueLocked returns what is to be told to a listener for which now is true.
func (t *told) dueLocked(now version) catalog.Changes {
	known := t.at
	for k := range catalog.NumKinds {
		if !t.knows[k] {
			known.take(k, now)
		}
	}
	return known.diff(now)
}

// behind returns what differs from now.
func (t *told) behind(now version) catalog.Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dueLocked(now)
}

// sight is what a listener will be told.
type sight struct {
	now version
	due catalog.Changes
	nth uint64 // of the looks
}

// look returns what is to be told now. What is true now is read under the lock, so that
// the later of two looks has seen what is as new or newer.
func (t *told) look(current func() *view) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks++
	now := current().version()
	return sight{now, t.dueLocked(now), t.looks}
}

// set notes what has been told. It is called after that has been delivered and not
// before: what a broken stream did not carry stays due for the next one.
//
// A list that another look, or the client itself, has seen since stays as that has seen
// it: if it turned back to what was seen here, the client would not be told.
func (t *told) set(seen sight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range catalog.NumKinds {
		if seen.nth > t.last[k] {
			t.at.take(k, seen.now)
			t.last[k] = seen.nth
		}
	}
}

// list returns the view in which the listener gets a list. A change after it is told: the
// view is read under the lock, and each change wakes the listeners after it is in the
// view, so that they compare with this one.
func (t *told) list(k catalog.Kind, current func() *view) *view {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := current()
	t.looks++
	t.at.take(k, v.version())
	t.knows[k], t.last[k] = true, t.looks
	return v
}

// toldKey is under what a scope keeps what its session was told.
type toldKey struct{}

// baseline returns what a listener was told last: for a session, the lists that it has;
// for a modern listen, all since now. So it is for one of a scope that wants to hear of
// some lists only, because what it leaves out would count as told to the others.
func (g *Gateway) baseline(of requester, want filter) *told {
	if of.Scope == nil || !want.allLists() {
		t := &told{at: g.viewFor(of).version()}
		for k := range t.knows {
			t.knows[k] = true
		}
		return t
	}
	return toldTo(of.Scope)
}

// toldTo returns what a session knows: nothing, when it begins.
func toldTo(scope *mcp.Scope) *told {
	kept, ok := scope.Value(toldKey{}, func() any { return new(told) })
	if t, isTold := kept.(*told); ok && isTold {
		return t
	}
	return new(told) // the session has just ended
}

// listView returns the view from which a list is answered. With its first page a session
// has the list; a later page may be of another view, and changes nothing.
func (g *Gateway) listView(req *mcp.Request, kind catalog.Kind) *view {
	if req.Scope == nil || req.Params.Has(mcp.FieldCursor) {
		return g.viewFor(clientOf(req))
	}
	return toldTo(req.Scope).list(kind, func() *view { return g.viewFor(clientOf(req)) })
}
