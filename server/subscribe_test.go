// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// resourceHandler is a Handler of listens for resources that the test controls.
type resourceHandler struct {
	mcp.Handler

	serve func(ctx context.Context, l *resourceListen) (*mcp.Result, error) // nil: acknowledge and wait

	mu      sync.Mutex
	listens []*resourceListen
}

// resourceListen is one listen for resources.
type resourceListen struct {
	filter string
	caller mcp.Caller
	cause  error // why it has ended
	ended  bool
}

func newResourceHandler() *resourceHandler {
	l := &resourceHandler{}
	l.Handler = mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		filter := string(req.Params.Raw(mcp.FieldNotifications))
		if req.Method != "subscriptions/listen" || !strings.Contains(filter, "resourceSubscriptions") {
			return tools(nil).Serve(ctx, req, c)
		}
		lo := &resourceListen{filter: filter, caller: c}
		l.mu.Lock()
		l.listens = append(l.listens, lo)
		l.mu.Unlock()
		defer l.recordEnd(ctx, lo)
		if l.serve != nil {
			return l.serve(ctx, lo)
		}
		return lo.acknowledge(ctx)
	})
	return l
}

func (l *resourceHandler) recordEnd(ctx context.Context, lo *resourceListen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lo.ended, lo.cause = true, context.Cause(ctx)
}

// acknowledge acknowledges the filter and waits.
func (lo *resourceListen) acknowledge(ctx context.Context) (*mcp.Result, error) {
	if err := lo.notify(ctx, "subscriptions/acknowledged", `{"notifications":`+lo.filter+`}`); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return result(`{}`)
}

func (lo *resourceListen) notify(ctx context.Context, method, params string) error {
	n, err := mcp.NewNotification("notifications/"+method, []byte(params))
	if err != nil {
		return err
	}
	return lo.caller.Notify(ctx, n)
}

// all returns the filters of the listens so far, with a minus sign before those that have
// ended.
func (l *resourceHandler) all() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, lo := range l.listens {
		uri := strings.Split(lo.filter, `"`)[3]
		if lo.ended {
			uri = "-" + uri
		}
		all = append(all, uri)
	}
	return all
}

func (l *resourceHandler) at(i int) *resourceListen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listens[i]
}

func subscribe(id, uri string) string { return raw(id, "resources/subscribe", `{"uri":"`+uri+`"}`) }

func unsubscribe(id, uri string) string {
	return raw(id, "resources/unsubscribe", `{"uri":"`+uri+`"}`)
}

const emptyOne = `{"jsonrpc":"2.0","id":1,"result":{}}`

func wantListens(t *testing.T, l *resourceHandler, want ...string) {
	t.Helper()
	if got := l.all(); !slices.Equal(got, want) {
		t.Errorf("listens %q, want %q", got, want)
	}
}

// Each resource is one inner listen, however often it is subscribed; its updates are sent
// on the standalone stream, without the metadata of a subscription.
func TestSubscribeIsAnInnerListen(t *testing.T) {
	lib := newResourceHandler()
	bubble(t, lib, server.Config{}, func(s *site) {
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "subscribe", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		equal(t, "again", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		equal(t, "another", s.post(subscribe("1", "x:2"), sess).body, emptyOne)
		wantListens(t, lib, "x:1", "x:2")
		if err := lib.at(0).notify(s.ctx(), "resources/updated", `{"uri":"x:1","x":1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":"s","k":1}}`); err != nil {
			t.Error(err)
		}
		equal(t, "update", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1","x":1.0,"_meta":{"k":1}}}`)
		if err := lib.at(0).notify(s.ctx(), "tools/list_changed", `{}`); err != nil { // not subscribed
			t.Error(err)
		}
		equal(t, "unsubscribe", s.post(unsubscribe("1", "x:1"), sess).body, emptyOne)
		wantListens(t, lib, "-x:1", "x:2")
		equal(t, "again", s.post(unsubscribe("1", "x:1"), sess).body, emptyOne)
		equal(t, "a new one", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		wantListens(t, lib, "-x:1", "x:2", "x:1")
		if err := lib.at(1).notify(s.ctx(), "resources/updated", `{"uri":"x:2"}`); err != nil {
			t.Error(err)
		}
		equal(t, "update", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:2"}}`)
		get.close()
	})
}

// If the Handler acknowledges nothing, the client gets an error, and nothing is left
// behind.
func TestSubscribeRefused(t *testing.T) {
	const noUpdates = `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no updates are available for this resource","data":{"uri":"x:1"}}}`
	for name, tt := range map[string]struct {
		serve func(ctx context.Context, l *resourceListen) (*mcp.Result, error)
		want  string
	}{
		"nothing agreed": {func(ctx context.Context, l *resourceListen) (*mcp.Result, error) {
			l.filter = `{"toolsListChanged":true,"resourceSubscriptions":["x:2"]}`
			return l.acknowledge(ctx)
		}, noUpdates},
		"no word":      {func(context.Context, *resourceListen) (*mcp.Result, error) { return result(`{}`) }, noUpdates},
		"its own word": {func(context.Context, *resourceListen) (*mcp.Result, error) { return nil, mcp.Errorf(-1050, "no") }, wireError("1", "-1050", "no")},
	} {
		t.Run(name, func(t *testing.T) {
			lib := newResourceHandler()
			lib.serve = tt.serve
			bubble(t, lib, server.Config{}, func(s *site) {
				sess := s.session()
				for range 2 {
					equal(t, "subscribe", s.post(subscribe("1", "x:1"), sess).body, tt.want)
				}
				synctest.Wait()
				for i := range 2 {
					if !lib.at(i).ended {
						t.Error("the listen goes on")
					}
				}
				equal(t, "unsubscribe", s.post(unsubscribe("1", "x:1"), sess).body, emptyOne)
			})
		})
	}
}

// A subscription ends with its session, and with the server.
func TestSubscriptionsEndWithTheirSession(t *testing.T) {
	lib := newResourceHandler()
	bubble(t, lib, server.Config{Limits: server.Limits{SessionIdle: time.Hour}}, func(s *site) {
		ended, idle, kept := s.session(), s.session(), s.session()
		for i, sess := range []headers{ended, idle, kept} {
			equal(t, "subscribe", s.post(subscribe("1", "x:"+string(rune('1'+i))), sess).body, emptyOne)
		}
		s.do(s.request(s.ctx(), http.MethodDelete, "", ended))
		wantListens(t, lib, "-x:1", "x:2", "x:3")
		get := s.open(s.ctx(), http.MethodGet, "", kept)
		s.advance(2 * time.Hour)
		wantListens(t, lib, "-x:1", "-x:2", "x:3")
		get.close()
	})
	wantAllEnded(t, lib)
	pipes(t, lib, server.Config{}, func(c *console) {
		c.send(initialize)
		c.next()
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, subscribe("1", "x:4"))
		c.expect(emptyOne)
		synctest.Wait()
		if err := lib.at(3).notify(c.t.Context(), "resources/updated", `{"uri":"x:4"}`); err != nil {
			t.Error(err)
		}
		c.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:4"}}`)
		c.send(unsubscribe("1", "x:4"))
		c.expect(emptyOne)
		c.send(subscribe("1", "x:5"))
		c.expect(emptyOne)
	})
	wantAllEnded(t, lib)
}

func wantAllEnded(t *testing.T, l *resourceHandler) {
	t.Helper()
	for _, lo := range l.listens {
		if !lo.ended {
			t.Errorf("a listen for %s goes on", lo.filter)
		}
	}
}

// A client that cancels its request is not subscribed, unless another of its requests waits
// for the same resource.
func TestSubscribeCancelled(t *testing.T) {
	lib := newResourceHandler()
	var agree chan struct{}
	lib.serve = func(ctx context.Context, l *resourceListen) (*mcp.Result, error) {
		select {
		case <-agree:
			return l.acknowledge(ctx)
		case <-ctx.Done():
			return result(`{}`)
		}
	}
	bubble(t, lib, server.Config{}, func(s *site) {
		agree = make(chan struct{})
		sess := s.session()
		cancel := func(id string) {
			s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, sess)
		}
		s.async(s.request(s.ctx(), http.MethodPost, subscribe("1", "x:1"), sess))
		s.async(s.request(s.ctx(), http.MethodPost, subscribe("2", "x:1"), sess))
		third := s.async(s.request(s.ctx(), http.MethodPost, subscribe("3", "x:2"), sess))
		synctest.Wait()
		if got := lib.all(); len(got) != 2 {
			t.Errorf("listens %q, want one for each resource", got)
		}
		cancel("1")
		synctest.Wait()
		ended := func() (n int) {
			for _, text := range lib.all() {
				if text[0] == '-' {
					n++
				}
			}
			return n
		}
		if n := ended(); n != 0 {
			t.Errorf("%d listens have ended while somebody waits for each", n)
		}
		cancel("2")
		if n := ended(); n != 1 {
			t.Errorf("%d listens have ended, want the one without a waiting request", n)
		}
		// Cancelled by an unsubscribe.
		equal(t, "unsubscribe", s.post(unsubscribe("1", "x:2"), sess).body, emptyOne)
		equal(t, "subscribe", (<-third).body, `{"jsonrpc":"2.0","id":3,"result":{}}`)
		if n := ended(); n != 2 {
			t.Errorf("%d listens have ended, want both", n)
		}
	})
}

// A listen that its Handler ends is retried, and the client is notified of a possible
// change meanwhile.
func TestSubscriptionIsRetried(t *testing.T) {
	lib := newResourceHandler()
	var end chan struct{}
	lib.serve = func(ctx context.Context, l *resourceListen) (*mcp.Result, error) {
		ctx, cancel := context.WithCancel(ctx)
		go func() { // ends with the listen
			select {
			case <-end:
				cancel()
			case <-ctx.Done():
			}
		}()
		defer cancel()
		return l.acknowledge(ctx)
	}
	bubble(t, lib, server.Config{}, func(s *site) {
		end = make(chan struct{})
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "subscribe", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		end <- struct{}{}
		s.advance(time.Minute)
		wantListens(t, lib, "-x:1", "x:1")
		equal(t, "update", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`)
		get.close()
	})
}

// A listen that ends again and again is retried after longer and longer pauses; one that
// has lasted resets them.
func TestSubscriptionRetryBackoff(t *testing.T) {
	lib := newResourceHandler()
	var ends, began chan struct{}
	lib.serve = func(ctx context.Context, l *resourceListen) (*mcp.Result, error) {
		began <- struct{}{}
		if err := l.notify(ctx, "subscriptions/acknowledged", `{"notifications":`+l.filter+`}`); err != nil {
			return nil, err
		}
		select {
		case <-ends:
		case <-ctx.Done():
		}
		return result(`{}`)
	}
	bubble(t, lib, server.Config{}, func(s *site) {
		ends, began = make(chan struct{}), make(chan struct{}, 1)
		equal(t, "subscribe", s.post(subscribe("1", "x:1"), s.session()).body, emptyOne)
		<-began
		for i, step := range []struct{ held, want time.Duration }{
			{0, time.Second}, {0, 2 * time.Second}, {0, 4 * time.Second}, {10 * time.Minute, time.Second}, {0, 2 * time.Second},
		} {
			s.advance(step.held)
			ended := time.Now()
			ends <- struct{}{}
			<-began
			if d := time.Since(ended); d != step.want {
				t.Errorf("%d: begun again after %v, want %v", i, d, step.want)
			}
		}
	})
}

// While the standalone stream is not read, many updates are merged into one for each
// resource; none is kept for a resource that is not subscribed any more.
func TestUpdatesAreMerged(t *testing.T) {
	lib := newResourceHandler()
	bubble(t, lib, server.Config{}, func(s *site) {
		sess := s.session()
		for _, uri := range []string{"x:1", "x:2"} {
			equal(t, "subscribe", s.post(subscribe("1", uri), sess).body, emptyOne)
		}
		for range 1000 {
			for i, uri := range []string{"x:1", "x:2"} {
				if err := lib.at(i).notify(s.ctx(), "resources/updated", `{"uri":"`+uri+`"}`); err != nil {
					t.Fatal(err)
				}
			}
		}
		equal(t, "unsubscribe", s.post(unsubscribe("1", "x:2"), sess).body, emptyOne)
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "update", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`)
		if err := lib.at(0).notify(s.ctx(), "resources/updated", `{"uri":"x:1","n":2}`); err != nil {
			t.Fatal(err)
		}
		equal(t, "update", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1","n":2}}`)
		get.close()
	})
}

// The URI is all that is kept of a subscription; its length is bounded like their number.
func TestSubscribedURIIsBounded(t *testing.T) {
	bubble(t, newResourceHandler(), server.Config{}, func(s *site) {
		sess := s.session()
		long := "x:" + strings.Repeat("y", 16<<10)
		if got := s.post(subscribe("1", long), sess).body; !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, "16384 at most") {
			t.Errorf("got %.300s", got)
		}
		equal(t, "the longest", s.post(subscribe("1", long[:16<<10]), sess).body, emptyOne)
	})
}

// The number of subscriptions of a session is bounded, and exceeding it is an event.
func TestSubscriptionsAreBounded(t *testing.T) {
	lib := newResourceHandler()
	var seen []server.Event
	var mu sync.Mutex
	observe := func(_ context.Context, e server.Event) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, e)
	}
	bubble(t, lib, server.Config{Observe: observe, Limits: server.Limits{Subscriptions: 1}}, func(s *site) {
		sess := s.session()
		equal(t, "subscribe", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		if got := s.post(subscribe("1", "x:2"), sess).body; !strings.Contains(got, "1 resources are subscribed to (limits.subscriptions)") {
			t.Errorf("beyond the bound: %s", got)
		}
		equal(t, "again", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		equal(t, "in another session", s.post(subscribe("1", "x:2"), s.session()).body, emptyOne)
	})
	if len(seen) != 1 || seen[0].Kind != server.Limited || seen[0].Detail != "limits.subscriptions" {
		t.Errorf("events %+v, want that the limit was met", seen)
	}
}

// A Handler that does not return when its context ends blocks nothing: the updates of a
// later subscription to the same resource are not dropped with those of the first. Those of
// the first are, including updates of a part of the resource.
func TestUnsubscribeDropsOwnUpdates(t *testing.T) {
	lib := newResourceHandler()
	var leave chan struct{}
	lib.serve = func(ctx context.Context, l *resourceListen) (*mcp.Result, error) {
		_, err := l.acknowledge(ctx)
		<-leave
		return nil, err
	}
	bubble(t, lib, server.Config{}, func(s *site) {
		leave = make(chan struct{})
		defer close(leave)
		sess := s.session()
		equal(t, "subscribe", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		notify := func(i int, uri string) {
			t.Helper()
			if err := lib.at(i).notify(s.ctx(), "resources/updated", `{"uri":"`+uri+`"}`); err != nil {
				t.Fatal(err)
			}
		}
		notify(0, "x:1")
		notify(0, "x:1/part")
		gone := s.async(s.request(s.ctx(), http.MethodPost, unsubscribe("1", "x:1"), sess))
		synctest.Wait()
		equal(t, "a new one", s.post(subscribe("2", "x:1"), sess).body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		notify(1, "x:1")
		equal(t, "unsubscribe", (<-gone).body, emptyOne)
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "update", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`)
		notify(1, "x:1/other")
		equal(t, "and nothing else before", get.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1/other"}}`)
		get.close()
	})
}
