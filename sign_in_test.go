// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// signInPeers are a backend that requires the token of a user, and its authorization server.
type signInPeers struct {
	t               *testing.T
	issuer, backend *httptest.Server
	server          *faultyserver.HTTP

	registered, asked, issued atomic.Int64
	response                  atomic.Pointer[func(url.Values)] // changes the authorization response
	foreign                   atomic.Pointer[string]           // an Authorization header that is not the user's
	redirect                  atomic.Pointer[string]           // the redirect URI of the last token
	revoked                   atomic.Bool
	folder                    string            // of the states of the gateways
	codes                     map[string]string // the principal's choice, by code
}

const userToken = "canary-access-token-of-the-user"

func newSignInPeers(t *testing.T) *signInPeers {
	t.Helper()
	p := &signInPeers{t: t, folder: t.TempDir(), codes: make(map[string]string)}
	write := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // the client has disconnected
	}
	as := http.NewServeMux()
	as.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		write(w, 200, map[string]any{
			"issuer": p.issuer.URL, "authorization_endpoint": p.issuer.URL + "/authorize", "token_endpoint": p.issuer.URL + "/token",
			"registration_endpoint": p.issuer.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
			"authorization_response_iss_parameter_supported": true, "response_types_supported": []string{"code"},
		})
	})
	as.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		p.registered.Add(1)
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in)
		in["client_id"] = "registered-client"
		write(w, 201, in)
	})
	as.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		q := r.URL.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("client_id") != "registered-client" {
			http.Error(w, "bad request", 400)
			return
		}
		back := url.Values{"state": {q.Get("state")}, "iss": {p.issuer.URL}, "code": {"canary-code"}}
		if change := p.response.Load(); change != nil {
			(*change)(back)
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	as.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("code") != "canary-code" || r.FormValue("code_verifier") == "" {
			write(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		p.issued.Add(1)
		redirect := r.FormValue("redirect_uri")
		p.redirect.Store(&redirect)
		write(w, 200, map[string]any{"access_token": userToken, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "canary-refresh-token"})
	})
	p.issuer = httptest.NewServer(as)
	t.Cleanup(p.issuer.Close)
	p.server = &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/list": func(x *faultyserver.Exchange) {
		x.Result(`{"resultType":"complete","tools":[{"name":"find","inputSchema":{"type":"object"}}]}`)
	}}}
	p.backend = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		if got != "" && got != "Bearer "+userToken {
			p.foreign.Store(&got)
		}
		switch {
		case r.URL.Path == "/.well-known/oauth-protected-resource/mcp":
			write(w, 200, map[string]any{"resource": p.backend.URL + "/mcp", "authorization_servers": []string{p.issuer.URL}, "scopes_supported": []string{"files:read"}})
		case r.URL.Path != "/mcp":
			http.NotFound(w, r)
		case got != "Bearer "+userToken || p.revoked.Load():
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", p.backend.URL+"/.well-known/oauth-protected-resource/mcp"))
			w.WriteHeader(http.StatusUnauthorized)
		default:
			p.server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.backend.Close)
	return p
}

// signInGateway is a gateway in front of the backend.
type signInGateway struct {
	*signalbox.Gateway
	t    *testing.T
	edge *httptest.Server
	log  *syncBuffer
	at   string // the profile of its clients
}

// open starts a gateway with the backend as "crm". more are further members of its configuration.
func (p *signInPeers) open(more string) *signInGateway {
	p.t.Helper()
	text := fmt.Sprintf(`{"mcpServers": {"crm": {"url": "%s/mcp"%s}`, p.backend.URL, more)
	env := func(name string) (string, bool) {
		return "canary-token-of-" + strings.ToLower(name), strings.HasPrefix(name, "T_")
	}
	cfg, err := config.Parse("x.json", []byte(text), env)
	if err != nil {
		p.t.Fatal(err)
	}
	var g *signalbox.Gateway
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.IsSignIn(r.URL.Path) {
			g.ServeSignIn(w, r)
			return
		}
		g.ServeHTTP(w, r.WithContext(signalbox.WithProfile(r.Context(), strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/mcp"), "/"))))
	}))
	log := newSyncBuffer()
	g, err = signalbox.New(*cfg, signalbox.Options{
		StateFolder: p.folder, SignInPages: func() (string, func(), error) { return edge.URL, func() {}, nil },
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		edge.Close()
		if err := g.Close(); err != nil {
			p.t.Error(err)
		}
		if strings.Contains(log.String(), "canary") {
			p.t.Errorf("the log has a credential:\n%s", log)
		}
	})
	return &signInGateway{g, p.t, edge, log, ""}
}

// keyed are members with a key for the vault.
const keyed = `}}, "credentials": {"keys": ["a key of thirty-two characters or more"]}`

// call sends a modern request, and returns the response.
func (g *signInGateway) call(token, method, name, caps, more string) string {
	g.t.Helper()
	req, err := g.request(g.t.Context(), token, method, name, caps, more)
	if err != nil {
		g.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// request returns a modern request.
func (g *signInGateway) request(ctx context.Context, token, method, name, caps, more string) (*http.Request, error) {
	field := "name"
	if method == "resources/read" {
		field = "uri"
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%q:%q%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`,
		method, field, name, more, caps)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.edge.URL+"/mcp/"+g.at, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(name, value)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

const withURL = `{"elicitation":{"url":{}}}`

// browser is a person with a browser.
type browser struct {
	t *testing.T
	*http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar}}
}

// get returns the status and the page.
func (b *browser) get(url string) (int, string, http.Header) {
	b.t.Helper()
	resp, err := b.Get(url)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// post sends the form of a page, from an origin.
func (b *browser) post(to, origin string, form url.Values) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", origin)
	resp, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

var (
	pageURL  = regexp.MustCompile(`http://[^"\s\\]*/signin/[A-Z0-9]+`)
	stateOf  = regexp.MustCompile(`"requestState":"([^"]*)"`)
	toolList = regexp.MustCompile(`"name":"(crm__[a-z_]+)"`)
)

// Without any configuration, a server that answers 401 has its user sign in: the tool for that is
// listed, the browser signs in, the call goes on, and the tools of the server are listed.
func TestSignInWithoutConfiguration(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	if s := retried(t, g.Gateway, "down"); s.Code != "SB_AUTH_SIGN_IN" {
		t.Fatalf("code %s, reason %s", s.Code, s.Reason)
	}
	if list := g.call("", "tools/list", "", `{}`, ""); !strings.Contains(list, `"crm__sign_in"`) {
		t.Fatalf("tools %s", list)
	}
	res := g.call("", "tools/call", "crm__sign_in", withURL, "")
	page, state := pageURL.FindString(res), stateOf.FindStringSubmatch(res)
	if page == "" || len(state) != 2 || !strings.Contains(res, `"inputRequests":{"signin":{"method":"elicitation/create","params":{"mode":"url","url":`) {
		t.Fatalf("result %s", res)
	}
	b := newBrowser(t)
	status, html, header := b.get(page)
	if status != 200 || !strings.Contains(html, "files:read") || !strings.Contains(html, strings.TrimPrefix(p.issuer.URL, "http://")) {
		t.Fatalf("status %d\n%s", status, html)
	}
	if got := header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") || !strings.Contains(got, "frame-ancestors 'none'") {
		t.Errorf("CSP %q", got)
	}
	if header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("header %v", header)
	}
	status, html = b.post(page, g.edge.URL, nil)
	if status != 200 || !strings.Contains(html, "You are signed in to crm") {
		t.Fatalf("status %d\n%s", status, html)
	}
	res = g.call("", "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state[1]+`","inputResponses":{"signin":{"action":"accept"}}`)
	if !strings.Contains(res, "You are signed in") {
		t.Fatalf("result %s", res)
	}
	if list := g.call("", "tools/list", "", `{}`, ""); strings.Join(toolList.FindStringSubmatch(list), " ") != `"name":"crm__find" crm__find` {
		t.Fatalf("tools %s", list)
	}
	if res := g.call("", "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Fatalf("result %s", res)
	}
	if p.foreign.Load() != nil {
		t.Errorf("the backend got %q", *p.foreign.Load())
	}
}
