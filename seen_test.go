// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	everyList    = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`
	promptNotice = "notifications/prompts/list_changed"

	listTools   = "tools/list"
	listPrompts = "prompts/list"
)

// board is a gateway with lists that the test writes.
type board struct {
	*testing.T
	g *Gateway
}

// inBoard runs f in a bubble with a board of one tool and one prompt, both the first.
func inBoard(t *testing.T, f func(b board)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := board{t, &Gateway{}}
		b.g.view.Store(&view{cfg: (&Config{}).Effective()})
		b.shows(1, 1)
		f(b)
	})
}

// shows has the gateway offer the tool and the prompt of these numbers, and says so.
// One that was there before is the same as then.
func (b board) shows(tool, prompt int) {
	var lists [catalog.NumKinds]catalog.List
	lists[catalog.Tools].Items = []json.RawMessage{fmt.Appendf(nil, `{"name":"t%d","inputSchema":{"type":"object"}}`, tool)}
	lists[catalog.Prompts].Items = []json.RawMessage{fmt.Appendf(nil, `{"name":"p%d"}`, prompt)}
	next := *b.g.view.Load()
	next.catalog = catalog.Build([]catalog.Backend{{Name: "b", State: catalog.Live, Lists: lists}}, catalog.Options{})
	b.g.view.Store(&next)
	b.g.changed.wakeAll()
	synctest.Wait()
}

// lists has a session get lists.
func (b board) lists(scope *mcp.Scope, methods ...string) {
	b.Helper()
	for _, method := range methods {
		req, err := mcp.NewRequest(method, nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Scope = scope
		kind, _ := catalog.KindOf(method)
		if _, err := b.g.listNow(req, kind); err != nil {
			b.Fatal(err)
		}
	}
}

// listens returns a listener that has begun, which goes with the returned function. It
// is one of the scope, or of none.
func (b board) listens(scope *mcp.Scope, filter string) (h *hearer, end func()) {
	b.Helper()
	req, err := mcp.NewRequest("subscriptions/listen", []byte(`{"notifications":{`+filter+`}}`))
	if err != nil {
		b.Fatal(err)
	}
	req.Scope = scope
	h = &hearer{}
	ctx, cancel := context.WithCancel(b.Context())
	stop, err := b.g.Watch(ctx, req, h)
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
	return h, func() {
		cancel()
		stop()
	}
}

// heard checks what a listener was told after the acknowledgement.
func (b board) heard(who string, h *hearer, want ...string) {
	b.Helper()
	synctest.Wait()
	if got := h.heard[1:]; h.heard[0] != ackNotice || !slices.Equal(got, want) {
		b.Errorf("%s heard %q, want %q", who, h.heard, want)
	}
}

// I12, I33: where one GET of a session supersedes another both tell of changes for a
// moment. The older one, which has been slow to tell of a change, does not take back that
// the newer one has told of what came after it: when the lists are again what they were
// at that change, that is told.
func TestSupersededListenTakesNothingBack(t *testing.T) {
	inBoard(t, func(b board) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools, listPrompts)
		older, endOlder := b.listens(scope, everyList)
		older.gate = make(chan error)
		b.shows(2, 1) // which the older one is about to tell of
		newer, endNewer := b.listens(scope, everyList)
		defer endNewer()
		b.shows(3, 1)
		b.heard("the newer one", newer, toolNotice, toolNotice)
		older.gate <- nil
		endOlder()
		b.heard("the older one", older, toolNotice)
		b.shows(2, 1)
		b.heard("the newer one", newer, toolNotice, toolNotice, toolNotice)
	})
}

// What a superseded listen could not tell any more, the next one does.
func TestSupersededListenLeavesWhatItCouldNotTell(t *testing.T) {
	inBoard(t, func(b board) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools, listPrompts)
		older, endOlder := b.listens(scope, everyList)
		older.gate = make(chan error)
		b.shows(2, 1)
		endOlder()
		b.heard("the older one", older)
		b.shows(2, 2)
		newer, endNewer := b.listens(scope, everyList)
		defer endNewer()
		b.heard("the newer one", newer, toolNotice, promptNotice)
	})
}

// A listen is told what it has asked for, and has nothing told to others: neither does a
// modern one, which has no scope, nor one of some lists in a scope beside that of all
// (2026-07-28, basic/patterns/subscriptions, "Multiple Concurrent Subscriptions").
func TestListensBesideEachOther(t *testing.T) {
	inBoard(t, func(b board) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools, listPrompts)
		hear := func(scope *mcp.Scope, filter string) *hearer {
			h, end := b.listens(scope, filter)
			b.Cleanup(end)
			return h
		}
		_, end := b.listens(scope, everyList)
		end()
		modern := hear(nil, `"toolsListChanged":true`)
		other := hear(nil, `"promptsListChanged":true`)
		some := hear(scope, `"toolsListChanged":true`)
		b.shows(1, 2)
		b.shows(2, 2)
		b.heard("a listen for tools", modern, toolNotice)
		b.heard("one for prompts", other, promptNotice)
		b.heard("one for tools in a scope", some, toolNotice)
		all := hear(scope, everyList)
		b.heard("one for all in that scope, which was away", all, toolNotice, promptNotice)
	})
}

// I33: in whatever order a session lists, opens and closes its stream, and lists change,
// it is told of a list that it has and that has changed since, and of nothing else. After
// the last event a listener has been told of all that differs from what it has.
func TestToldOfNothingElse(t *testing.T) {
	const steps, length = "tpTPlu", 5 // list tools, list prompts; they change; listen, unlisten
	var walk func(b board, order string)
	walk = func(b board, order string) {
		if len(order) == length {
			toldIn(b, order)
			return
		}
		for _, step := range steps {
			walk(b, order+string(step))
		}
	}
	for _, first := range steps {
		t.Run(string(first), func(t *testing.T) {
			inBoard(t, func(b board) { walk(b, string(first)) })
		})
	}
}

// toldIn takes one order. What the session has is kept beside, as plainly as can be.
func toldIn(b board, order string) {
	type list struct{ is, has int } // has is 0 before the session has listed, or was told
	tools, prompts := list{is: 1}, list{is: 1}
	b.shows(1, 1)
	scope := mcp.NewScope("s", nil)
	defer scope.End()
	var h *hearer
	end := func() {}
	defer func() { end() }()
	for i, step := range order {
		var want []string
		switch step {
		case 't':
			b.lists(scope, listTools)
			tools.has = tools.is
		case 'p':
			b.lists(scope, listPrompts)
			prompts.has = prompts.is
		case 'T':
			tools.is++
			b.shows(tools.is, prompts.is)
		case 'P':
			prompts.is++
			b.shows(tools.is, prompts.is)
		case 'l':
			end()
			h, end = b.listens(scope, everyList)
			h.heard = h.heard[1:]
		case 'u':
			end()
			h, end = nil, func() {}
		}
		if h != nil {
			for _, l := range []struct {
				*list
				notice string
			}{{&tools, toolNotice}, {&prompts, promptNotice}} {
				if l.has != 0 && l.has != l.is {
					want = append(want, l.notice)
					l.has = l.is
				}
			}
		}
		var got []string
		if h != nil {
			got, h.heard = h.heard, nil
		}
		if !slices.Equal(got, want) {
			b.Fatalf("%s: after step %d heard %q, want %q", order, i+1, got, want)
		}
	}
}

// I33: a change that comes while a list is on its way is told, whether the list is of
// before it or after it; a slow notice of what is older takes nothing back.
func TestChangeBesideAList(t *testing.T) {
	inBoard(t, func(b board) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools)
		h, end := b.listens(scope, everyList)
		defer end()
		h.gate = make(chan error)
		b.shows(2, 1) // the notice is on its way
		b.shows(3, 1)
		b.lists(scope, listTools) // of the third
		h.gate <- nil
		b.heard("one that has listed since", h, toolNotice)
		select {
		case h.gate <- nil:
			b.Error("it is told of what it has")
		default:
		}
		b.shows(2, 1)
		h.gate <- nil
		b.heard("when it is as it was told first", h, toolNotice, toolNotice)
	})
}
