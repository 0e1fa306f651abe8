// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// ours is the origin of the servers of these tests.
const ours = "http://backend.test"

// issuer is a client.Credentials with one token for each principal, which it replaces when the
// server refuses it.
type issuer struct {
	shared bool  // one token for all
	end    error // of Refused, when the newest token was refused; nil replaces it

	mu       sync.Mutex
	current  map[string]uint64 // the generation of a principal's token
	asked    []string          // the methods of the requests passed to For
	refusals []client.Refusal
}

func (i *issuer) PerPrincipal() bool { return !i.shared }

func (i *issuer) For(_ context.Context, req *mcp.Request) (client.Credential, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = append(i.asked, req.Method)
	g := i.current[i.of(req)]
	return client.Credential{Header: map[string]mcp.Token{"Authorization": mcp.NewToken("Bearer " + tokenOf(i.of(req), g))}, Origin: ours, Generation: g}, nil
}

func (i *issuer) Refused(_ context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refusals = append(i.refusals, r)
	switch {
	case sent.Generation < i.current[i.of(req)]:
		return nil
	case i.end != nil:
		return i.end
	}
	i.renew(i.of(req))
	return nil
}

func (i *issuer) of(req *mcp.Request) string {
	if i.shared {
		return ""
	}
	return req.Principal
}

func (i *issuer) renew(principal string) {
	if i.current == nil {
		i.current = make(map[string]uint64)
	}
	i.current[principal]++
}

func (i *issuer) methods() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.asked...)
}

func (i *issuer) refused() []client.Refusal {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]client.Refusal(nil), i.refusals...)
}

// tokenOf returns a text that is long enough to be a secret.
func tokenOf(principal string, generation uint64) string {
	return fmt.Sprintf("token-of-%s-%d", principal, generation)
}

// protect returns a handler that passes to h the requests with an acceptable token, and answers
// the others with 401.
func protect(h http.Handler, accepts func(token string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !accepts(token) {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="https://other.test/secret-path"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// only accepts one token.
func only(token string) func(string) bool { return func(got string) bool { return got == token } }

// A request that is refused with 401 is sent again with the next credential, in both eras,
// on each kind of HTTP request.
func TestCredentialIsReplaced(t *testing.T) {
	for name, s := range map[string]*faultyserver.HTTP{"modern": {Modern: true}, "legacy": {Sessions: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				i := &issuer{shared: true}
				c := dialHTTP(t, protect(s, only(tokenOf("", 1))), client.Config{Credentials: i})
				res, err := within(t, c, echo(t), nil)
				wantResult(t, res, err, `{"content":[]}`)
				if got := i.refused(); len(got) != 1 || got[0].Status != 401 || len(got[0].Challenges) != 1 || !strings.HasPrefix(got[0].Challenges[0], "Bearer error=") {
					t.Errorf("refused: %v, want one 401 with its challenge", got)
				}
				if n := s.Count("tools/call"); n != 1 {
					t.Errorf("%d calls passed, want 1", n)
				}
			})
		})
	}
}

// Each HTTP request of a session carries the credential, up to its end.
func TestCredentialOfEachRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		i := &issuer{shared: true}
		c := dialHTTP(t, s, client.Config{Credentials: i})
		res, err := within(t, c, echo(t), nil)
		wantResult(t, res, err, `{"content":[]}`)
		<-s.open
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Seen() {
			if got := r.Header.Get("Authorization"); got != "Bearer "+tokenOf("", 0) {
				t.Errorf("%s %s has %q", r.Verb, r.Method, got)
			}
		}
		if s.Count("DELETE") != 1 || s.Count("GET") != 1 {
			t.Error("not each kind of request was sent")
		}
		count := map[string]int{}
		for _, m := range i.methods() {
			count[m]++
		}
		for _, m := range []string{"server/discover", "initialize", "subscriptions/listen", "tools/call", ""} {
			if count[m] == 0 {
				t.Errorf("not asked for a request %q, but for %v", m, count)
			}
		}
	})
}

// Over HTTP with SSE, the stream and the messages are refused and sent again.
func TestCredentialOfSSE(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		i := &issuer{shared: true}
		accepted := tokenOf("", 1)
		var mu sync.Mutex
		accepts := func(token string) bool {
			mu.Lock()
			defer mu.Unlock()
			return token == accepted
		}
		c := dialSSE(t, protect(&sseServer{announce: sseEndpoint}, accepts), client.Config{Credentials: i})
		if _, err := within(t, c, echo(t), nil); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		accepted = tokenOf("", 2) // the first one expires in mid-session
		mu.Unlock()
		if _, err := within(t, c, echo(t), nil); err != nil {
			t.Fatal(err)
		}
		if n := len(i.refused()); n != 2 {
			t.Errorf("%d refusals, want 2", n)
		}
	})
}

// A server that answers 401 for ever costs one retry, whatever Credentials return (identity attack
// 29).
func TestRefusedForEver(t *testing.T) {
	for name, version := range map[string]mcp.Version{"modern": mcp.LatestModern, "legacy": mcp.LatestLegacy} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := 0
				refuse := protect(nil, func(string) bool { n++; return false })
				c := dialHTTP(t, refuse, client.Config{Credentials: &issuer{shared: true}, Version: version})
				_, err := within(t, c, echo(t), nil)
				wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "it requires a sign-in")
				if n != 2 {
					t.Errorf("%d requests, want 2", n)
				}
				n = 0
				end := errors.New("correct oauth.clientSecret")
				c = dialHTTP(t, refuse, client.Config{Credentials: &issuer{shared: true, end: end}, Version: version})
				_, err = within(t, c, echo(t), nil)
				wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "correct oauth.clientSecret")
				if f, _ := errors.AsType[*mcp.Fault](err); f.Reason != code.AuthBackend || f.Message != end.Error() || !errors.Is(err, end) {
					t.Errorf("%s %q, want %s with the text of Refused", f.Reason, f.Message, code.AuthBackend)
				}
				if n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				if strings.Contains(err.Error(), "other.test") {
					t.Errorf("the challenge is passed on: %v", err)
				}
			})
		})
	}
}

// A 403 after the retry of a 401 has a retry of its own, and no other (identity attack 30).
func TestForbiddenAfterUnauthorized(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var statuses []int
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status := []int{401, 403}[len(statuses)%2]
			statuses = append(statuses, status)
			w.WriteHeader(status)
		})
		i := &issuer{shared: true}
		_, err := within(t, dialHTTP(t, h, client.Config{Credentials: i, Version: mcp.LatestModern}), echo(t), nil)
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "401")
		if len(statuses) != 3 || len(i.refused()) != 3 {
			t.Errorf("statuses %v, %d refusals, want 3", statuses, len(i.refused()))
		}
	})
}

// An error of Credentials ends the request before it is sent, and is not sent again. The
// server's own errors of a protocol pass as they are.
func TestErrorsOfCredentials(t *testing.T) {
	own := mcp.Errorf(-32042, "sign in")
	for name, tt := range map[string]struct {
		err  error
		want func(t *testing.T, err error)
	}{
		"plain": {errors.New("no grant\x1b[31m of a-secret-of-the-config"), func(t *testing.T, err error) {
			t.Helper()
			wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, `no grant\x1b[31m of [redacted]`)
		}},
		"error": {own, func(t *testing.T, err error) {
			t.Helper()
			if err != error(own) { //nolint:errorlint // as it is
				t.Errorf("%v, want the error itself", err)
			}
		}},
		"fault": {&mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: "b", Message: "no"}, func(t *testing.T, err error) {
			t.Helper()
			wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "no")
		}},
	} {
		legacy := func(t *testing.T, h http.Handler, cfg client.Config) *client.Client {
			t.Helper()
			cfg.Version = mcp.LatestLegacy
			return dialHTTP(t, h, cfg)
		}
		for _, dial := range []func(*testing.T, http.Handler, client.Config) *client.Client{dialHTTP, dialSSE, legacy} {
			inBubble(t, func(t *testing.T) {
				asked, sent := 0, 0
				h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ })
				c := dial(t, h, client.Config{Redact: []string{"a-secret-of-the-config"}, Credentials: given(func(*mcp.Request) (client.Credential, error) {
					asked++
					return client.Credential{}, tt.err
				})})
				_, err := within(t, c, echo(t), nil)
				tt.want(t, err)
				if asked != 1 || sent != 0 {
					t.Errorf("%s: asked %d times, sent %d requests, want 1 and 0", name, asked, sent)
				}
			})
		}
	}
}

// given is a client.Credentials that accepts each refusal.
type given func(*mcp.Request) (client.Credential, error)

func (given) PerPrincipal() bool { return false }

func (g given) For(_ context.Context, req *mcp.Request) (client.Credential, error) { return g(req) }

func (given) Refused(context.Context, *mcp.Request, client.Credential, client.Refusal) error {
	return client.ErrRefused
}

// With ErrRefused a request ends as it does without Credentials: with the error that the server
// has sent, or one that names the status.
func TestRefusedAsBefore(t *testing.T) {
	for _, status := range []int{401, 403} {
		for _, body := range []string{"", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32010,"message":"no"}}`} {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
					x.Status(status, "application/json", strings.ReplaceAll(body, "%s", x.Msg.ID.String()))
				}}}
				var texts [2]string
				for n, cfg := range []client.Config{{}, {Credentials: given(func(*mcp.Request) (client.Credential, error) { return client.Credential{}, nil })}} {
					_, err := within(t, dialHTTP(t, s, cfg), echo(t), nil)
					texts[n] = fmt.Sprintf("%T %v", err, err)
				}
				if texts[0] != texts[1] || s.Count("tools/call") != 2 {
					t.Errorf("%q with Credentials, want %q", texts[1], texts[0])
				}
			})
		}
	}
}

// A credential for another origin is not sent, nor one that sets a field of the protocol (N3,
// identity attack 39).
func TestCredentialsThatAreNotSent(t *testing.T) {
	secret := mcp.NewToken("Bearer canary-token")
	for name, c := range map[string]client.Credential{
		"another scheme":   {Header: map[string]mcp.Token{"Authorization": secret}, Origin: "https://backend.test"},
		"another port":     {Header: map[string]mcp.Token{"Authorization": secret}, Origin: "http://backend.test:8080"},
		"another host":     {Header: map[string]mcp.Token{"Authorization": secret}, Origin: "http://backend.test.evil.test"},
		"no origin":        {Header: map[string]mcp.Token{"Authorization": secret}},
		"protocol's field": {Header: map[string]mcp.Token{"mcp-session-id": secret}, Origin: ours},
		"field of HTTP":    {Header: map[string]mcp.Token{"Content-length": secret}, Origin: ours},
		"no field":         {Header: map[string]mcp.Token{"A b": secret}, Origin: ours},
		"line break":       {Header: map[string]mcp.Token{"Authorization": mcp.NewToken("canary-token\r\nX: y")}, Origin: ours},
		"empty":            {Header: map[string]mcp.Token{"Authorization": {}}, Origin: ours},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				sent := 0
				h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ })
				cl := dialHTTP(t, h, client.Config{Credentials: given(func(*mcp.Request) (client.Credential, error) { return c, nil })})
				_, err := within(t, cl, echo(t), nil)
				wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "its credential is ")
				if sent != 0 || strings.Contains(err.Error(), "canary") {
					t.Errorf("%d requests, error %v", sent, err)
				}
			})
		})
	}
}

// An origin is compared as text: it has one form.
func TestOriginOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://Backend.TEST/mcp?x=1": ours, "HTTP://backend.test:80": ours, "http://u:p@backend.test": ours,
		"https://backend.test:443/": "https://backend.test", "https://backend.test:8443": "https://backend.test:8443",
		"http://[::1]:80/": "http://[::1]", "http://[::1]:8080": "http://[::1]:8080",
		"ftp://a": "", "/mcp": "", "http://": "", "://": "", "http://secret-word:x y@z": "",
	} {
		got, err := client.OriginOf(url)
		if got != want || (err != nil) != (want == "") || err != nil && strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: %q %v, want %q", url, got, err, want)
		}
	}
}

// Credentials that refuse the probe for one principal do not end the request of another one that
// waits for it, and do not indicate the era.
func TestProbeOfAnotherPrincipal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true}
		asked, refuse := make(chan struct{}), make(chan struct{})
		i := &issuer{}
		c := dialHTTP(t, s, client.Config{Credentials: slow{i, func(req *mcp.Request) error {
			if req.Principal != "alice" {
				return nil
			}
			close(asked)
			<-refuse
			return mcp.Errorf(-32042, "for alice only")
		}}})
		alice, bob := echo(t), echo(t)
		alice.Principal, bob.Principal = "alice", "bob"
		first := launch(t, c, alice, nil)
		<-asked
		second := launch(t, c, bob, nil)
		synctest.Wait()
		close(refuse)
		second.wantResult(t, `{"content":[]}`)
		<-first.done
		wantError(t, first.err, -32042)
		if got := c.Stats().Era; got != mcp.EraModern {
			t.Errorf("era %v", got)
		}
	})
}

// slow is an issuer that first calls a function.
type slow struct {
	*issuer
	before func(*mcp.Request) error
}

func (s slow) For(ctx context.Context, req *mcp.Request) (client.Credential, error) {
	if err := s.before(req); err != nil {
		return client.Credential{}, err
	}
	return s.issuer.For(ctx, req)
}

// If a stream cannot be resumed for lack of a credential, it is unknown whether the request was
// executed, and it is not sent again (identity attack 31).
func TestRefusedAfterTheFirstByte(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		get := s.On["GET"]
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") != "" {
				x.Status(401, "", "")
				return
			}
			get(x)
		}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			x.Raw("retry: 10\nid: p1\ndata:\n\n")
		}
		i := &issuer{shared: true, end: errors.New("no token")}
		_, err := within(t, dialHTTP(t, s, client.Config{Credentials: i}), echo(t), nil)
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "no valid credential to resume")
		if n := s.Count("tools/call"); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}

// A stream of a session that is refused is opened again with the next credential, and then
// everything counts as changed.
func TestListenStreamWithNewCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = `{"tools":{"listChanged":true}}`
		get, gets, expired := s.On["GET"], 0, make(chan struct{})
		s.On["GET"] = func(x *faultyserver.Exchange) {
			switch gets++; {
			case gets == 1:
				x.Begin()
				<-expired
			case x.R.Header.Get("Authorization") != "Bearer "+tokenOf("", 2):
				x.Status(401, "", "")
			default:
				get(x)
			}
		}
		// The second token comes a minute after the first one was refused.
		i := &issuer{shared: true, end: errors.New("no token now")}
		ear := &recorder{}
		launch(t, dialHTTP(t, s, client.Config{Credentials: i}), request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`), ear)
		synctest.Wait()
		close(expired)
		time.Sleep(time.Minute)
		i.mu.Lock()
		i.renew("")
		i.renew("")
		i.mu.Unlock()
		<-s.open
		time.Sleep(time.Minute)
		wantStrings(t, "the listen", ear.notifications(), []string{
			`subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}`, "tools/list_changed",
		})
	})
}

// What Credentials give is removed from the log, from errors about it, and from a server's log
// messages, also after it was replaced.
func TestCredentialsAreRedacted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var text strings.Builder
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			all := tokenOf("", 0) + " " + tokenOf("", 1)
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"sent `+all+`"}}`)
			x.Response(`{"resultType":"complete","content":[]}`)
		}, "resources/read": func(x *faultyserver.Exchange) {
			x.Status(500, "text/plain", "bad token "+tokenOf("", 1))
		}}}
		cfg := client.Config{Credentials: &issuer{shared: true}, Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		c := dialHTTP(t, protect(s, only(tokenOf("", 1))), cfg)
		caller := &recorder{}
		req := echo(t)
		req.LogLevel = mcp.LogDebug
		if _, err := within(t, c, req, caller); err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "log messages", caller.notifications(), []string{`message {"level":"info","data":"sent [redacted] [redacted]"}`})
		if _, err := within(t, c, request(t, "resources/read", `{"uri":"a:b"}`), caller); err == nil || strings.Contains(err.Error(), "token-of") {
			t.Errorf("error %v", err)
		}
		if log := text.String(); strings.Contains(log, "token-of") || !strings.Contains(log, "bad token [redacted]") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// A large message is sent again in full if the server answers before it has read it.
func TestLargeMessageIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			args := x.Msg.Params.Raw(mcp.FieldArguments)
			x.Result(fmt.Sprintf(`{"content":[],"resultType":"complete","n":%d}`, len(args)))
		}}}
		c := dialHTTP(t, protect(s, only(tokenOf("", 1))), client.Config{Credentials: &issuer{shared: true}, Version: mcp.LatestModern})
		args := `{"text":"` + strings.Repeat("x", 3<<20) + `"}`
		res, err := within(t, c, request(t, "tools/call", `{"name":"echo","arguments":`+args+`}`), nil)
		wantResult(t, res, err, fmt.Sprintf(`{"content":[],"resultType":"complete","n":%d}`, len(args)))
		time.Sleep(time.Second) // net/http delays the end of the connection with the first response
	})
}

// A request that was refused, and could then not be sent again, was not dispatched.
func TestNotSentAfterRefusal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sent := 0
		refuse := protect(nil, func(string) bool { return false })
		around := func(rt http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if sent++; sent == 1 {
					return rt.RoundTrip(r)
				}
				r.Body.Close()
				return nil, errors.New("no connection")
			})
		}
		c := dialHTTPThrough(t, refuse, client.Config{Credentials: &issuer{shared: true}, Version: mcp.LatestModern}, around)
		_, err := within(t, c, echo(t), nil)
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "no connection")
	})
}

// Errors of Credentials mean nothing about the era of the server: it is not probed again, and the
// sessions of others go on.
func TestErrorsOfCredentialsProbeNothing(t *testing.T) {
	for _, s := range []*faultyserver.HTTP{{Modern: true}, {Sessions: true}} {
		inBubble(t, func(t *testing.T) {
			i := &issuer{}
			c := dialHTTP(t, s, client.Config{Credentials: slow{i, func(req *mcp.Request) error {
				if req.Principal == "bob" {
					if req.Method == "server/discover" {
						t.Error("the server is probed")
					}
					return mcp.Errorf(-32042, "sign in")
				}
				return nil
			}}})
			alice, bob := echo(t), echo(t)
			alice.Principal, bob.Principal = "alice", "bob"
			for range 3 {
				res, err := within(t, c, alice, nil)
				wantResult(t, res, err, `{"content":[]}`)
				for range 4 {
					_, err = within(t, c, bob, nil)
					wantError(t, err, -32042)
					time.Sleep(5 * time.Second)
				}
			}
			if s.Count("server/discover") != 1 || s.Count("initialize") > 1 {
				t.Errorf("%d probes and %d handshakes, want 1 of each", s.Count("server/discover"), s.Count("initialize"))
			}
			time.Sleep(time.Minute)
		})
	}
}
