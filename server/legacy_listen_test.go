// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// A client that resumes its standalone stream trusts that it receives what it has missed.
// As no Handler has listened meanwhile, anything may have changed, and the client is
// notified of all changes. A client that opens a new stream knows that it has missed
// something (I33).
func TestChangesWhileDisconnected(t *testing.T) {
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method != "subscriptions/listen" {
			return tools(nil).Serve(ctx, req, c)
		}
		n := note(t, "notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true}}`)
		if err := c.Notify(ctx, n); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return result(`{}`)
	})
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	bubble(t, h, server.Config{StreamLife: time.Second}, func(s *site) {
		sess := s.session()
		began := s.do(s.request(s.ctx(), http.MethodGet, "", sess)) // ends with its lifetime
		if got := began.events(t); len(got) != 0 {
			t.Errorf("the new stream received %q, want nothing", got)
		}
		_, id, ok := strings.Cut(began.body, "id: ")
		id, _, _ = strings.Cut(id, "\n")
		if !ok {
			t.Fatalf("no event id in %q", began.body)
		}
		again := s.do(s.request(s.ctx(), http.MethodGet, "", sess, headers{"Last-Event-ID": id}))
		if got := again.events(t); len(got) != 1 || got[0] != changed {
			t.Errorf("the resumed stream received %q, want %s", got, changed)
		}
	})
}

// What a client missed on its standalone stream may have been dropped for lack of room.
// Resuming is refused then, and the new stream notifies the client that everything may have
// changed, including the resources that it is subscribed to, once (DELIVERY 5.2).
func TestDroppedChanges(t *testing.T) {
	for _, remembers := range []bool{false, true} {
		lib := newResourceHandler()
		h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			if !strings.Contains(string(req.Params.Raw(mcp.FieldNotifications)), "toolsListChanged") {
				return lib.Serve(ctx, req, c)
			}
			return (&resourceListen{filter: `{"toolsListChanged":true}`, caller: c}).acknowledge(ctx)
		})
		bubble(t, h, server.Config{Remembers: remembers, Limits: server.Limits{EventLog: 2 << 10}}, func(s *site) {
			sess := s.session()
			for _, uri := range []string{"x:1", "x:2"} {
				equal(t, "subscribe", s.post(subscribe("1", uri), sess).body, emptyOne)
			}
			wantListens(t, lib, "x:1", "x:2")
			update := func(i int) {
				if err := lib.at(i).notify(s.ctx(), "resources/updated", fmt.Sprintf(`{"uri":"x:%d"}`, i+1)); err != nil {
					t.Error(err)
				}
			}
			updateOf := func(uri string) string {
				return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
			}
			st := s.open(s.ctx(), http.MethodGet, "", sess)
			before := ""
			for range 40 { // more than there is room for
				update(0)
				equal(t, "update", st.next(), updateOf("x:1"))
				before = cmp.Or(before, st.last)
			}
			s.dropConnection(st)
			if got := s.resumeRefused(sess, before); got.status != 400 {
				t.Fatalf("coming back for what was given up: %d %s; want 400", got.status, got.body)
			}
			fresh := s.open(s.ctx(), http.MethodGet, "", sess)
			all := map[string]int{}
			for range 3 {
				all[fresh.next()]++
			}
			for _, want := range []string{updateOf("x:1"), updateOf("x:2"), `{"jsonrpc":"2.0","method":"` + toolsChanged + `"}`} {
				if all[want] != 1 {
					t.Errorf("received %v; want %s among it, once", all, want)
				}
			}
			s.dropConnection(fresh)
			another := s.open(s.ctx(), http.MethodGet, "", sess)
			s.advance(time.Second)
			update(0)
			equal(t, "the next one", another.next(), updateOf("x:1"))
			s.dropConnection(another)
		})
	}
}

// A client that disconnects before the Handler has acknowledged the listen has received no
// changes: the next stream sends what was missed, of lists and of resources.
func TestMissedChangesUntilSent(t *testing.T) {
	lib := newResourceHandler()
	var agree chan struct{}
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if !strings.Contains(string(req.Params.Raw(mcp.FieldNotifications)), "toolsListChanged") {
			return lib.Serve(ctx, req, c)
		}
		select {
		case <-agree:
			return (&resourceListen{filter: `{"toolsListChanged":true}`, caller: c}).acknowledge(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	bubble(t, h, server.Config{Remembers: true, Limits: server.Limits{EventLog: 2 << 10}}, func(s *site) {
		agree = make(chan struct{})
		sess := s.session()
		equal(t, "subscribe", s.post(subscribe("1", "x:1"), sess).body, emptyOne)
		const updateOf = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		before := ""
		for range 40 { // more than there is room for
			if err := lib.at(0).notify(s.ctx(), "resources/updated", `{"uri":"x:1"}`); err != nil {
				t.Error(err)
			}
			equal(t, "update", st.next(), updateOf)
			before = cmp.Or(before, st.last)
		}
		s.dropConnection(st)
		if got := s.resumeRefused(sess, before); got.status != 400 {
			t.Fatalf("coming back for what was given up: %d %s; want 400", got.status, got.body)
		}
		for range 2 {
			early := s.open(s.ctx(), http.MethodGet, "", sess)
			equal(t, "the resource", early.next(), updateOf)
			s.dropConnection(early)
		}
		close(agree)
		next := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "the resource", next.next(), updateOf)
		equal(t, "the list", next.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		s.dropConnection(next)
		another := s.open(s.ctx(), http.MethodGet, "", sess)
		s.advance(time.Second)
		if err := lib.at(0).notify(s.ctx(), "resources/updated", `{"uri":"x:1","last":true}`); err != nil {
			t.Error(err)
		}
		equal(t, "once", another.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1","last":true}}`)
		s.dropConnection(another)
	})
}

// failingListens is a Handler that ends listens with the errors that the test sends.
type failingListens struct {
	mcp.Handler
	ends  chan error
	began chan struct{}
}

func (h *failingListens) Serve(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	if req.Method != "subscriptions/listen" {
		return h.Handler.Serve(ctx, req, c)
	}
	h.began <- struct{}{}
	ack, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{"toolsListChanged":true}}`))
	if err != nil {
		return nil, err
	}
	if err := c.Notify(ctx, ack); err != nil {
		return nil, err
	}
	select {
	case err := <-h.ends:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withFailingListens runs f with a standalone stream of a Handler of failingListens.
func withFailingListens(t *testing.T, f func(*site, *failingListens, *stream)) {
	t.Helper()
	h := &failingListens{Handler: tools(nil)}
	bubble(t, h, server.Config{}, func(s *site) {
		h.ends, h.began = make(chan error), make(chan struct{}, 64)
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		<-h.began
		f(s, h, st)
	})
}

// I33: a client with an open stream cannot see that no Handler listens for it. The listen
// is retried, and notifies the client of the gap.
func TestFailedListenIsRetried(t *testing.T) {
	withFailingListens(t, func(s *site, h *failingListens, st *stream) {
		for i := range 4 {
			began := time.Now()
			h.ends <- &mcp.Fault{Code: mcp.CodeBackendUnavailable, Message: "away"}
			<-h.began
			if d, want := time.Since(began), time.Second<<i; d != want {
				t.Errorf("attempt %d after %v, want %v", i, d, want)
			}
			equal(t, "the gap", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		}
	})
}

// A Handler without subscriptions refuses the listen, and one that returns a result has
// ended it deliberately: neither is asked again.
func TestRefusedListenIsNotRetried(t *testing.T) {
	for _, refusal := range []error{
		nil, mcp.Errorf(mcp.CodeMethodNotFound, "no"), &mcp.Fault{Code: mcp.CodeUnsupported, Message: "no"},
	} {
		withFailingListens(t, func(s *site, h *failingListens, _ *stream) {
			h.ends <- refusal
			s.advance(time.Hour)
			if n := len(h.began); n != 0 {
				t.Errorf("after %v: %d further attempts", refusal, n)
			}
		})
	}
}

// A backend that was replaced by one of another era refuses listens with errors of its own,
// until the gateway has detected the change. The client's stream stays open meanwhile.
func TestListenRetriedAfterTemporaryRefusal(t *testing.T) {
	for _, refusal := range []*mcp.Error{
		mcp.Errorf(mcp.CodeInvalidParams, "Invalid request parameters"),
		mcp.Errorf(mcp.CodeInvalidRequest, "invalid during session initialization"),
		mcp.Errorf(-32001, "Session not found"),
	} {
		withFailingListens(t, func(s *site, h *failingListens, st *stream) {
			h.ends <- refusal
			s.advance(time.Minute)
			if n := len(h.began); n != 1 {
				t.Fatalf("after %v: %d further attempts in a minute, want 1 that lasts", refusal, n)
			}
			equal(t, "the gap", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		})
	}
}
