// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// denied is the error of a Handler that refuses a call for lack of a scope.
func denied() error {
	return &mcp.Denied{
		Status: http.StatusForbidden, Challenge: `Bearer error="insufficient_scope", scope="write"`,
		Err: mcp.Errorf(mcp.CodeInvalidRequest, "the call needs the scope write"),
	}
}

// deniedTools are tools that refuse at once, after progress, and after waiting for input.
func deniedTools() mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{
		"at-once": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, denied() },
		"late": func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			n, err := mcp.NewNotification("notifications/progress", []byte(`{"progressToken":"p","progress":1}`))
			if err != nil {
				return nil, err
			}
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
			time.Sleep(time.Second) // the response has begun
			return nil, denied()
		},
		"tools/list": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, denied() },
	})
}

// A Handler's refusal is a 403 with its challenge while nothing of the response is written, and
// its error alone afterwards, in a batch and on a pipe.
func TestDenied(t *testing.T) {
	const challenge, text = `Bearer error="insufficient_scope", scope="write"`, "the call needs the scope write"
	bubble(t, deniedTools(), server.Config{}, func(s *site) {
		session := s.session()
		old := s.handshake(strings.Replace(initialize, "2025-11-25", "2025-03-26", 1))
		late := `"name":"late","_meta":{"progressToken":"p"}`
		for _, tt := range []struct {
			name  string
			reply reply
			json  bool // one object, and with it the challenge
		}{
			{"modern", s.call("at-once"), true},
			{"modern list", s.post(modern("1", "tools/list", ""), modernHeaders("tools/list", "")), true},
			{"session", s.post(raw("1", "tools/call", `{"name":"at-once"}`), session), true},
			{"session, list", s.post(raw("2", "tools/list", `{}`), session), true},
			{"session, after progress", s.post(raw("3", "tools/call", "{"+late+"}"), session), false},
			{"modern, after progress", s.post(strings.Replace(modern("1", "tools/call", `"name":"late"`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1), modernHeaders("tools/call", "late")), false},
			{"batch", s.post("["+raw("1", "tools/call", `{"name":"at-once"}`)+"]", old), false},
		} {
			got := tt.reply
			if !strings.Contains(got.body, text) || !strings.Contains(got.body, `"error"`) {
				t.Errorf("%s: %s", tt.name, got.body)
			}
			status, want := http.StatusOK, ""
			if tt.json {
				status, want = http.StatusForbidden, challenge
			}
			if got.status != status || got.header.Get("WWW-Authenticate") != want {
				t.Errorf("%s: %d %q, want %d %q", tt.name, got.status, got.header.Get("WWW-Authenticate"), status, want)
			}
			if tt.json && !json.Valid([]byte(got.body)) {
				t.Errorf("%s: the body is not one object: %s", tt.name, got.body)
			}
		}
	})
}

// A refusal because of a quota is a 429 with the time to wait, in whole seconds and rounded
// up, in both eras.
func TestDeniedForATime(t *testing.T) {
	handler := tools(map[string]mcp.HandlerFunc{"busy": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return nil, &mcp.Denied{Status: http.StatusTooManyRequests, RetryAfter: 3001 * time.Millisecond, Err: mcp.Errorf(mcp.CodeLimit, "used up")}
	}})
	bubble(t, handler, server.Config{}, func(s *site) {
		session := s.session()
		for name, got := range map[string]reply{
			"modern":  s.call("busy"),
			"session": s.post(raw("1", "tools/call", `{"name":"busy"}`), session),
		} {
			if got.status != 429 || got.header.Get("Retry-After") != "4" || got.header.Get("WWW-Authenticate") != "" || !strings.Contains(got.body, `"code":1006,"message":"used up"`) {
				t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
			}
		}
	})
}

// On a pipe there is no status.
func TestDeniedOnAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server.New(deniedTools(), server.Config{})
		near, far := memnet.Pipe(64 << 10)
		ended := make(chan error, 1)
		go func() { ended <- srv.ServeStdio(t.Context(), far, far) }() // ends with the pipe
		if _, err := io.WriteString(near, modern("1", "tools/call", `"name":"at-once"`)+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := frame.NewLineReader(near, 1<<20).Next()
		if want := "the call needs the scope write"; err != nil || !strings.Contains(string(line), want) {
			t.Errorf("%s, %v; want %s", line, err, want)
		}
		_ = near.Close()
		<-ended
		_ = srv.Close()
	})
}

// An issuer that cannot be reached is a 503, which says when to come back, and not a 401: a
// client would sign in anew.
func TestUnavailableIssuer(t *testing.T) {
	cfg := server.Config{Authenticate: func(*http.Request) (*mcp.Identity, error) {
		return nil, &server.Denial{Status: http.StatusServiceUnavailable, RetryAfter: 4500 * time.Millisecond, Message: "no keys"}
	}}
	bubble(t, tools(nil), cfg, func(s *site) {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			got := s.do(s.request(s.ctx(), method, "{}"))
			if got.status != 503 || got.header.Get("Retry-After") != "5" || got.header.Get("WWW-Authenticate") != "" || !strings.Contains(got.body, `"message":"no keys"`) {
				t.Errorf("%s: %d %v %s", method, got.status, got.header, got.body)
			}
		}
	})
}

// The server's own refusals of credentials have the challenge of the configuration.
func TestChallengeOfRefusals(t *testing.T) {
	cfg := server.Config{
		Challenge:    func(*http.Request) string { return `Bearer resource_metadata="x"` },
		Authenticate: func(*http.Request) (*mcp.Identity, error) { return nil, nil },
	}
	bubble(t, tools(nil), cfg, func(s *site) {
		inQuery := s.request(s.ctx(), http.MethodPost, "{}")
		inQuery.URL.RawQuery = "access_token=hunter2"
		long := s.request(s.ctx(), http.MethodPost, "{}", headers{"Authorization": "Bearer " + strings.Repeat("hunter2", 10_000)})
		for _, r := range []*http.Request{inQuery, long} {
			got := s.do(r)
			if got.status != 401 || got.header.Get("WWW-Authenticate") != `Bearer resource_metadata="x"` || strings.Contains(got.body, "hunter2") {
				t.Errorf("%d %q %s", got.status, got.header.Get("WWW-Authenticate"), got.body)
			}
		}
	})
}

// credentials are identities by the Authorization header of their requests.
type credentials struct {
	mu    sync.Mutex
	known map[string]*mcp.Identity
}

// add adds a credential of a principal that ends after some time.
func (c *credentials) add(token, principal string, after time.Duration) headers {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[string]*mcp.Identity)
	}
	id := &mcp.Identity{Principal: principal, Via: mcp.ViaJWT}
	if after > 0 {
		id.Expires = time.Now().Add(after)
	}
	c.known[token] = id
	return headers{"Authorization": token}
}

func (c *credentials) authenticate(r *http.Request) (*mcp.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.known[r.Header.Get("Authorization")]
	if id == nil || !id.Expires.IsZero() && !time.Now().Before(id.Expires) {
		return nil, &server.Denial{Challenge: `Bearer error="invalid_token"`, Message: "the token has expired"}
	}
	return id, nil
}

// identity attack 11: a credential ends during a call, a stream, and between two requests. The
// call ends by itself, the stream ends, and the session goes on with a new credential of the
// same principal only (requirement N14).
func TestExpiryInASession(t *testing.T) {
	var creds credentials
	gated(t, server.Config{Authenticate: creds.authenticate}, func(s *site, g *gate) {
		first := creds.add("t1", "ann", time.Minute)
		session := s.sessionOf(first)
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), session, first))
		<-g.entered
		begin := time.Now()
		st := s.open(s.ctx(), http.MethodGet, "", session, first)
		st.end()
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("the stream ended after %v, want a minute", took)
		}
		if st.retry <= 0 {
			t.Error("the client was not asked to come back")
		}
		if got := s.post(raw("2", "tools/call", `{"name":"echo"}`), session, first); got.status != 401 {
			t.Errorf("with the expired credential: %d %s", got.status, got.body)
		}
		close(g.release)
		if got := <-call; got.status != 200 || !strings.Contains(got.body, `"result"`) {
			t.Errorf("the call that was under way: %d %s", got.status, got.body)
		}
		next, bob := creds.add("t2", "ann", time.Hour), creds.add("t3", "bob", time.Hour)
		if got := s.post(raw("3", "tools/call", `{"name":"echo"}`), session, next); got.status != 200 {
			t.Errorf("with a new credential: %d %s", got.status, got.body)
		}
		if got := s.post(raw("4", "tools/call", `{"name":"echo"}`), session, bob); got.status != 404 {
			t.Errorf("with that of another principal: %d %s", got.status, got.body)
		}
		again := s.open(s.ctx(), http.MethodGet, "", session, next)
		s.advance(30 * time.Minute)
		again.close()
	})
}

// A listen of a modern client ends with its credential, in order. A listen without an end goes
// on.
func TestExpiryOfAListen(t *testing.T) {
	var creds credentials
	bubble(t, tools(nil), server.Config{Authenticate: creds.authenticate}, func(s *site) {
		listen := func(h headers) *stream {
			return s.open(s.ctx(), http.MethodPost, modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeaders("subscriptions/listen", ""), h)
		}
		begin := time.Now()
		st, forever := listen(creds.add("t1", "ann", time.Minute)), listen(creds.add("t2", "ann", 0))
		st.next() // acknowledged
		if last := st.next(); !strings.Contains(last, `"result"`) || time.Since(begin) != time.Minute {
			t.Errorf("%s after %v; want the result after a minute", last, time.Since(begin))
		}
		st.end()
		forever.next()
		s.advance(24 * time.Hour)
		if n := s.server.Stats().InFlight; n != 1 {
			t.Errorf("%d in flight, want the listen without an end", n)
		}
		forever.close()
	})
}

// A connection of the older transport ends with the newest credential that was presented on
// it, and its requests have the identity of their own credential.
func TestExpiryOfSSE(t *testing.T) {
	var creds credentials
	seen := make(chan time.Duration, 1)
	h := tools(map[string]mcp.HandlerFunc{"when": func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen <- time.Until(req.Identity.Expires)
		return result(`{"content":[]}`)
	}})
	sseSite(t, h, server.Config{Authenticate: creds.authenticate}, func(s *site) {
		begin := time.Now()
		short := creds.add("t1", "ann", time.Minute)
		c, other := s.connect(short), s.connect(short)
		s.initializeSSE(c, short)
		s.initializeSSE(other, short)
		long := creds.add("t2", "ann", time.Hour)
		s.send(c.to, raw("1", "tools/call", `{"name":"when"}`), long)
		if got := <-seen; got != time.Hour {
			t.Errorf("the identity of the call expires in %v", got)
		}
		c.next()
		shorter := creds.add("t3", "ann", 30*time.Second)
		for _, conn := range []*sseConnection{c, other} {
			s.send(conn.to, raw("2", "tools/call", `{"name":"when"}`), shorter) // shortens nothing
			<-seen
			conn.next()
		}
		other.end()
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("the other connection ended after %v", took)
		}
		c.end()
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("the connection ended after %v", took)
		}
		short = creds.add("t4", "ann", time.Minute)
		c = s.connect(short)
		s.initializeSSE(c, short)
		s.send(c.to, raw("3", "tools/call", `{"name":"when"}`), creds.add("t5", "ann", 0)) // which does not end
		<-seen
		c.next()
		s.advance(24 * time.Hour)
		if n := s.server.Stats().Sessions; n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		c.cancel()
	})
}

// A message that waits for the session to open has the identity of its own credential, too.
func TestIdentityOfQueuedMessages(t *testing.T) {
	var creds credentials
	var seen chan string
	rest := tools(map[string]mcp.HandlerFunc{"as": func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen <- req.Identity.Subject
		return result(`{"content":[]}`)
	}})
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method == "server/discover" {
			seen <- req.Identity.Subject
			time.Sleep(time.Second)
		}
		return rest.Serve(ctx, req, c)
	})
	sseSite(t, h, server.Config{Authenticate: creds.authenticate}, func(s *site) {
		seen = make(chan string, 4)
		first, second := creds.add("t1", "ann", time.Hour), creds.add("t2", "ann", time.Hour)
		creds.known["t1"].Subject, creds.known["t2"].Subject = "first", "second"
		c := s.connect(first)
		defer c.cancel()
		s.send(c.to, oldest, first)
		s.send(c.to, initialized, first)
		s.send(c.to, raw("1", "tools/call", `{"name":"as"}`), first)
		s.send(c.to, raw("2", "tools/call", `{"name":"as"}`), second)
		s.send(c.to, raw("3", "ping", ""), first)
		s.advance(2 * time.Second)
		got := []string{<-seen, <-seen, <-seen}
		slices.Sort(got)
		if want := []string{"first", "first", "second"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A refusal without a challenge has no header for one.
func TestDeniedWithoutChallenge(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"t": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return nil, &mcp.Denied{Status: http.StatusForbidden, Err: mcp.Errorf(mcp.CodeInvalidRequest, "no")}
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		if got := s.call("t"); got.status != 403 || got.header.Values("WWW-Authenticate") != nil {
			t.Errorf("%d %q", got.status, got.header)
		}
	})
}

// A listen that the edge makes for a session has the identity of the request that caused it.
func TestIdentityOfInnerListens(t *testing.T) {
	var creds credentials
	seen := make(chan string, 4)
	h := tools(nil)
	watched := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method != "subscriptions/listen" {
			return h.Serve(ctx, req, c)
		}
		who := "unknown"
		if req.Identity != nil {
			who = req.Identity.Subject
		}
		seen <- who
		n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", req.Params.Bytes())
		if err != nil {
			return nil, err
		}
		if err := c.Notify(ctx, n); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return result(`{}`)
	})
	bubble(t, watched, server.Config{Authenticate: creds.authenticate}, func(s *site) {
		first, second := creds.add("t1", "ann", time.Hour), creds.add("t2", "ann", time.Hour)
		creds.known["t1"].Subject, creds.known["t2"].Subject = "first", "second"
		session := s.sessionOf(first)
		st := s.open(s.ctx(), http.MethodGet, "", session, second)
		if got := <-seen; got != "second" {
			t.Errorf("the standalone stream listens as %s", got)
		}
		if got := s.post(raw("1", "resources/subscribe", `{"uri":"x://y"}`), session, first); got.status != 200 || !strings.Contains(got.body, `"result"`) {
			t.Errorf("subscribe: %d %s", got.status, got.body)
		}
		if got := <-seen; got != "first" {
			t.Errorf("the subscription listens as %s", got)
		}
		st.close()
	})
}
