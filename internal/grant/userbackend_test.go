// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// userBackend is a backend that accepts tokens of users. The answer to a call has the user.
type userBackend struct {
	*httptest.Server
	name   string
	userOf func(token string) string // the user of a token that it accepts, or ""

	mu    sync.Mutex
	all   bytes.Buffer // of requests, whole
	calls []string     // the tokens of tools/call, in order
	never bool         // all tokens are refused
	needs string       // a scope that nothing has
	names string       // the authorization server in the metadata, or "" without metadata
}

func (b *userBackend) start(t *testing.T) {
	t.Helper()
	b.Server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.Close)
}

func (b *userBackend) serve(w http.ResponseWriter, r *http.Request) {
	dump, err := httputil.DumpRequest(r, true)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	b.mu.Lock()
	b.all.Write(dump)
	isCall := r.Header.Get("Mcp-Method") == "tools/call"
	if isCall {
		b.calls = append(b.calls, token)
	}
	never, needs, names := b.never, b.needs, b.names
	b.mu.Unlock()
	user := b.userOf(token)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	case r.URL.Path == "/.well-known/oauth-protected-resource/mcp" && names != "":
		answer(w, 200, claims{"resource": b.URL + "/mcp", "authorization_servers": []string{names}, "scopes_supported": []string{"everything"}})
	case r.URL.Path != "/mcp":
		http.NotFound(w, r)
	case user == "" || never:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", scope="everything"`)
		w.WriteHeader(http.StatusUnauthorized)
	case needs != "" && isCall:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, needs))
		w.WriteHeader(http.StatusForbidden)
	default:
		server := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(f *faultyserver.Exchange) {
			f.Result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, user))
		}}}
		server.ServeHTTP(w, r)
	}
}

func (b *userBackend) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// seen returns the tokens of calls.
func (b *userBackend) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}
