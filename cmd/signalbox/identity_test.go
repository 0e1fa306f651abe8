// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

// identityProvider is an identity provider for the tests of the command.
type identityProvider struct {
	*httptest.Server
	t   *testing.T
	key crypto.Signer

	mu     sync.Mutex
	issued []string // all tokens
}

// unservedProvider returns an identity provider without its server.
func unservedProvider(t *testing.T) *identityProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &identityProvider{t: t, key: key}
}

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	p := unservedProvider(t)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, p.URL, p.URL+"/keys")
		case "/keys":
			p.serveKeys(w)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// serveKeys answers with the public key.
func (p *identityProvider) serveKeys(w http.ResponseWriter) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Use: "sig"}}}
	_ = json.NewEncoder(w).Encode(set) // the client has disconnected
}

// token returns a token with changed claims and a changed key.
func (p *identityProvider) token(key crypto.Signer, changes map[string]any) string {
	p.t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "sub": "ann", "aud": "https://mcp.example.com/mcp", "scope": "mcp:use", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "canary": "CANARY" + rand.Text(),
	}
	maps.Copy(claims, changes)
	payload, err := json.Marshal(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "k1"}})
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.issued = append(p.issued, text)
	return text
}

// recordingBackend is an MCP server that records everything that it receives.
func recordingBackend(t *testing.T) (url string, received func() string) {
	t.Helper()
	m := mux.New(mux.Tool{Name: "echo", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("done"), nil }})
	srv := server.New(m, server.Config{})
	var all commandtest.Buffer
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(&all, "%s %s %v %s\n", r.Method, r.URL, r.Header, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		srv.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = srv.Close()
		web.Close()
	})
	return web.URL, all.String
}

// asked is the answer to a request with some headers.
type asked struct {
	status int
	header http.Header
	body   string
}

// ask sends a request, and reads a stream for a moment only.
func ask(t *testing.T, method, url, body string, headers map[string]string) asked {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		}
		r.Header[name] = strings.Split(value, "\n")
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	got := asked{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		got.body = string(raw)
	}
	return got
}

// whileServed runs serve with a configuration, and f with its address and everything that it has
// written since.
func whileServed(t *testing.T, configuration string, f func(e *commandtest.Env, at string)) {
	t.Helper()
	e := commandtest.New(t, "")
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), configuration)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- runCommand(ctx, e, "serve", "--listen", "127.0.0.1:0") }() // ends with ctx
	commandtest.AwaitText(t, e.Err, "/mcp\n", 1)
	at := regexp.MustCompile(`listening on (http://\S+)/mcp`).FindStringSubmatch(e.Err.String())
	if at == nil {
		t.Fatalf("serve does not listen: %s", e.Err)
	}
	f(e, at[1])
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
}

const modernList = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// Requirements I1 to I4, N1 and N15, and the identity attacks 1 and 5 to 9: all routes refuse
// all bad credentials with a challenge that names the metadata of the route, and serve a good
// one. No token and no part of one is in the log, in an answer, at the backend or in a file,
// and no header of a request has an effect on a URL.
func TestRoutesNeedCredentials(t *testing.T) {
	t.Parallel()
	idp := newIdentityProvider(t)
	backend, received := recordingBackend(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	configuration := fmt.Sprintf(`publicURL: https://mcp.example.com
auth:
  issuers:
    - {name: corp, issuer: %q, scopes: ["mcp:use"]}
log: {level: debug}
audit: {file: audit.jsonl}
profiles: {chat: {}}
mcpServers: {b: {url: %q}}
`, idp.URL, backend)
	dir := ""
	whileServed(t, configuration, func(e *commandtest.Env, at string) {
		type route struct{ method, path, body, resource string }
		routes := []route{
			{"POST", "/mcp", modernList, "/mcp"},
			{"POST", "/mcp", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, "/mcp"},
			{"GET", "/mcp", "", "/mcp"},
			{"DELETE", "/mcp", "", "/mcp"},
			{"POST", "/mcp/p/chat", modernList, "/mcp/p/chat"},
			{"POST", "/mcp/p/unknown", modernList, "/mcp/p/unknown"},
			{"GET", "/sse", "", "/sse"},
			{"POST", "/sse", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, "/sse"},
			{"GET", "/sse/p/chat", "", "/sse/p/chat"},
			{"GET", "/status", "", "/mcp"},
			{"GET", "/metrics", "", "/mcp"},
		}
		good := idp.token(idp.key, nil)
		unsigned := strings.Split(good, ".")
		unsigned[0] = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
		for _, tt := range []struct {
			name, authorization string
			status              int
			description         string
		}{
			{"nothing", "", 401, ""},
			{"good", "Bearer " + good, 200, ""},
			{"without the scope", "Bearer " + idp.token(idp.key, map[string]any{"scope": "openid"}), 403, "requests need the scope mcp:use"},
			{"alg none", "Bearer " + strings.Join(unsigned, "."), 401, "the token is not verified"},
			{"key of another", "Bearer " + idp.token(other, nil), 401, "the token is not verified"},
			{"expired", "Bearer " + idp.token(idp.key, map[string]any{"exp": 1}), 401, "the token has expired"},
			{"not valid yet", "Bearer " + idp.token(idp.key, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), 401, "the token is not valid yet"},
			{"sibling gateway", "Bearer " + idp.token(idp.key, map[string]any{"aud": "https://other.example.com/mcp"}), 401, "the token is for another audience"},
			{"ID token", "Bearer " + idp.token(idp.key, map[string]any{"nonce": "x"}), 401, "the token is for another audience"},
			{"bound", "Bearer " + idp.token(idp.key, map[string]any{"cnf": map[string]any{"jkt": "x"}}), 401, "the token is not verified"},
			{"unknown issuer", "Bearer " + idp.token(idp.key, map[string]any{"iss": "https://elsewhere.example"}), 401, "the token is of an unknown issuer"},
			{"two headers", "Bearer " + good + "\nBearer " + good, 401, "the token is malformed"},
			{"bearer twice", "Bearer Bearer " + good, 401, "the token is not verified"},
			{"another scheme", "DPoP " + good, 401, "the token is malformed"},
			{"opaque", "Bearer CANARY-opaque-token-0123456789", 401, "the token is not verified"},
		} {
			for _, r := range routes {
				headers := map[string]string{
					"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
					"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-User": "root", "Forwarded": "host=evil.example",
					"Host": "mcp.example.com",
				}
				if tt.authorization != "" {
					headers["Authorization"] = tt.authorization
				}
				got := ask(t, r.method, at+r.path, r.body, headers)
				what := fmt.Sprintf("%s: %s %s", tt.name, r.method, r.path)
				if tt.status == 200 {
					if got.status == 401 || got.status == 403 || got.status >= 500 {
						t.Errorf("%s: %d %s", what, got.status, got.body)
					}
					continue
				}
				challenge := got.header.Get("Www-Authenticate")
				want := `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource` + r.resource + `"`
				if got.status != tt.status || !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, want) || !strings.Contains(challenge, `scope="mcp:use"`) {
					t.Errorf("%s: %d\n got %s\nwant %s", what, got.status, challenge, want)
				}
				if tt.description == "" && strings.Contains(challenge, "error") || !strings.Contains(challenge, tt.description) {
					t.Errorf("%s: challenge %s", what, challenge)
				}
				if strings.Contains(fmt.Sprint(got), "evil") || !json.Valid([]byte(got.body)) || !strings.Contains(got.body, `"error"`) {
					t.Errorf("%s: %+v", what, got)
				}
				if tt.name == "nothing" {
					checkMetadata(t, at, r.resource, idp.URL)
				}
			}
		}
		for _, headers := range []map[string]string{nil, {"Authorization": "Bearer " + good, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}} {
			inQuery := ask(t, "POST", at+"/mcp?access_token="+good, modernList, headers)
			if inQuery.status != 401 || !strings.Contains(inQuery.header.Get("Www-Authenticate"), "resource_metadata=") {
				t.Errorf("token in the query: %+v", inQuery)
			}
		}
		// A call that reaches the backend.
		call := strings.Replace(modernList, "tools/list", "tools/call", 1)
		call = strings.Replace(call, `"params":{`, `"params":{"name":"b__echo",`, 1)
		if got := ask(t, "POST", at+"/mcp", call, map[string]string{
			"Authorization": "Bearer " + good, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "b__echo",
		}); got.status != 200 || !strings.Contains(got.body, "done") {
			t.Errorf("the call: %+v", got)
		}
		if foreign := ask(t, "GET", at+"/.well-known/oauth-protected-resource/mcp", "", map[string]string{"Host": "evil.example"}); foreign.status != 403 {
			t.Errorf("metadata for a foreign host: %+v", foreign)
		}
		status := ask(t, "GET", at+"/status", "", map[string]string{"Authorization": "Bearer " + good})
		if !strings.Contains(status.body, `"issuers": [`) || !strings.Contains(status.body, `"keys": 1`) {
			t.Errorf("status: %s", status.body)
		}
		metrics := ask(t, "GET", at+"/metrics", "", map[string]string{"Authorization": "Bearer " + good})
		for _, want := range []string{`signalbox_authentications_total{form="jwt",outcome="accepted"}`, `signalbox_key_fetches_total{issuer="corp",outcome="good"}`} {
			if !strings.Contains(metrics.body, want) {
				t.Errorf("metrics lack %s", want)
			}
		}
		if strings.Contains(metrics.body, "corp:ann") {
			t.Error("a metric has a principal")
		}
		idp.checkNowhere(t, "status", status.body)
		idp.checkNowhere(t, "metrics", metrics.body)
		idp.checkNowhere(t, "the log", e.Err.String())
		idp.checkNowhere(t, "standard output", e.Out.String())
		idp.checkNowhere(t, "the backend", received())
		if !strings.Contains(received(), "tools/call") {
			t.Errorf("the backend has received no call: %s", received())
		}
		dir = e.Dir
	})
	// The record is complete once the gateway has ended.
	record, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil || !strings.Contains(string(record), "the token has expired") || !strings.Contains(string(record), "corp:ann") {
		t.Errorf("%v: the audit record lacks a refusal or the call", err)
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			raw, _ := os.ReadFile(path)
			idp.checkNowhere(t, path, string(raw))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// checkMetadata fetches the metadata of a resource, and the root form.
func checkMetadata(t *testing.T, at, resource, issuer string) {
	t.Helper()
	for _, path := range []string{resource, ""} {
		got := ask(t, "GET", at+"/.well-known/oauth-protected-resource"+path, "", map[string]string{
			"Host": "mcp.example.com", "Origin": "https://app.example", "X-Forwarded-Host": "evil.example",
		})
		want := resource
		if path == "" {
			want = "/mcp"
		}
		if got.status != 200 || !strings.Contains(got.body, `"resource":"https://mcp.example.com`+want+`"`) || !strings.Contains(got.body, issuer) ||
			got.header.Get("Access-Control-Allow-Origin") != "*" || strings.Contains(got.body, "evil") {
			t.Errorf("metadata of %s: %+v", resource, got)
		}
	}
}

// checkNowhere checks that a text has no part of a token.
func (p *identityProvider) checkNowhere(t *testing.T, where, text string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(text, "CANARY") {
		t.Errorf("%s has a claim", where)
	}
	for _, token := range p.issued {
		for _, part := range strings.Split(token, ".")[1:] {
			if strings.Contains(text, part[:16]) {
				t.Errorf("%s has a part of a token:\n%s", where, text)
				return
			}
		}
	}
}

// identity attack 40: a reload cannot remove an issuer from a running gateway.
func TestReloadKeepsIssuers(t *testing.T) {
	t.Parallel()
	idp := newIdentityProvider(t)
	configuration := fmt.Sprintf("publicURL: https://mcp.example.com\nauth: {issuers: [{name: corp, issuer: %q}]}\nmcpServers: {}\n", idp.URL)
	whileServed(t, configuration, func(e *commandtest.Env, at string) {
		token := map[string]string{"Authorization": "Bearer " + idp.token(idp.key, nil)}
		for _, tt := range []struct{ next, refused string }{
			{strings.Replace(configuration, "mcp.example.com", "other.example.com", 1), "publicURL cannot be changed"},
			{"mcpServers: {}\n", "auth cannot be changed"},
		} {
			commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), tt.next)
			commandtest.AwaitText(t, e.Err, tt.refused, 1)
			if got := ask(t, "GET", at+"/status", "", token); got.status != 200 {
				t.Errorf("with a token: %d %s", got.status, got.body)
			}
			if got := ask(t, "GET", at+"/status", "", nil); got.status != 401 {
				t.Errorf("without a token: %d", got.status)
			}
		}
	})
}
