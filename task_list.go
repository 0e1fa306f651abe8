// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of the tasks remembered for tasks/list. The oldest are dropped first. The
// time to live that a backend declares is ignored: a task is listed as long as its
// backend returns its state.
const (
	maxListedTasks  = 500 // of one owner
	listedTTL       = 24 * time.Hour
	sweepInterval   = time.Hour
	listPageSize    = 50
	listConcurrency = 8 // states that are fetched concurrently
)

// taskRegistry records which tasks were started through this gateway, and for which
// owner. A list from a backend may contain the tasks of all clients with the same
// credential, and does not show their owners. So only tasks that were started through
// this gateway are listed, each to its owner. The zero value is ready.
type taskRegistry struct {
	mu      sync.Mutex
	byOwner map[any][]listedTask
	serial  uint64
	swept   time.Time // when the principals without tasks were last dropped
}

// listedTask is one task. The tasks of an owner are ordered oldest first.
type listedTask struct {
	serial  uint64
	name    string
	tool    string // that has started it, as the backend calls it
	profile string // to which it is listed
	until   time.Time
}

// ownerOf returns the owner of the tasks of a request: its principal, or its session if
// all clients are one principal. It returns nil for a request that has neither; such a
// client cannot list tasks.
func ownerOf(req *mcp.Request) any {
	switch {
	case req.Principal != "":
		return req.Principal
	case req.Scope != nil:
		return req.Scope
	default:
		return nil
	}
}

// add records a task that a request started.
func (r *taskRegistry) add(req *mcp.Request, tool *catalog.Entry, t *task.Task) {
	owner := ownerOf(req)
	if owner == nil {
		return
	}
	first := r.record(owner, listedTask{name: t.ID, tool: strings.Clone(tool.Own), profile: req.Profile}, time.Now())
	if scope, ok := owner.(*mcp.Scope); ok && first && !scope.OnEnd(func() { r.forget(scope) }) {
		r.forget(scope)
	}
}

func (r *taskRegistry) record(owner any, t listedTask, now time.Time) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byOwner == nil {
		r.byOwner = make(map[any][]listedTask)
	}
	r.serial++
	t.serial, t.until = r.serial, now.Add(listedTTL)
	if now.Sub(r.swept) >= sweepInterval {
		r.sweepLocked(now)
	}
	_, known := r.byOwner[owner]
	all := append(dropExpired(r.byOwner[owner], now), t)
	r.byOwner[owner] = all[max(0, len(all)-maxListedTasks):]
	return !known
}

// sweepLocked drops the tasks that have expired, and the principals without others. A session stays
// until it ends.
func (r *taskRegistry) sweepLocked(now time.Time) {
	r.swept = now
	for owner, all := range r.byOwner {
		all = dropExpired(all, now)
		if _, isSession := owner.(*mcp.Scope); len(all) > 0 || isSession {
			r.byOwner[owner] = all
		} else {
			delete(r.byOwner, owner)
		}
	}
}

// toolOf returns the tool that has started a task, as its backend calls it, if that is known.
func (r *taskRegistry) toolOf(owner any, name string) (own string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.byOwner[owner], func(t listedTask) bool { return t.name == name })
	if i < 0 {
		return "", false
	}
	return r.byOwner[owner][i].tool, true
}

// toolAt returns the tool that a backend calls own. The name that clients have for it may be that of
// another tool after a reload.
func toolAt(c *catalog.Catalog, backend, own string) (*catalog.Entry, bool) {
	for e := range c.Entries(catalog.Tools) {
		if e.Own == own && e.BackendName == backend {
			return e, true
		}
	}
	return nil, false
}

// dropExpired removes the expired tasks.
func dropExpired(all []listedTask, now time.Time) []listedTask {
	return slices.DeleteFunc(all, func(t listedTask) bool { return !t.until.After(now) })
}

func (r *taskRegistry) forget(owner any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byOwner, owner)
}

// remove removes one task, which its backend no longer knows.
func (r *taskRegistry) remove(owner any, serial uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all, ok := r.byOwner[owner]; ok { // else the session has ended meanwhile
		r.byOwner[owner] = slices.DeleteFunc(all, func(t listedTask) bool { return t.serial == serial })
	}
}

// page returns the tasks of a profile after a serial number, and whether there are more.
func (r *taskRegistry) page(owner any, profile string, after uint64, now time.Time) (page []listedTask, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byOwner[owner]; !ok {
		return nil, false
	}
	all := dropExpired(r.byOwner[owner], now)
	r.byOwner[owner] = all
	for _, t := range all {
		if t.serial <= after || t.profile != profile {
			continue
		}
		if len(page) == listPageSize {
			return page, true
		}
		page = append(page, t)
	}
	return page, false
}

// listTasks serves tasks/list, which only 2025-11-25 has. The state of each task comes
// from its backend. A task with a backend that does not answer now, or that the client may
// not use now, is left out, and listed again later.
func (g *Gateway) listTasks(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	owner, after := ownerOf(req), uint64(0)
	if req.Params.Has(mcp.FieldCursor) {
		text, _ := req.Params.Text(mcp.FieldCursor)
		var err error
		if after, err = strconv.ParseUint(text, 36, 64); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "tasks/list: unknown cursor")
		}
	}
	var page []listedTask
	more := false
	if owner != nil {
		page, more = g.taskRegistry.page(owner, req.Profile, after, time.Now())
	}
	out := append([]byte(`{"tasks":[`), g.taskStates(ctx, req, caller, owner, page)...)
	out = append(out, ']')
	if more {
		out = jsonscan.AppendString(append(out, `,"nextCursor":`...), strconv.FormatUint(page[len(page)-1].serial, 36))
	}
	return mcp.NewResult(append(out, '}'))
}

// taskStates returns the current states of the tasks of a page, separated by commas.
func (g *Gateway) taskStates(ctx context.Context, req *mcp.Request, caller mcp.Caller, owner any, page []listedTask) []byte {
	states := make([][]byte, len(page))
	var looking sync.WaitGroup
	sem := make(chan struct{}, listConcurrency)
	for i, t := range page {
		sem <- struct{}{}
		// Ends with the answer of the backend, which has a deadline; waited for below.
		looking.Go(func() {
			defer func() { <-sem }()
			states[i] = g.taskState(ctx, req, caller, owner, t)
		})
	}
	looking.Wait()
	var out []byte
	for _, state := range states {
		if len(state) > 0 && len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, state...)
	}
	return out
}

func (g *Gateway) taskState(ctx context.Context, req *mcp.Request, caller mcp.Caller, owner any, t listedTask) []byte {
	params, err := mcp.ParseObject(relatedTask(t.name))
	if err != nil {
		return nil
	}
	get := *req
	get.Method, get.Params = "tasks/get", params
	b, own, ok := g.findTask(ctx, &get, t.name)
	if !ok {
		return nil
	}
	res, err := g.serveTask(ctx, &get, caller, b, own, t.name)
	if errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}) {
		g.taskRegistry.remove(owner, t.serial)
		return nil
	}
	if err != nil || res == nil {
		return nil
	}
	raw, err := task.ToTask(res.Bytes())
	if err != nil {
		return nil
	}
	return raw
}
