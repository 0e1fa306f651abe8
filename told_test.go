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
	b.g.changes.announce()
	synctest.Wait()
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
