// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// SignInServer is an MCP server that requires a sign-in, at /mcp, and its authorization server,
// at which each user agrees at once. The server's metadata are where only its challenge says.
// At /open it is an MCP server that asks for nothing.
type SignInServer struct {
	*httptest.Server
	mcp *server.Server

	mu       sync.Mutex
	set      url.Values // see Set
	clients  map[string][]string
	codes    map[string]url.Values
	tokens   map[string]bool // those that are valid, access and refresh
	accesses map[string]string
	requests []string
	n        int
}

// NewSignInServer starts the server. The caller ends it with End.
func NewSignInServer(h mcp.Handler) *SignInServer {
	s := &SignInServer{
		mcp: server.New(h, server.Config{}), clients: map[string][]string{}, codes: map[string]url.Values{},
		tokens: map[string]bool{}, accesses: map[string]string{},
	}
	m := http.NewServeMux()
	m.HandleFunc("/.well-known/oauth-authorization-server", s.metadata)
	m.HandleFunc("GET /meta/of-the-server", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, 200, map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}, "scopes_supported": []string{"more", "than", "needed"}})
	})
	m.HandleFunc("GET /authorize", s.authorize)
	m.HandleFunc("POST /token", s.token)
	m.HandleFunc("POST /register", s.register)
	m.HandleFunc("POST /revoke", s.revoke)
	m.HandleFunc("GET /set", func(_ http.ResponseWriter, r *http.Request) { s.Set(r.URL.Query()) })
	m.HandleFunc("/mcp", s.serve)
	m.HandleFunc("/open", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/mcp"
		s.mcp.ServeHTTP(w, r)
	})
	s.Server = httptest.NewUnstartedServer(m)
	s.Start()
	return s
}

// End ends the server.
func (s *SignInServer) End() {
	_ = s.mcp.Close()
	s.Close()
}

// Set changes how the server behaves. The names are: error, of authorization responses; iss, in
// them; without, what does not exist: metadata, registration or revocation; query, of the authorization endpoint; and
// refuse, for requests to revoke.
func (s *SignInServer) Set(v url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = v
}

// Requests returns the requests to the authorization server, each as "register URI", "authorize
// CLIENT URI SCOPES", "token GRANT" or "revoke KIND".
func (s *SignInServer) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Secrets returns all tokens and codes that were issued.
func (s *SignInServer) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(s.tokens)), slices.Collect(maps.Keys(s.accesses)))
}

func (s *SignInServer) note(format string, args ...any) {
	s.requests = append(s.requests, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (s *SignInServer) next(kind string) string {
	s.n++
	return fmt.Sprintf("%s-canary-%d", kind, s.n)
}

func (s *SignInServer) metadata(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.set["without"], "metadata") {
		http.Error(w, "nothing is here", http.StatusNotFound)
		return
	}
	doc := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize" + s.set.Get("query"), "token_endpoint": s.URL + "/token",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"token_endpoint_auth_methods_supported": []string{"none"},
	}
	for _, name := range []string{"registration", "revocation"} {
		path := map[string]string{"registration": "/register", "revocation": "/revoke"}[name]
		if !slices.Contains(s.set["without"], name) {
			doc[name+"_endpoint"] = s.URL + path
		}
	}
	respond(w, 200, doc)
}

func (s *SignInServer) register(w http.ResponseWriter, r *http.Request) {
	var doc struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	err := json.NewDecoder(r.Body).Decode(&doc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(doc.RedirectURIs) != 1 {
		respond(w, 400, map[string]any{"error": "invalid_redirect_uri"})
		return
	}
	s.n++
	id := fmt.Sprintf("client-%d", s.n)
	s.clients[id] = doc.RedirectURIs
	s.note("register %s", doc.RedirectURIs[0])
	respond(w, 201, map[string]any{"client_id": id, "token_endpoint_auth_method": "none"})
}

func (s *SignInServer) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	redirect := q.Get("redirect_uri")
	s.note("authorize %s %s %s", q.Get("client_id"), redirect, q.Get("scope"))
	if uris, ok := s.clients[q.Get("client_id")]; ok && !slices.Contains(uris, redirect) {
		http.Error(w, "this redirect URI is not registered", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {s.URL}}
	if iss := s.set.Get("iss"); iss != "" {
		back.Set("iss", iss)
	}
	if e := s.set.Get("error"); e != "" {
		back.Set("error", e)
		back.Set("error_description", "\x1b[2Jclick here")
	} else {
		code := s.next("code")
		s.codes[code] = q
		back.Set("code", code)
	}
	http.Redirect(w, r, redirect+"?"+back.Encode(), http.StatusFound) //nolint:gosec // what an authorization endpoint does
}

func (s *SignInServer) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // an invalid form has no values
	s.mu.Lock()
	defer s.mu.Unlock()
	form := r.PostForm
	s.note("token %s", form.Get("grant_type"))
	scope := ""
	switch form.Get("grant_type") {
	case "authorization_code":
		q := s.codes[form.Get("code")]
		delete(s.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if q == nil || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("redirect_uri") != form.Get("redirect_uri") {
			respond(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		scope = q.Get("scope")
	case "refresh_token":
		if !s.tokens[form.Get("refresh_token")] {
			respond(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		scope = form.Get("scope")
	}
	access, refresh := s.next("access"), s.next("refresh")
	s.tokens[access], s.tokens[refresh], s.accesses[access] = true, true, refresh
	respond(w, 200, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh, "scope": scope})
}

func (s *SignInServer) revoke(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // an invalid form has no values
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("revoke %s", r.PostForm.Get("token_type_hint"))
	if s.set.Has("refuse") {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	revoked := r.PostForm.Get("token")
	s.tokens[revoked] = false
	for access, refresh := range s.accesses {
		if refresh == revoked {
			s.tokens[access] = false
		}
	}
}

// serve serves requests with a token.
func (s *SignInServer) serve(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	isValid := s.tokens[token]
	s.mu.Unlock()
	if !isValid {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/meta/of-the-server", scope="read write"`, s.URL))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mcp.ServeHTTP(w, r)
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
