// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// cachedLists is a Handler with cached lists: now returns one, if there is one, and the
// Handler serves everything else.
type cachedLists struct {
	mcp.Handler
	now func(*mcp.Request) (*mcp.Result, bool)
}

func (l cachedLists) ServeNow(req *mcp.Request) (*mcp.Result, bool) { return l.now(req) }

func (cachedLists) Watch(context.Context, *mcp.Request, mcp.Caller) (func(), error) {
	return nil, errors.ErrUnsupported
}

// toolsPage is a page of tools, and its form for a legacy client.
const (
	toolsPage       = `{"resultType":"complete","ttlMs":7,"cacheScope":"public","tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
	legacyToolsPage = `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
)

// listHandler is a Handler that answers lists in Serve.
func listHandler(serve mcp.HandlerFunc) mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{"tools/list": serve})
}

const legacyList = `{"jsonrpc":"2.0","id":"x","method":"tools/list"}`

// bothEras lists the tools as a legacy client and as a modern one.
func (s *site) bothEras(h headers) []reply {
	s.t.Helper()
	return []reply{s.post(legacyList, h), s.post(modern(`"x"`, "tools/list", ""), modernHeaders("tools/list", ""))}
}

// A cached list and a served one give the same answer, and a cached list leaves nothing in
// flight.
func TestCachedLists(t *testing.T) {
	served := func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(toolsPage) }
	unasked := func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		t.Errorf("%s was served", req.Method)
		return result(toolsPage)
	}
	var got [2][]reply
	for i, h := range []mcp.Handler{
		listHandler(served),
		cachedLists{listHandler(unasked), func(req *mcp.Request) (*mcp.Result, bool) {
			if req.Method != "tools/list" || req.Client == nil {
				t.Errorf("asked for %s of %v", req.Method, req.Client)
			}
			res, err := result(toolsPage)
			return res, err == nil
		}},
	} {
		bubble(t, h, server.Config{}, func(s *site) {
			session := s.session()
			before := s.server.Stats().Requests
			got[i] = s.bothEras(session)
			synctest.Wait()
			if st := s.server.Stats(); st.InFlight != 0 || st.Requests-before != 2 {
				t.Errorf("%d in flight, %d requests; want 0, 2", st.InFlight, st.Requests-before)
			}
		})
		for j := range got[i] {
			got[i][j].header.Del("Date")
		}
	}
	if diff := cmp.Diff(got[1], got[0], cmp.AllowUnexported(reply{})); diff != "" {
		t.Errorf("(-at hand +served):\n%s", diff)
	}
	if want := `{"jsonrpc":"2.0","id":"x","result":` + legacyToolsPage + `}`; got[1][0].body != want {
		t.Errorf("a legacy client got %s, want %s", got[1][0].body, want)
	}
	if want := `{"jsonrpc":"2.0","id":"x","result":` + toolsPage + `}`; got[1][1].body != want {
		t.Errorf("a modern client got %s, want %s", got[1][1].body, want)
	}
}

// A list that is not cached is served, and so is one for which the Handler returns nothing.
func TestUncachedLists(t *testing.T) {
	for name, now := range map[string]func(*mcp.Request) (*mcp.Result, bool){
		"not now": func(*mcp.Request) (*mcp.Result, bool) { return nil, false },
		"nothing": func(*mcp.Request) (*mcp.Result, bool) { return nil, true },
	} {
		served := 0
		h := cachedLists{listHandler(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			served++
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor")
		}), now}
		bubble(t, h, server.Config{}, func(s *site) {
			for _, got := range s.bothEras(s.session()) {
				if !strings.Contains(got.body, `"code":-32602`) {
					t.Errorf("%s: got %d %s", name, got.status, got.body)
				}
			}
		})
		if served != 2 {
			t.Errorf("%s: %d served, want 2", name, served)
		}
	}
}

// Only lists are looked up: other cached results may be slow to fetch.
func TestOnlyListsAreCached(t *testing.T) {
	h := cachedLists{tools(map[string]mcp.HandlerFunc{
		"x": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(`{"content":[]}`) },
	}), func(req *mcp.Request) (*mcp.Result, bool) {
		t.Errorf("asked for %s", req.Method)
		return nil, false
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		s.session()
		if got := s.call("x"); got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
}

// A list request with an id in flight is refused, as any request is (I5).
func TestCachedListWithIDInFlight(t *testing.T) {
	var began, end chan struct{} // of the bubble
	h := cachedLists{tools(map[string]mcp.HandlerFunc{
		"slow": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			close(began)
			<-end
			return result(`{"content":[]}`)
		},
	}), func(*mcp.Request) (*mcp.Result, bool) {
		t.Error("the second request of an id was answered")
		return nil, false
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		began, end = make(chan struct{}), make(chan struct{})
		session := s.session()
		first := s.async(s.request(s.ctx(), "POST", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"slow"}}`, session))
		<-began
		if got := s.post(legacyList, session); got.status != 400 {
			t.Errorf("the second: %d %s; want 400", got.status, got.body)
		}
		close(end)
		if got := <-first; !strings.Contains(got.body, `"content":[]`) {
			t.Errorf("the first: %d %s", got.status, got.body)
		}
	})
}

// A Server that drains looks up no lists, and refuses as usual.
func TestCachedListsWhileDraining(t *testing.T) {
	asked := 0
	h := cachedLists{tools(nil), func(*mcp.Request) (*mcp.Result, bool) {
		asked++
		res, err := result(toolsPage)
		return res, err == nil
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		session := s.session()
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Fatal(err)
		}
		for _, got := range s.bothEras(session) {
			if got.status != 503 {
				t.Errorf("got %d %s; want 503", got.status, got.body)
			}
		}
	})
	if asked != 0 {
		t.Errorf("asked %d times after Shutdown", asked)
	}
}

// Shutdown returns after the last Handler, also while a Handler looks up a cached list.
func TestShutdownWaitsForCachedList(t *testing.T) {
	var began, end chan struct{} // of the bubble
	h := cachedLists{tools(nil), func(*mcp.Request) (*mcp.Result, bool) {
		close(began)
		<-end
		res, err := result(toolsPage)
		return res, err == nil
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		began, end = make(chan struct{}), make(chan struct{})
		answered := s.async(s.request(s.ctx(), "POST", legacyList, s.session()))
		<-began
		done := make(chan error, 1)
		go func() { done <- s.server.Shutdown(s.ctx()) }() // ends when the Handler has returned
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("Shutdown = %v while a Handler was asked", err)
		default:
		}
		close(end)
		if got := <-answered; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A panic fails only its own request.
func TestPanicOfCachedList(t *testing.T) {
	h := cachedLists{tools(nil), func(*mcp.Request) (*mcp.Result, bool) { panic("secret") }}
	bubble(t, h, server.Config{}, func(s *site) {
		for _, got := range s.bothEras(s.session()) {
			if !strings.Contains(got.body, `"code":-32603`) || strings.Contains(got.body, "secret") {
				t.Errorf("got %d %s; want -32603 without the reason", got.status, got.body)
			}
		}
		if st := s.server.Stats(); st.Panics != 2 || st.InFlight != 0 {
			t.Errorf("%d panics, %d in flight; want 2, 0", st.Panics, st.InFlight)
		}
	})
}

// An answer that could not be written is not counted as delivered, and the connection
// breaks.
func TestUndeliveredCachedList(t *testing.T) {
	big := `{"tools":[{"name":"` + strings.Repeat("x", 4<<20) + `"}]}`
	h := cachedLists{tools(nil), func(*mcp.Request) (*mcp.Result, bool) {
		res, err := result(big)
		return res, err == nil
	}}
	bubble(t, h, server.Config{}, func(s *site) {
		res, err := s.client.Do(s.request(s.ctx(), "POST", legacyList, s.session()))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close() // most of it is unread
		synctest.Wait()
		if st := s.server.Stats(); st.Undelivered != 1 {
			t.Errorf("%d undelivered, want 1", st.Undelivered)
		}
	})
}
