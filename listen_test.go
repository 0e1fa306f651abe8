// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// recordingCaller records its notifications. If gate is not nil, each Notify waits for
// it.
type recordingCaller struct {
	received []string
	gate     chan error // the next Notify waits for it and returns its value
}

func (h *recordingCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if h.gate == nil {
		h.received = append(h.received, n.Method)
		return nil
	}
	select {
	case err := <-h.gate:
		if err == nil {
			h.received = append(h.received, n.Method)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *recordingCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, errors.ErrUnsupported
}

func (*recordingCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// watchTest is a listener for the tools of a gateway that does nothing by itself.
type watchTest struct {
	t      *testing.T
	g      *Gateway
	caller *recordingCaller
	cancel context.CancelFunc
	stop   func()
}

const (
	ackNotice  = "notifications/subscriptions/acknowledged"
	toolNotice = "notifications/tools/list_changed"
)

// withListWatch runs f in a bubble with a started listener.
func withListWatch(t *testing.T, f func(*watchTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &watchTest{t: t, g: &Gateway{}, caller: &recordingCaller{}}
		v.g.view.Store(&view{catalog: catalog.Build(nil, catalog.Options{})})
		req, err := mcp.NewRequest("subscriptions/listen", []byte(`{"notifications":{"toolsListChanged":true}}`))
		if err != nil {
			t.Fatal(err)
		}
		v.g.view.Load().cfg = (&config.Config{}).Effective()
		ctx, cancel := context.WithCancel(t.Context())
		v.cancel = cancel
		if v.stop, err = v.g.Watch(ctx, req, v.caller); err != nil {
			t.Fatal(err)
		}
		v.wantReceived(ackNotice)
		f(v)
		cancel()
		v.stop()
		if n := len(v.g.changed.all); n != 0 {
			t.Errorf("%d listeners after the end", n)
		}
		v.change() // no longer sent: otherwise the test would fail for a running goroutine
	})
}

// change replaces the tools and wakes the listeners.
func (v *watchTest) change() {
	old := v.g.view.Load()
	next := *old
	next.announced[catalog.Tools]++
	v.g.view.Store(&next)
	v.g.changed.wakeAll()
}

// wantReceived checks the notifications so far, after all goroutines are idle.
func (v *watchTest) wantReceived(want ...string) {
	v.t.Helper()
	synctest.Wait()
	if !slices.Equal(v.caller.received, want) {
		v.t.Errorf("heard %q, want %q", v.caller.received, want)
	}
}

func TestListWatchNotifiesOfEachChange(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.g.changed.wakeAll() // without a change
		v.wantReceived(ackNotice)
		v.change()
		v.wantReceived(ackNotice, toolNotice)
		v.change()
		v.wantReceived(ackNotice, toolNotice, toolNotice)
	})
}

// Many changes while a client is slow become one notification afterwards, and need one
// goroutine (I33).
func TestListWatchOfASlowClient(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.caller.gate = make(chan error)
		v.change()
		synctest.Wait()
		for range 5 {
			v.change()
		}
		v.wantReceived(ackNotice)
		v.caller.gate <- nil
		v.wantReceived(ackNotice, toolNotice)
		v.caller.gate <- nil
		v.wantReceived(ackNotice, toolNotice, toolNotice)
		select {
		case v.caller.gate <- nil:
			t.Error("a third notice of two")
		default:
		}
	})
}

// A notification that could not be sent stays due until the next change.
func TestListWatchAfterAFailure(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.caller.gate = make(chan error)
		v.change()
		v.caller.gate <- mcp.ErrRequestEnded
		v.wantReceived(ackNotice)
		v.g.changed.wakeAll() // without a change, but one is still due
		v.caller.gate <- nil
		v.wantReceived(ackNotice, toolNotice)
	})
}

// stop returns after the last goroutine has ended.
func TestStopOfAListWatchThatSends(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.caller.gate = make(chan error)
		v.change()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { v.stop(); close(stopped) }() // ends when the notification has
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stopped while a notification is being sent")
		default:
		}
		v.cancel()
		<-stopped
		v.wantReceived(ackNotice)
	})
}

// A listen that fails to start leaves nothing behind.
func TestListWatchThatFailsToStart(t *testing.T) {
	g := &Gateway{}
	g.view.Store(&view{catalog: catalog.Build(nil, catalog.Options{}), cfg: (&config.Config{}).Effective()})
	for params, want := range map[string]error{
		`{"notifications":{"toolsListChanged":true}}`:                 context.Canceled,
		`{"notifications":{"resourceSubscriptions":["x:y"]}}`:         errors.ErrUnsupported,
		`{"notifications":{"toolsListChanged":true,"taskIds":["x"]}}`: errors.ErrUnsupported,
	} {
		req, err := mcp.NewRequest("subscriptions/listen", []byte(params))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stop, err := g.Watch(ctx, req, &recordingCaller{gate: make(chan error)})
		if stop != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", params, err, want)
		}
		if n := len(g.changed.all); n != 0 {
			t.Errorf("%s: %d listeners are left", params, n)
		}
	}
}

const (
	everyList    = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`
	promptNotice = "notifications/prompts/list_changed"

	listTools   = "tools/list"
	listPrompts = "prompts/list"
)

// listsTest is a gateway with lists that the test sets.
type listsTest struct {
	*testing.T
	g *Gateway
}

// withListsTest runs f in a bubble with a listsTest of one tool and one prompt, both
// number 1.
func withListsTest(t *testing.T, f func(b listsTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := listsTest{t, &Gateway{}}
		b.g.view.Store(&view{cfg: (&config.Config{}).Effective()})
		b.setLists(1, 1)
		f(b)
	})
}

// setLists makes the gateway offer the tool and the prompt of these numbers, and wakes
// the listeners. The same number is the same item.
func (b listsTest) setLists(tool, prompt int) {
	var lists [catalog.NumKinds]catalog.List
	lists[catalog.Tools].Items = []json.RawMessage{fmt.Appendf(nil, `{"name":"t%d","inputSchema":{"type":"object"}}`, tool)}
	lists[catalog.Prompts].Items = []json.RawMessage{fmt.Appendf(nil, `{"name":"p%d"}`, prompt)}
	next := *b.g.view.Load()
	next.catalog = catalog.Build([]catalog.Backend{{Name: "b", State: catalog.Live, Lists: lists}}, catalog.Options{})
	b.g.view.Store(&next)
	b.g.changed.wakeAll()
	synctest.Wait()
}

// lists makes a session request lists.
func (b listsTest) lists(scope *mcp.Scope, methods ...string) {
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

// listen returns a started listener, and a function that ends it. The scope may be nil.
func (b listsTest) listen(scope *mcp.Scope, filter string) (h *recordingCaller, end func()) {
	b.Helper()
	req, err := mcp.NewRequest("subscriptions/listen", []byte(`{"notifications":{`+filter+`}}`))
	if err != nil {
		b.Fatal(err)
	}
	req.Scope = scope
	h = &recordingCaller{}
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

// wantNotified checks the notifications of a listener after the acknowledgement.
func (b listsTest) wantNotified(who string, h *recordingCaller, want ...string) {
	b.Helper()
	synctest.Wait()
	if got := h.received[1:]; h.received[0] != ackNotice || !slices.Equal(got, want) {
		b.Errorf("%s heard %q, want %q", who, h.received, want)
	}
}

// I12, I33: if one GET of a session supersedes another, both notify of changes for a
// moment. The older one, slow to send a change, does not undo what the newer one has
// sent since: if the lists return to their state at that change, this is notified.
func TestSupersededListenTakesNothingBack(t *testing.T) {
	withListsTest(t, func(b listsTest) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools, listPrompts)
		older, endOlder := b.listen(scope, everyList)
		older.gate = make(chan error)
		b.setLists(2, 1) // which the older one is about to send
		newer, endNewer := b.listen(scope, everyList)
		defer endNewer()
		b.setLists(3, 1)
		b.wantNotified("the newer one", newer, toolNotice, toolNotice)
		older.gate <- nil
		endOlder()
		b.wantNotified("the older one", older, toolNotice)
		b.setLists(2, 1)
		b.wantNotified("the newer one", newer, toolNotice, toolNotice, toolNotice)
	})
}

// What a superseded listen could not send any more, the next one sends.
func TestSupersededListenLeavesWhatItCouldNotTell(t *testing.T) {
	withListsTest(t, func(b listsTest) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools, listPrompts)
		older, endOlder := b.listen(scope, everyList)
		older.gate = make(chan error)
		b.setLists(2, 1)
		endOlder()
		b.wantNotified("the older one", older)
		b.setLists(2, 2)
		newer, endNewer := b.listen(scope, everyList)
		defer endNewer()
		b.wantNotified("the newer one", newer, toolNotice, promptNotice)
	})
}

// A listen is notified of what it requested, and does not mark changes as sent for
// others: neither a modern one, which has no scope, nor one for some lists in a scope
// with another for all (2026-07-28, basic/patterns/subscriptions, "Multiple Concurrent
// Subscriptions").
func TestListensBesideEachOther(t *testing.T) {
	withListsTest(t, func(b listsTest) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools, listPrompts)
		listen := func(scope *mcp.Scope, filter string) *recordingCaller {
			h, end := b.listen(scope, filter)
			b.Cleanup(end)
			return h
		}
		_, end := b.listen(scope, everyList)
		end()
		modern := listen(nil, `"toolsListChanged":true`)
		other := listen(nil, `"promptsListChanged":true`)
		some := listen(scope, `"toolsListChanged":true`)
		b.setLists(1, 2)
		b.setLists(2, 2)
		b.wantNotified("a listen for tools", modern, toolNotice)
		b.wantNotified("one for prompts", other, promptNotice)
		b.wantNotified("one for tools in a scope", some, toolNotice)
		all := listen(scope, everyList)
		b.wantNotified("one for all in that scope, which was away", all, toolNotice, promptNotice)
	})
}

// I33: in whatever order a session lists, opens and closes its stream, and lists
// change, it is notified of a list that it has and that has changed since, and of
// nothing else. After the last event a listener has been notified of all that differs
// from what it has.
func TestNotificationsMatchSeenLists(t *testing.T) {
	const steps, length = "tpTPlu", 5 // list tools, list prompts; they change; listen, unlisten
	var walk func(b listsTest, order string)
	walk = func(b listsTest, order string) {
		if len(order) == length {
			runOrder(b, order)
			return
		}
		for _, step := range steps {
			walk(b, order+string(step))
		}
	}
	for _, first := range steps {
		t.Run(string(first), func(t *testing.T) {
			withListsTest(t, func(b listsTest) { walk(b, string(first)) })
		})
	}
}

// runOrder runs one order. A plain model of the session's lists gives the expectation.
func runOrder(b listsTest, order string) {
	type list struct{ is, has int } // has is 0 before the session has listed or was notified
	tools, prompts := list{is: 1}, list{is: 1}
	b.setLists(1, 1)
	scope := mcp.NewScope("s", nil)
	defer scope.End()
	var h *recordingCaller
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
			b.setLists(tools.is, prompts.is)
		case 'P':
			prompts.is++
			b.setLists(tools.is, prompts.is)
		case 'l':
			end()
			h, end = b.listen(scope, everyList)
			h.received = h.received[1:]
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
			got, h.received = h.received, nil
		}
		if !slices.Equal(got, want) {
			b.Fatalf("%s: after step %d heard %q, want %q", order, i+1, got, want)
		}
	}
}

// I33: a change during a list is notified, whether the list is from before or after it;
// a slow notification of an older state undoes nothing.
func TestChangeBesideAList(t *testing.T) {
	withListsTest(t, func(b listsTest) {
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		b.lists(scope, listTools)
		h, end := b.listen(scope, everyList)
		defer end()
		h.gate = make(chan error)
		b.setLists(2, 1) // the notification is being sent
		b.setLists(3, 1)
		b.lists(scope, listTools) // of the third
		h.gate <- nil
		b.wantNotified("one that has listed since", h, toolNotice)
		select {
		case h.gate <- nil:
			b.Error("it is notified of what it has")
		default:
		}
		b.setLists(2, 1)
		h.gate <- nil
		b.wantNotified("when it is as first notified", h, toolNotice, toolNotice)
	})
}
