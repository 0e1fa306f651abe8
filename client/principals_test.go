// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// principalOf returns the principal and the generation in the header of a request.
func principalOf(r *http.Request) (principal, generation string) {
	text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer token-of-")
	i := strings.LastIndexByte(text, '-')
	if i < 0 {
		return "no token", ""
	}
	return text[:i], text[i+1:]
}

// witness is a server that checks the credential of each HTTP request: a session
// belongs to the principal that has opened it, and a call names its principal.
type witness struct {
	modern bool
	rnd    *rand.Rand

	mu       sync.Mutex
	sessions map[string]string // by id: the principal
	expired  map[string]bool   // tokens
	wrong    []string
	calls    int
}

func (w *witness) report(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// chance reports true in one of n cases.
func (w *witness) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n) == 0
}

// refuses reports whether the request is answered with 401 or 404, without a look at it.
func (w *witness) refuses(rw http.ResponseWriter, r *http.Request) bool {
	token := r.Header.Get("Authorization")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rnd.IntN(8) == 0 {
		w.expired[token] = true
	}
	if w.expired[token] {
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	}
	id, ofSSE := r.Header.Get("Mcp-Session-Id"), r.URL.Query().Get("session_id")
	if id == "" && ofSSE == "" {
		return false
	}
	principal, _ := principalOf(r)
	if of := w.sessions[cmp.Or(id, ofSSE)]; of != principal {
		w.report("%s with the token of %q in a session of %q", r.Method, principal, of)
	}
	return false
}

func (w *witness) initialize(x *faultyserver.Exchange) {
	x.Initialize()
	principal, _ := principalOf(x.R)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[x.W.Header().Get("Mcp-Session-Id")] = principal
}

func (w *witness) call(x *faultyserver.Exchange) {
	w.note(x.R, &x.Msg)
	switch {
	case w.chance(10):
		x.Status(http.StatusNotFound, "", "")
	case w.chance(10):
		x.Abort()
	case w.chance(5):
		select {
		case <-x.R.Context().Done():
		case <-time.After(time.Second):
		}
	}
	x.Result(`{"resultType":"complete","content":[]}`)
}

// note checks that a message is a call of the principal.
func (w *witness) note(r *http.Request, m *mcp.Message) {
	principal, _ := principalOf(r)
	args := string(m.Params.Raw(mcp.FieldArguments))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if args != fmt.Sprintf(`{"me":%q}`, principal) {
		w.report("the call %s with the token of %q", args, principal)
	}
}

// sse returns the server over HTTP with SSE. A session belongs to the principal of its stream.
func (w *witness) sse() http.Handler {
	s := &sseServer{announce: sseEndpoint}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.refuses(rw, r) {
			return
		}
		if r.Method == http.MethodGet {
			s.ServeHTTP(&beginning{rw, w, r}, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has disconnected
		}
		if m, err := mcp.Parse(body, mcp.Limits{}); err == nil && m.Method == "tools/call" {
			w.note(r, &m)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(rw, r)
	})
}

// beginning finds the id of a session in the stream that begins it.
type beginning struct {
	http.ResponseWriter
	w *witness
	r *http.Request
}

func (a *beginning) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *beginning) Write(p []byte) (int, error) {
	if _, id, ok := strings.Cut(string(p), "session_id="); ok {
		a.w.mu.Lock()
		a.w.sessions[strings.TrimSpace(id)], _ = principalOf(a.r)
		a.w.mu.Unlock()
	}
	return a.ResponseWriter.Write(p)
}

func (w *witness) handler() http.Handler {
	s := &faultyserver.HTTP{Modern: w.modern, Sessions: true, Capabilities: `{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}}`}
	s.On = map[string]func(*faultyserver.Exchange){"tools/call": w.call}
	if !w.modern {
		s.On["initialize"] = w.initialize
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.Begin()
			select {
			case <-x.R.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.refuses(rw, r) {
			s.ServeHTTP(rw, r)
		}
	})
}

// Each header that a server receives is that of the principal of the request, however
// requests, sessions, listens, expiries and failures fall together (N2).
func TestNoCredentialOfAnotherPrincipal(t *testing.T) {
	principals := []string{"", "alice", "bob", "carol-anne"}
	for seed := range uint64(24) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		cfg := client.Config{Credentials: &issuer{}, Share: seed%3 == 1, OneClient: seed%3 == 2, MaxSessions: 1 + rnd.IntN(6), IdleSessions: 1 + rnd.IntN(3)}
		w := &witness{modern: seed%4 == 3, rnd: rnd, sessions: map[string]string{}, expired: map[string]bool{}}
		inBubble(t, func(t *testing.T) {
			var c *client.Client
			if seed%4 == 2 {
				c = dialSSE(t, w.sse(), cfg)
			} else {
				c = dialHTTP(t, w.handler(), cfg)
			}
			var all sync.WaitGroup
			for range 40 {
				w.mu.Lock()
				me, inScope, listens := principals[rnd.IntN(len(principals))], rnd.IntN(2) == 0, rnd.IntN(5) == 0
				life, pause, private := time.Duration(rnd.IntN(4000))*time.Millisecond, time.Duration(rnd.IntN(300))*time.Millisecond, rnd.IntN(2) == 0
				w.mu.Unlock()
				req := request(t, "tools/call", fmt.Sprintf(`{"name":"echo","arguments":{"me":%q}}`, me))
				if listens {
					req = request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}`)
				}
				req.Principal, req.Identity = me, &mcp.Identity{Principal: me}
				var ear mcp.Caller
				if private {
					ear = &recorder{}
				}
				if inScope {
					req.Scope = mcp.NewScope(me, ear)
				}
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), life)
					defer cancel()
					for range 3 {
						_, err := c.Serve(ctx, req, &recorder{}) // many end with ctx or a refusal
						if err != nil && strings.Contains(err.Error(), "another principal") {
							t.Errorf("seed %d: a request found a session of another principal", seed)
						}
					}
					if req.Scope != nil {
						req.Scope.End()
					}
				})
				time.Sleep(pause)
			}
			all.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		for _, wrong := range w.wrong {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		if w.calls < 10 {
			t.Errorf("seed %d: %d calls were made, want more", seed, w.calls)
		}
	}
}

// With Credentials per principal, each principal has its idle sessions, up to the limit of all
// sessions.
func TestIdleSessionsOfEachPrincipal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			time.Sleep(time.Second)
			x.Polite()
		}}}
		c := dialHTTP(t, s, client.Config{Credentials: &issuer{}, IdleSessions: 2, MaxSessions: 5})
		calls := func(n int, principals ...string) {
			var all []*running
			for _, me := range principals {
				for range n {
					req := echo(t)
					req.Principal = me
					all = append(all, launch(t, c, req, nil))
				}
			}
			for _, r := range all {
				r.wantResult(t, `{"content":[]}`)
			}
			synctest.Wait()
		}
		opened := func() int { return s.Count("initialize") - s.Count("DELETE") }
		calls(3, "alice")
		if n := opened(); n != 2 {
			t.Errorf("%d sessions of one principal are open, want 2", n)
		}
		calls(2, "bob")
		if n := opened(); n != 4 {
			t.Errorf("%d sessions of two principals are open, want 4", n)
		}
		before := s.Count("initialize")
		calls(2, "alice", "bob")
		if n := s.Count("initialize"); n != before {
			t.Errorf("%d sessions were opened for idle ones", n-before)
		}
		calls(2, "carol")
		if n := opened(); n != 5 {
			t.Errorf("%d sessions are open, want the 5 that all may have", n)
		}
	})
}
