// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

// newExchangingProvider returns an identity provider that exchanges the tokens of its users for
// exchanged-SUB. seen is everything that it has received but for the subject tokens.
func newExchangingProvider(t *testing.T) (p *identityProvider, seen func() string) {
	t.Helper()
	p = unservedProvider(t)
	var all commandtest.Buffer
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		subject := ""
		if r.Method == http.MethodPost && r.URL.Path == "/token" {
			_ = r.ParseForm() // an invalid form has no values
			subject = r.PostForm.Get("subject_token")
			r.PostForm.Del("subject_token")
		}
		fmt.Fprintf(&all, "%s %s %v %s\n", r.Method, r.URL, r.Header, r.PostForm.Encode())
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q, "token_endpoint": %q}`, p.URL, p.URL+"/keys", p.URL+"/token")
		case "/keys":
			p.serveKeys(w)
		case "/token":
			signed, err := jose.ParseSignedCompact(subject, []jose.SignatureAlgorithm{jose.ES256})
			var claims struct{ Sub string }
			if err == nil {
				var payload []byte
				if payload, err = signed.Verify(p.key.Public()); err == nil {
					err = json.Unmarshal(payload, &claims)
				}
			}
			id, secret, _ := r.BasicAuth()
			if err != nil || id != "gw" || secret != "CANARYSECRET" || r.PostForm.Get("audience") != "tickets" {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error": "invalid_request"}`)
				return
			}
			fmt.Fprintf(w, `{"access_token": "exchanged-%s", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 300}`, claims.Sub)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(p.Close)
	return p, all.String
}

// A server that requires the token of a user for everything is called as the user that calls: calls
// have its token, and so have its lists, unless all are the same, which come with that of the first. The token that a user has
// presented reaches the identity provider, and no server, log, answer or file (N1, N2, I14).
func TestExchangeOfTokens(t *testing.T) {
	t.Parallel()
	for _, lists := range []string{"shared", "own"} {
		t.Run(lists, func(t *testing.T) {
			t.Parallel()
			exchangeOfTokens(t, lists)
		})
	}
}

func exchangeOfTokens(t *testing.T, lists string) {
	idp, seenByProvider := newExchangingProvider(t)
	done := func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("done"), nil }
	servers := make(map[string]*server.Server)
	for _, user := range []string{"ann", "bob"} {
		srv := server.New(mux.New(mux.Tool{Name: "echo", Call: done}, mux.Tool{Name: "of_" + user, Call: done}), server.Config{})
		servers[user] = srv
		t.Cleanup(func() {
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	var seen commandtest.Buffer
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(&seen, "%s %s %v %s\n", r.Method, r.URL, r.Header, body)
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer exchanged-")
		switch {
		case err != nil || !ok:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		case strings.Contains(string(body), `"user"`) && !strings.Contains(string(body), fmt.Sprintf(`"user":%q`, name)):
			t.Errorf("called as %s: %s", name, body)
		}
		r.Header.Del("Authorization")
		r.Body = io.NopCloser(bytes.NewReader(body))
		servers[name].ServeHTTP(w, r)
	}))
	t.Cleanup(backend.Close)
	static := filepath.Join(t.TempDir(), "token")
	commandtest.Write(t, static, "CANARYSTATIC0123456789abcdef0123456789")
	if err := os.Chmod(static, 0o600); err != nil {
		t.Fatal(err)
	}
	configuration := fmt.Sprintf(`publicURL: https://mcp.example.com
auth:
  issuers:
    - {name: corp, issuer: %q}
  tokens: [{principal: ci, file: %q}]
log: {level: debug}
audit: {file: audit.jsonl}
mcpServers:
  tickets:
    url: %q
    oauth: {grant: exchange, issuer: %q, clientId: gw, clientSecret: CANARYSECRET, audience: tickets, lists: %s}
`, idp.URL, static, backend.URL, idp.URL, lists)
	var answers commandtest.Buffer
	whileServed(t, configuration, func(e *commandtest.Env, at string) {
		send := func(token, body, method, name string) asked {
			headers := map[string]string{"Authorization": "Bearer " + token, "Host": "mcp.example.com", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
			if name != "" {
				headers["Mcp-Name"] = name
			}
			got := ask(t, "POST", at+"/mcp", body, headers)
			fmt.Fprintf(&answers, "%v %s\n", got.header, got.body)
			return got
		}
		ann, bob := idp.token(idp.key, nil), idp.token(idp.key, map[string]any{"sub": "bob"})
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
			got := send(ann, modernList, "tools/list", "")
			if strings.Contains(got.body, "tickets__echo") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the tools are not listed: %d %s\n%s", got.status, got.body, e.Err)
			}
		}
		for user, token := range map[string]string{"ann": ann, "bob": bob} {
			got := send(token, modernList, "tools/list", "")
			for _, of := range []string{"ann", "bob"} {
				want := lists == "own" && of == user || lists == "shared" && of == "ann"
				if strings.Contains(got.body, "tickets__of_"+of) != want {
					t.Errorf("the tool of %s in the list of %s, want %v: %s", of, user, want, got.body)
				}
			}
		}
		callOf := func(token, user, tool string) asked {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":%q,"arguments":{"user":%q},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, user)
			return send(token, body, "tools/call", tool)
		}
		call := func(token, user string) asked { return callOf(token, user, "tickets__echo") }
		if got := callOf(bob, "bob", "tickets__of_ann"); lists == "own" && !strings.Contains(got.body, "unknown tool") {
			t.Errorf("bob calls the tool of ann: %d %s", got.status, got.body)
		}
		var all sync.WaitGroup
		for range 20 {
			for user, token := range map[string]string{"ann": ann, "bob": bob} {
				all.Go(func() {
					if got := call(token, user); !strings.Contains(got.body, "done") {
						t.Errorf("%s: %d %s", user, got.status, got.body)
					}
				})
			}
		}
		all.Wait()
		wantCI := map[string][2]string{"shared": {"SB_AUTH_BACKEND", "needs a token of"}, "own": {"SB_AUTH_SIGN_IN", "only for users with a token that can be exchanged"}}[lists]
		if got := call("CANARYSTATIC0123456789abcdef0123456789", "ci"); !strings.Contains(got.body, wantCI[0]) || !strings.Contains(got.body, wantCI[1]) {
			t.Errorf("without a token of the identity provider: %d %s", got.status, got.body)
		}
		texts := map[string]string{"an answer": answers.String(), "the log": e.Err.String(), "the server": seen.String(), "the identity provider": strings.ReplaceAll(seenByProvider(), base64.StdEncoding.EncodeToString([]byte("gw:CANARYSECRET")), "")}
		err := filepath.WalkDir(e.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || d.Name() == "signalbox.yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(seenByProvider(), "POST /token"); n != 2 {
			t.Errorf("%d exchanges, want 2", n)
		}
		for place, text := range texts {
			for _, token := range idp.issued {
				for _, part := range append(strings.Split(token, "."), "CANARY") {
					if part != strings.Split(token, ".")[0] && strings.Contains(text, part) {
						t.Errorf("%s has a part of a token:\n%s", place, text)
					}
				}
			}
			if place != "the server" && strings.Contains(text, "exchanged-") {
				t.Errorf("%s has an exchanged token:\n%s", place, text)
			}
		}
	})
}
