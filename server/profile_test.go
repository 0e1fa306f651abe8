// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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

// profileHeader selects the profile of a request in these tests: a test of the edge has no
// paths.
const profileHeader = "Test-Profile"

// at is the header of a request to a profile.
func at(profile string) headers { return headers{profileHeader: profile} }

// profiles are the profiles of a Handler. Some can be removed.
type profiles struct {
	mu      sync.Mutex
	removed []string
}

func (p *profiles) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains([]string{"a", "b"}, name) && !slices.Contains(p.removed, name)
}

func (p *profiles) remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = append(p.removed, name)
}

// profiled is bubble for a Handler with the profiles a and b.
func profiled(t *testing.T, h mcp.Handler, cfg server.Config, f func(*site, *profiles)) {
	t.Helper()
	known := new(profiles)
	cfg.HasProfile = known.has
	nothing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "nothing is here", http.StatusNotFound) })
	cfg.NotFound = nothing
	bubbleWith(t, h, cfg, func(hs *http.Server) {
		next := hs.Handler
		hs.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				nothing.ServeHTTP(w, r)
				return
			}
			if name := r.Header.Get(profileHeader); name != "" {
				r = r.WithContext(server.WithProfile(r.Context(), name))
			}
			next.ServeHTTP(w, r)
		})
	}, func(s *site) { f(s, known) })
}

// named answers each request with its profile and its owner.
var named = mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	if req.Method == "server/discover" {
		return result(fmt.Sprintf(`{"capabilities":{},"instructions":%q}`, req.Profile))
	}
	return result(fmt.Sprintf(`{"profile":%q,"owner":%q}`, req.Profile, strings.ReplaceAll(req.Owner(), "\x00", "+")))
})

// A request has the profile of its context, in both eras.
func TestRequestHasItsProfile(t *testing.T) {
	profiled(t, named, server.Config{Authenticate: identified(byHeader)}, func(s *site, _ *profiles) {
		ann := headers{"Authorization": "ann"}
		for profile, owner := range map[string]string{"": "ann", "a": "ann+a", "b": "ann+b"} {
			want := fmt.Sprintf(`"profile":%q,"owner":%q`, profile, owner)
			if got := s.post(modern("1", "tools/list", ""), modernHeaders("tools/list", ""), ann, at(profile)); !strings.Contains(got.body, want) {
				t.Errorf("modern: %s, want %s", got.body, want)
			}
			if got := s.post(raw("2", "tools/list", "{}"), s.openAt(profile, ann)); !strings.Contains(got.body, want) {
				t.Errorf("session: %s, want %s", got.body, want)
			}
		}
	})
}

// openAt opens a session at a profile, and returns the headers of its requests.
func (s *site) openAt(profile string, hs ...headers) headers {
	s.t.Helper()
	got := s.post(initialize, append(hs, at(profile))...)
	if got.status != 200 || !strings.Contains(got.body, fmt.Sprintf(`"instructions":%q`, profile)) {
		s.t.Fatalf("initialize at %q: %d %s", profile, got.status, got.body)
	}
	sess := headers{"Mcp-Session-Id": got.header.Get("Mcp-Session-Id"), profileHeader: profile}
	for _, h := range hs {
		maps.Copy(sess, h)
	}
	if got := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess); got.status != 202 {
		s.t.Fatalf("initialized at %q: %d %s", profile, got.status, got.body)
	}
	return sess
}

// A session at another profile is unknown, for each method and byte for byte, and stays as it
// was.
func TestSessionOfAnotherProfileIsUnknown(t *testing.T) {
	profiled(t, named, server.Config{}, func(s *site, _ *profiles) {
		sess := s.openAt("a")
		never := headers{"Mcp-Session-Id": "NEVER"}
		for _, profile := range []string{"", "b"} {
			foreign := headers{"Mcp-Session-Id": sess["Mcp-Session-Id"], profileHeader: profile}
			for _, r := range []struct{ method, body string }{
				{http.MethodPost, raw("1", "tools/list", "{}")}, {http.MethodDelete, ""}, {http.MethodGet, ""},
			} {
				got := s.do(s.request(s.ctx(), r.method, r.body, foreign))
				want := s.do(s.request(s.ctx(), r.method, r.body, never, at(profile)))
				if got.status != 404 || got.status != want.status || got.body != want.body {
					t.Errorf("%s at %q: %d %s; want %d %s", r.method, profile, got.status, got.body, want.status, want.body)
				}
			}
			resumed := s.do(s.request(s.ctx(), http.MethodGet, "", foreign, headers{"Last-Event-Id": "1-1"}))
			equal(t, "a stream resumed at another profile", fmt.Sprint(resumed.status), "404")
		}
		if got := s.post(raw("2", "tools/list", "{}"), sess); got.status != 200 {
			t.Errorf("the session at its own profile: %d %s", got.status, got.body)
		}
	})
}

// elsewhere means a path at which nothing is served.
const elsewhere = "elsewhere"

// The answer at a profile that does not exist, or that the credentials are not for, is that of
// NotFound. Without credentials it is 401 for both.
func TestHiddenProfileIsAnsweredByNotFound(t *testing.T) {
	var mu sync.Mutex
	var events []server.Event
	cfg := server.Config{
		Authenticate: identified(func(r *http.Request) (string, error) {
			principal, _ := byHeader(r)
			switch {
			case principal == "":
				return "", errors.New("no credentials")
			case principal == "tied" && server.ProfileOf(r.Context()) != "a":
				return principal, &server.Denial{Status: http.StatusNotFound, Message: server.ProfileOf(r.Context())}
			}
			return principal, nil
		}),
		AllowedOrigins: []string{"https://app.example"},
		Observe: func(_ context.Context, e server.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		},
	}
	profiled(t, named, cfg, func(s *site, _ *profiles) {
		ask := func(method, profile, principal string) reply {
			r := s.request(s.ctx(), method, modern("1", "tools/list", ""), modernHeaders("tools/list", ""), at(profile))
			if profile == elsewhere {
				r.URL.Path = "/elsewhere"
			}
			r.Header.Set("Origin", "https://app.example")
			r.Header.Del("Authorization")
			if principal != "" {
				r.Header.Set("Authorization", principal)
			}
			return s.do(r)
		}
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			none := ask(method, elsewhere, "ann")
			for _, profile := range []string{"", "b", "none"} {
				hidden := ask(method, profile, "tied")
				none.header.Del("Date")
				hidden.header.Del("Date")
				if hidden.status != none.status || hidden.body != none.body || fmt.Sprint(hidden.header) != fmt.Sprint(none.header) {
					t.Errorf("%s at the hidden profile %q: %d %q %v; want %d %q %v", method, profile, hidden.status, hidden.body, hidden.header, none.status, none.body, none.header)
				}
			}
		}
		if got := ask(http.MethodPost, "a", "tied"); got.status != 200 {
			t.Errorf("at the own profile: %d %s", got.status, got.body)
		}
		known, unknown := ask(http.MethodPost, "a", ""), ask(http.MethodPost, "none", "")
		if known.status != 401 || unknown.status != 401 || known.body != unknown.body {
			t.Errorf("without credentials: %d %s, and at no profile %d %s", known.status, known.body, unknown.status, unknown.body)
		}
	})
	foreign := slices.DeleteFunc(events, func(e server.Event) bool { return e.Kind != server.ForeignProfile })
	if len(foreign) != 9 || foreign[0].Principal != "tied" {
		t.Errorf("events: %+v, want 9 of the principal", foreign)
	}
}

// The operational endpoints are not for credentials that are tied to profiles.
func TestGuardHidesFromTiedCredentials(t *testing.T) {
	cfg := server.Config{Authenticate: identified(func(*http.Request) (string, error) {
		return "tied", &server.Denial{Status: http.StatusNotFound}
	})}
	profiled(t, named, cfg, func(s *site, _ *profiles) {
		s.http.Handler = s.server.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it passed") }))
		got := s.do(s.request(s.ctx(), http.MethodGet, ""))
		if got.status != 404 || got.body != "nothing is here\n" {
			t.Errorf("%d %q", got.status, got.body)
		}
	})
}

// Limits are for all profiles together.
func TestLimitsAreSharedByProfiles(t *testing.T) {
	cfg := server.Config{Authenticate: identified(byHeader), Limits: server.Limits{SessionsPerPrincipal: 2, InFlightPerPrincipal: 1}}
	var g *gate
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/call" {
			return g.serve(ctx, req, c)
		}
		return named(ctx, req, c)
	})
	profiled(t, h, cfg, func(s *site, _ *profiles) {
		g = newGate()
		ann := headers{"Authorization": "ann"}
		s.openAt("a", ann)
		s.openAt("b", ann)
		if got := s.post(initialize, ann); got.status != 429 || !strings.Contains(got.body, "limits.sessionsPerPrincipal") {
			t.Errorf("a third session: %d %s", got.status, got.body)
		}
		call := func(profile string) *http.Request {
			return s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"x"`), modernHeaders("tools/call", "x"), ann, at(profile))
		}
		first := s.async(call("a"))
		synctest.Wait()
		if got := s.do(call("b")); got.status != 429 || !strings.Contains(got.body, "limits.inFlightPerPrincipal") {
			t.Errorf("a second call: %d %s", got.status, got.body)
		}
		close(g.release)
		if got := <-first; got.status != 200 {
			t.Errorf("the first call: %d %s", got.status, got.body)
		}
	})
}

// The state of a request that waits for input, and a state of the Handler, are of their
// profile: elsewhere they are like states that never were.
func TestStateOfAnotherProfileIsUnknown(t *testing.T) {
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		name, _ := req.Params.Text(mcp.FieldName)
		if name == "own" { // the Handler has a state of its own
			if req.Params.Has(mcp.FieldRequestState) {
				return result(`{"content":[]}`)
			}
			return result(`{"resultType":"input_required","requestState":"x","inputRequests":{}}`)
		}
		ask, err := mcp.NewRequest("elicitation/create", []byte(`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`))
		if err != nil {
			return nil, err
		}
		wait, err := c.Start(ctx, ask)
		if err != nil {
			return nil, err
		}
		if _, err := wait(); err != nil {
			return nil, err
		}
		return result(`{"content":[]}`)
	})
	for _, name := range []string{"parked", "own"} {
		t.Run(name, func(t *testing.T) {
			profiled(t, h, server.Config{}, func(s *site, _ *profiles) {
				send := func(profile, more string) reply {
					body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`, name, more)
					return s.post(body, modernHeaders("tools/call", name), at(profile))
				}
				first := send("a", "")
				state, key := stringMember(first.body, "requestState"), questionKey(first.body)
				if state == "" {
					t.Fatalf("no state: %s", first.body)
				}
				retry := func(state string) string {
					answers := ""
					if key != "" {
						answers = fmt.Sprintf(`%q:{"action":"decline"}`, key)
					}
					return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, state, answers)
				}
				for _, profile := range []string{"", "b"} {
					got, want := send(profile, retry(state)), send(profile, retry("sbs1.AAAA"))
					if !strings.Contains(got.body, "requestState is unknown") || got.status != want.status || got.body != want.body {
						t.Errorf("at %q: %d %s; want %d %s", profile, got.status, got.body, want.status, want.body)
					}
				}
				if got := send("a", retry(state)); !strings.Contains(got.body, `"content":[]`) {
					t.Errorf("at its own profile: %s", got.body)
				}
			})
		})
	}
}

// stringMember returns the value of the first member with a name and a string.
func stringMember(text, name string) string {
	_, rest, _ := strings.Cut(text, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// questionKey returns the first key of the inputRequests, or "".
func questionKey(text string) string {
	_, rest, _ := strings.Cut(text, `"inputRequests":{`)
	if !strings.HasPrefix(rest, `"`) {
		return ""
	}
	key, _, _ := strings.Cut(rest[1:], `"`)
	return key
}

// The connection of HTTP with SSE has a profile, which the address of its messages carries, and
// is unknown at any other.
func TestSSEConnectionOfAProfile(t *testing.T) {
	profiled(t, named, server.Config{}, func(s *site, known *profiles) {
		s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/sse/p/"), "/")
			s.server.SSE().ServeHTTP(w, r.WithContext(server.WithProfile(r.Context(), name)))
		})
		open := func(path string) *http.Request {
			r := s.request(s.ctx(), http.MethodGet, "", headers{"Accept": "text/event-stream"})
			r.URL.Path = path
			return r
		}
		res, err := s.client.Do(open("/sse/p/a"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		first := make([]byte, 256)
		n, _ := res.Body.Read(first)
		address := strings.TrimSpace(strings.TrimPrefix(string(first[:n]), "event: endpoint\ndata: "))
		if !strings.HasPrefix(address, "/sse/p/a?sessionId=") {
			t.Fatalf("the address of messages is %q", address)
		}
		path, query, _ := strings.Cut(address, "?")
		send := func(path string) reply {
			r := s.request(s.ctx(), http.MethodPost, raw("1", "ping", "{}"))
			r.URL.Path, r.URL.RawQuery = path, query
			return s.do(r)
		}
		if got := send(path); got.status != 202 {
			t.Errorf("at its own path: %d %s", got.status, got.body)
		}
		if got := send("/sse/p/b"); got.status != 404 || !strings.Contains(got.body, "connection not found") {
			t.Errorf("at another path: %d %s", got.status, got.body)
		}
		known.remove("a")
		s.server.EndProfile("a")
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Errorf("the connection of a removed profile does not end in order: %v", err)
		}
	})
}

// The sessions, listens and parked requests of a removed profile end, and no others.
func TestEndProfile(t *testing.T) {
	ended := make(chan string, 8)
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			if !req.Scope.OnEnd(func() { ended <- "session " + req.Profile }) {
				return nil, errors.New("the session has ended")
			}
			return named(ctx, req, c)
		case "subscriptions/listen":
			if req.Scope != nil {
				return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no lists")
			}
			res, err := listenUntilEnd(ctx, c)
			ended <- "listen " + req.Profile
			return res, err
		case "tools/call":
			ask, err := mcp.NewRequest("elicitation/create", []byte(`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`))
			if err != nil {
				return nil, err
			}
			wait, err := c.Start(ctx, ask)
			if err != nil {
				return nil, err
			}
			_, err = wait()
			ended <- "call " + req.Profile
			return nil, err
		default:
			return named(ctx, req, c)
		}
	})
	profiled(t, h, server.Config{}, func(s *site, known *profiles) {
		caps := `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
		sessions := make(map[string]headers)
		for _, profile := range []string{"", "a", "b"} {
			sessions[profile] = s.openAt(profile)
			s.open(s.ctx(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":`+caps+`}}`, modernHeaders("subscriptions/listen", ""), at(profile))
			parked := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":`+caps+`}}`, modernHeaders("tools/call", "x"), at(profile))
			if !strings.Contains(parked.body, "input_required") {
				t.Fatalf("the call at %q is not parked: %s", profile, parked.body)
			}
		}
		synctest.Wait()
		known.remove("a")
		s.server.EndProfile("a")
		synctest.Wait()
		var got []string
		for len(ended) > 0 {
			got = append(got, <-ended)
		}
		slices.Sort(got)
		equal(t, "what has ended", strings.Join(got, ", "), "call a, listen a, session a")
		for profile, status := range map[string]int{"": 200, "a": 404, "b": 200} {
			if got := s.post(raw("9", "tools/list", "{}"), sessions[profile]); got.status != status {
				t.Errorf("a session at %q: %d %s, want %d", profile, got.status, got.body, status)
			}
		}
	})
}

// A pipe has one profile, for both eras. That of a removed profile ends.
func TestPipeOfAProfile(t *testing.T) {
	profiled(t, named, server.Config{}, func(s *site, known *profiles) {
		if err := s.server.ServeStdio(server.WithProfile(s.ctx(), "none"), strings.NewReader(""), io.Discard); err == nil {
			t.Error("a pipe of no profile is served")
		}
		in, input := io.Pipe()
		output, out := io.Pipe()
		done := make(chan error, 1)
		go func() { // ends with the profile
			done <- s.server.ServeStdio(server.WithProfile(s.ctx(), "a"), in, out)
			out.Close()
		}()
		answers := make(chan string, 8)
		go func() { // ends with the pipe
			defer close(answers)
			buf := make([]byte, 4096)
			for {
				n, err := output.Read(buf)
				if err != nil {
					return
				}
				answers <- string(buf[:n])
			}
		}()
		send := func(line string) {
			if _, err := io.WriteString(input, line+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		send(modern("1", "tools/list", ""))
		if got := <-answers; !strings.Contains(got, `"profile":"a"`) {
			t.Errorf("modern: %s", got)
		}
		send(initialize)
		if got := <-answers; !strings.Contains(got, `"instructions":"a"`) {
			t.Errorf("initialize: %s", got)
		}
		known.remove("a")
		s.server.EndProfile("a")
		if err := <-done; err == nil || err.Error() != `the profile "a" was removed` {
			t.Errorf("the pipe of a removed profile ends with %v", err)
		}
		time.Sleep(time.Second)
		for range answers { // until it ends
		}
	})
}

// A session that is being opened while its profile is removed ends, too.
func TestProfileRemovedDuringInitialize(t *testing.T) {
	ended := false
	var remove func()
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		remove()
		req.Scope.OnEnd(func() { ended = true })
		return named(ctx, req, c)
	})
	profiled(t, h, server.Config{}, func(s *site, known *profiles) {
		remove = func() {
			known.remove("a")
			s.server.EndProfile("a")
		}
		s.post(initialize, at("a"))
		if !ended {
			t.Error("the session of a removed profile lives on")
		}
	})
}

// A call that asks its client after its profile was removed ends, since no retry can reach it;
// and so does a listen that begins after that.
func TestProfileRemovedDuringARequest(t *testing.T) {
	var remove func()
	var ended chan error
	h := tools(map[string]mcp.HandlerFunc{"ask": func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		remove()
		res, err := ask("roots/list", "{}")(ctx, req, c)
		ended <- err
		return res, err
	}})
	profiled(t, h, server.Config{}, func(s *site, known *profiles) {
		remove = func() {
			known.remove("a")
			s.server.EndProfile("a")
		}
		ended = make(chan error, 1)
		begin := time.Now()
		s.post(askableCall("1", `"name":"ask"`), modernHeaders("tools/call", "ask"), at("a"))
		if err := <-ended; err == nil || time.Since(begin) > time.Second {
			t.Errorf("the call ended with %v after %v", err, time.Since(begin))
		}
	})
	var s *server.Server
	checked := false
	cfg := server.Config{HasProfile: func(string) bool {
		if checked {
			return false
		}
		checked = true
		s.EndProfile("a") // after the check, and before the listen begins
		return true
	}}
	bubble(t, h, cfg, func(site *site) {
		s = site.server
		site.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(w, r.WithContext(server.WithProfile(r.Context(), "a")))
		})
		st := site.open(site.ctx(), http.MethodPost, modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeaders("subscriptions/listen", ""))
		defer st.close()
		site.advance(time.Minute)
		if n := s.Stats().InFlight; n != 0 {
			t.Errorf("%d listens of a removed profile are open", n)
		}
	})
}
