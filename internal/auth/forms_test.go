// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	stdjson "encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// tokenServer makes a provider answer questions about tokens (RFC 7662).
type tokenServer struct {
	mu      sync.Mutex
	tokens  map[string]string // the response for each
	asked   []string          // the tokens
	forms   []url.Values
	heads   []http.Header
	status  int           // instead of 200
	blocked chan struct{} // closed when answers may be sent, or nil
}

const introspectPath = "/introspect"

func (s *tokenServer) respond(p *provider) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q, "token_endpoint": %q, "introspection_endpoint": %q}`, p.url, p.url+"/keys", p.url+"/token", p.url+introspectPath)
			return true
		case introspectPath:
		default:
			return false
		}
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		s.mu.Lock()
		s.asked, s.forms, s.heads = append(s.asked, form.Get("token")), append(s.forms, form), append(s.heads, r.Header)
		text, found := s.tokens[form.Get("token")]
		status, blocked := s.status, s.blocked
		s.mu.Unlock()
		if blocked != nil {
			<-blocked
		}
		if !found {
			text = `{"active": false}`
		}
		w.Header().Set("Content-Type", "application/json")
		if status != 0 {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, text)
		return true
	}
}

func (s *tokenServer) set(change func(*tokenServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// count returns how often the server was asked.
func (s *tokenServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// active returns the response for an active token with changed members; nil removes one.
func active(t testing.TB, p *provider, changes map[string]any) string {
	t.Helper()
	members := p.claims(changes)
	if _, changed := changes["active"]; !changed {
		members["active"] = true
	}
	if _, changed := changes["iss"]; !changed {
		delete(members, "iss")
	}
	text, err := stdjson.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// introspecting runs f in a bubble in which "corp" has introspection.
func introspecting(t *testing.T, configure func(*Config, *provider), f func(*site, *tokenServer)) {
	t.Helper()
	asked := &tokenServer{tokens: make(map[string]string)}
	bubble(t, func(cfg *Config, corp *provider) {
		corp.respond = asked.respond(corp)
		cfg.Issuers[0].Introspect = &Introspect{ClientID: "gw", Secret: mcp.NewToken("s:cret")}
		if configure != nil {
			configure(cfg, corp)
		}
	}, func(s *site) { f(s, asked) })
}

// An issuer of tokens that are no JWTs need not publish keys. That is no failure; a JWT of it
// cannot be verified, and others are accepted. Metadata that lack the keys later change nothing.
func TestIssuerWithoutKeys(t *testing.T) {
	var hasKeys atomic.Bool
	introspecting(t, func(_ *Config, corp *provider) {
		asked := corp.respond
		corp.respond = func(w http.ResponseWriter, r *http.Request) bool {
			if hasKeys.Load() || r.URL.Path != "/.well-known/openid-configuration" {
				return asked(w, r)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"issuer": %q, "token_endpoint": %q, "introspection_endpoint": %q}`, corp.url, corp.url+"/token", corp.url+introspectPath)
			return true
		}
	}, func(s *site, asked *tokenServer) {
		synctest.Wait()
		if st := s.chain.Status()[0]; st.Failure != nil || st.Failed != 0 || st.Keys != 0 {
			t.Errorf("status %+v", st)
		}
		asked.set(func(ts *tokenServer) { ts.tokens["opaque"] = active(t, s.corp, nil) })
		if _, err := s.as("opaque"); err != nil {
			t.Error(err)
		}
		_, err := s.as(s.corp.token(nil))
		if status, _, message := answer(err); status != http.StatusUnauthorized || message != string(notVerified) {
			t.Errorf("a JWT: %d %s", status, message)
		}
		hasKeys.Store(true)
		time.Sleep(2 * time.Hour)
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Errorf("after it has published keys: %v", err)
		}
		hasKeys.Store(false)
		time.Sleep(2 * time.Hour)
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Errorf("with metadata that lack the keys: %v", err)
		}
	})
}

// TestIntrospection is the table of answers: the members count as the claims of a JWT do.
func TestIntrospection(t *testing.T) {
	introspecting(t, nil, func(s *site, asked *tokenServer) {
		is := func(changes map[string]any) string { return active(t, s.corp, changes) }
		now := time.Now()
		for _, tt := range []struct {
			name, response string
			want           error // nil is accepted
		}{
			{"active", is(nil), nil},
			{"of the issuer", is(map[string]any{"iss": s.corp.url}), nil},
			{"type Bearer", is(map[string]any{"token_type": "Bearer", "typ": "Bearer"}), nil},
			{"inactive", `{"active": false}`, notActive},
			{"inactive with members", is(map[string]any{"active": false}), notActive},
			{"of another issuer", is(map[string]any{"iss": s.partner.url}), unknownIssuer},
			{"slash added", is(map[string]any{"iss": s.corp.url + "/"}), unknownIssuer},
			{"other audience", is(map[string]any{"aud": "https://other.example.com/mcp"}), otherAudience},
			{"no audience", is(map[string]any{"aud": nil}), otherAudience},
			{"expired", is(map[string]any{"exp": now.Add(-31 * time.Second).Unix()}), expired},
			{"expired within the skew", is(map[string]any{"exp": now.Add(-29 * time.Second).Unix()}), nil},
			{"no exp", is(map[string]any{"exp": nil}), malformed},
			{"nbf ahead", is(map[string]any{"nbf": now.Add(time.Minute).Unix()}), notYetValid},
			{"bound to a key", is(map[string]any{"cnf": map[string]any{"jkt": "x"}}), notVerified},
			{"DPoP", is(map[string]any{"token_type": "DPoP"}), notVerified},
			{"refresh token", is(map[string]any{"typ": "Refresh"}), notVerified},
			{"ID token", is(map[string]any{"typ": "ID"}), notVerified},
			{"type a number", is(map[string]any{"token_type": 1}), notVerified},
			{"no sub", is(map[string]any{"sub": nil}), malformed},
		} {
			token := "opaque-" + strings.ReplaceAll(tt.name, " ", "-")
			asked.set(func(a *tokenServer) { a.tokens[token] = tt.response })
			id, err := s.as(token)
			status, challenge, message := answer(err)
			if tt.want == nil {
				if status != 200 || id.Principal != "corp:8f3a" || id.Via != mcp.ViaIntrospection || id.Token.Reveal() != token || id.Expires.IsZero() {
					t.Errorf("%s: %d %s, %+v", tt.name, status, message, id)
				}
				continue
			}
			if id != nil || status != 401 || !strings.Contains(challenge, fmt.Sprintf(`error_description="%v"`, tt.want)) || strings.Contains(challenge+message, token) {
				t.Errorf("%s: %d %+v %s", tt.name, status, id, challenge)
			}
		}
		// A missing scope is a 403, as with a JWT.
		asked.set(func(a *tokenServer) { a.tokens["narrow"] = is(map[string]any{"scope": "openid"}) })
		if status, challenge, _ := answer(second(s.as("narrow"))); status != 403 || !strings.Contains(challenge, `scope="mcp:use"`) {
			t.Errorf("%d %s", status, challenge)
		}
		// The client authenticates itself, with the characters of its secret encoded.
		asked.mu.Lock()
		defer asked.mu.Unlock()
		name, password, _ := (&http.Request{Header: asked.heads[0]}).BasicAuth()
		if name != "gw" || password != "s%3Acret" || asked.forms[0].Get("token_type_hint") != "access_token" {
			t.Errorf("asked with %q, %q, %v", name, password, asked.forms[0])
		}
		for _, c := range s.chain.Counts() {
			if c.Form == "introspection" && c.Outcome == Accepted && c.N != 4 {
				t.Errorf("%d are counted", c.N)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Answers that say nothing are no refusal of the token: 503, and they are not kept.
func TestIntrospectionSaysNothing(t *testing.T) {
	introspecting(t, nil, func(s *site, asked *tokenServer) {
		for _, response := range []string{`{}`, `{"active": "true"}`, `{"active": null}`, `[]`, `x`, `{"active": false, "active": true}`, `"` + strings.Repeat("x", 1<<20) + `"`} {
			asked.set(func(a *tokenServer) { a.tokens["t"] = response })
			if status, _, _ := answer(second(s.as("t"))); status != 503 {
				t.Errorf("%.40s: %d", response, status)
			}
		}
		asked.set(func(a *tokenServer) { a.tokens["t"] = active(t, s.corp, nil) })
		for _, status := range []int{400, 401, 403, 404, 302, 500} { // of the client, not of the token
			asked.set(func(a *tokenServer) { a.status = status })
			if got, _, _ := answer(second(s.as("t"))); got != 503 {
				t.Errorf("%d gives %d", status, got)
			}
		}
		asked.set(func(a *tokenServer) { a.status = 0 })
		if _, err := s.as("t"); err != nil {
			t.Error(err)
		}
	})
}

// Answers are kept for their time, and the issuer is asked once for each.
func TestIntrospectionIsKept(t *testing.T) {
	introspecting(t, nil, func(s *site, asked *tokenServer) {
		asked.set(func(a *tokenServer) {
			a.tokens["long"] = active(t, s.corp, nil)
			a.tokens["short"] = active(t, s.corp, map[string]any{"exp": time.Now().Add(50 * time.Second).Unix()})
		})
		// "short" ends 80 s after the beginning, with its skew.
		for _, tt := range []struct {
			token string
			life  time.Duration
		}{{"long", time.Minute}, {"short", 20 * time.Second}, {"unknown", 10 * time.Second}} {
			before := asked.count()
			_, _ = s.as(tt.token)
			time.Sleep(tt.life - time.Millisecond)
			_, _ = s.as(tt.token)
			if n := asked.count() - before; n != 1 {
				t.Errorf("%s: asked %d times in its time", tt.token, n)
			}
			time.Sleep(time.Millisecond)
			_, err := s.as(tt.token)
			if n := asked.count() - before; n != 2 {
				t.Errorf("%s: asked %d times after its time", tt.token, n)
			}
			if status, _, _ := answer(err); (status == 200) != (tt.token == "long") {
				t.Errorf("%s: %d", tt.token, status)
			}
		}
		// Requests with one token wait for one answer, even if the first client leaves.
		blocked := make(chan struct{})
		asked.set(func(a *tokenServer) { a.blocked = blocked; a.tokens["new"] = a.tokens["long"] })
		before := asked.count()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := s.as("new"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(blocked)
		all.Wait()
		if n := asked.count() - before; n != 1 {
			t.Errorf("asked %d times by 50 requests", n)
		}
	})
}

// While the issuer is down, what is kept goes on to its end; the rest is 503, never 401.
func TestIntrospectionFailsClosed(t *testing.T) {
	introspecting(t, nil, func(s *site, asked *tokenServer) {
		asked.set(func(a *tokenServer) { a.tokens["kept"] = active(t, s.corp, nil); a.tokens["other"] = a.tokens["kept"] })
		if _, err := s.as("kept"); err != nil {
			t.Fatal(err)
		}
		never := make(chan struct{})
		asked.set(func(a *tokenServer) { a.blocked = never })
		before := time.Now()
		status, challenge, message := answer(second(s.as("other")))
		if status != 503 || challenge != "" || !strings.Contains(message, "the identity provider corp cannot be reached and it is not known whether the token is active") {
			t.Errorf("%d %q %s", status, challenge, message)
		}
		if took := time.Since(before); took > maxAskWait {
			t.Errorf("waited %v", took)
		}
		if _, err := s.as("kept"); err != nil {
			t.Errorf("a kept token: %v", err)
		}
		time.Sleep(time.Minute)
		if status, _, _ := answer(second(s.as("kept"))); status != 503 {
			t.Errorf("after its time: %d", status)
		}
		// Tokens of other forms are not affected.
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Errorf("a JWT: %v", err)
		}
		close(never)
		synctest.Wait()
		if _, err := s.as("other"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

// At most maxAsking requests run at once, and what is kept has a bound.
func TestIntrospectionIsBounded(t *testing.T) {
	introspecting(t, nil, func(s *site, asked *tokenServer) {
		_, _ = s.as("first") // reads the metadata
		blocked := make(chan struct{})
		asked.set(func(a *tokenServer) { a.blocked = blocked })
		before := asked.count()
		var all sync.WaitGroup
		for i := range 3 * maxAsking {
			all.Go(func() { _, _ = s.as(fmt.Sprint("token-", i)) })
		}
		synctest.Wait()
		if n := asked.count() - before; n != maxAsking {
			t.Errorf("%d requests at once", n)
		}
		close(blocked)
		all.Wait()

		in := s.chain.introspector
		good := &opinion{verified: new(verified), until: time.Now().Add(time.Hour)}
		in.mu.Lock()
		defer in.mu.Unlock()
		for i := range maxKept / 2 {
			in.keepLocked(&digest{1, byte(i), byte(i >> 8)}, good)
		}
		for i := range 2 * maxKept {
			in.keepLocked(&digest{2, byte(i), byte(i >> 8), byte(i >> 16)}, &opinion{invalid: notActive, until: time.Now().Add(time.Hour)})
		}
		left := 0
		for _, o := range in.kept {
			if o.verified != nil {
				left++
			}
		}
		if len(in.kept) > maxKept || left < maxKept/2-maxKept/100 {
			t.Errorf("%d are kept, of them %d good ones", len(in.kept), left)
		}
	})
}

// The client can authenticate itself with a key.
func TestIntrospectionWithKey(t *testing.T) {
	der, err := x509.MarshalPKCS8PrivateKey(testKeys()["ec"])
	if err != nil {
		t.Fatal(err)
	}
	key, err := oauth.ParseSigningKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	introspecting(t, func(cfg *Config, _ *provider) {
		cfg.Issuers[0].Introspect = &Introspect{ClientID: "gw", Key: key}
	}, func(s *site, asked *tokenServer) {
		_, _ = s.as("t")
		asked.mu.Lock()
		defer asked.mu.Unlock()
		signed, err := jose.ParseSignedCompact(asked.forms[0].Get("client_assertion"), []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		claims, err := signed.Verify(testKeys()["ec"].Public())
		if err != nil || !strings.Contains(string(claims), `"aud":"`+s.corp.url+`"`) || asked.heads[0].Get("Authorization") != "" {
			t.Errorf("%s, %v", claims, err)
		}
	})
}

// certificate returns a chain of a client certificate.
func certificate(t testing.TB, ends time.Duration) []*x509.Certificate {
	t.Helper()
	id, err := url.Parse("spiffe://example.com/ann")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	return []*x509.Certificate{
		{Raw: []byte("leaf"), Subject: pkix.Name{CommonName: "ann"}, DNSNames: []string{"ann.example.com"}, URIs: []*url.URL{id}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ends)},
		{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)},
	}
}

// peer makes a request one of a peer, with a certificate if chain is not nil.
func peer(r *http.Request, address string, chain []*x509.Certificate) *http.Request {
	r.RemoteAddr = address
	if address != "" {
		r.TLS = &tls.ConnectionState{PeerCertificates: chain}
	}
	if chain != nil {
		r.TLS.VerifiedChains = [][]*x509.Certificate{chain}
	}
	return r
}

func overCertificate(t testing.TB, text string) *principal.Expression {
	t.Helper()
	e, err := principal.Compile("cert", text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The name of a certificate is that of the expression, until one certificate of its chain ends.
func TestCertificates(t *testing.T) {
	leaf := sha256.Sum256([]byte("leaf"))
	for text, want := range map[string]string{
		`cert.uris[0]`:            "certificate:spiffe://example.com/ann",
		`cert.dns[0]`:             "certificate:ann.example.com",
		`cert.subject`:            "certificate:CN=ann",
		`cert.fingerprint`:        "certificate:" + hex.EncodeToString(leaf[:]),
		`cert.dns[1]`:             "",
		`cert.emails[0]`:          "",
		`cert.dns[0] + "\n"`:      "",
		`cert.subject + cert.dns`: "",
	} {
		e, err := principal.Compile("cert", text)
		if err != nil {
			t.Fatal(err)
		}
		chain, err := New(Config{Certificates: e})
		if err != nil {
			t.Fatal(err)
		}
		id, err := chain.Authenticate(peer(request("/mcp"), "192.0.2.1:1", certificate(t, time.Hour)))
		got := ""
		if err == nil {
			got = id.Principal
		}
		if got != want || err == nil && id.Via != mcp.ViaCertificate {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		chain, err := New(Config{Certificates: overCertificate(t, "cert.subject")})
		if err != nil {
			t.Fatal(err)
		}
		r := peer(request("/mcp"), "192.0.2.1:1", certificate(t, time.Hour))
		id, err := chain.Authenticate(r)
		if err != nil || !id.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Fatalf("%+v, %v", id, err)
		}
		time.Sleep(time.Hour) // on the same connection
		if status, challenge, message := answer(second(chain.Authenticate(r))); status != 401 || challenge != `Bearer error="invalid_token"` || message != "the client certificate has expired" {
			t.Errorf("%d %s %s", status, challenge, message)
		}
	})
}

// identity attack 10: headers of the proxy count from its addresses only. From others they are
// removed and reported; from the proxy they name one user.
func TestProxy(t *testing.T) {
	const user, groups = "X-Forwarded-User: ", "X-Forwarded-Groups: "
	for _, tt := range []struct {
		name, address string
		lines         []string
		want          string // the principal, or ""
		groups        string
		foreign       bool
	}{
		{"from the proxy", "10.0.0.5:1", []string{user + "ann"}, "proxy:ann", "[]", false},
		{"with groups", "10.0.0.5:1", []string{user + "ann", groups + "staff, sre,,"}, "proxy:ann", "[staff sre]", false},
		{"no groups", "10.0.0.5:1", []string{user + "ann", groups}, "proxy:ann", "[]", false},
		{"as IPv6", "[::ffff:10.0.0.5]:1", []string{user + "ann"}, "proxy:ann", "[]", false},
		{"IPv6", "[fd00::1]:1", []string{user + "ann"}, "proxy:ann", "[]", false},
		{"a zone", "[fd00::1%eth0]:1", []string{user + "ann"}, "proxy:ann", "[]", false},
		{"a comma in no list", "10.0.0.5:1", []string{user + "ann,bob"}, "", "", false},
		{"two values", "10.0.0.5:1", []string{user + "ann", user + "bob"}, "", "", false},
		{"the same twice", "10.0.0.5:1", []string{user + "ann", user + "ann"}, "", "", false},
		{"empty", "10.0.0.5:1", []string{user}, "", "", false},
		{"spaces around", "10.0.0.5:1", []string{user + " ann"}, "", "", false},
		{"control characters", "10.0.0.5:1", []string{user + "a\x01n"}, "", "", false},
		{"not UTF-8", "10.0.0.5:1", []string{user + "a\xffn"}, "", "", false},
		{"long", "10.0.0.5:1", []string{user + strings.Repeat("x", 300)}, "", "", false},
		{"groups twice, the first empty", "10.0.0.5:1", []string{user + "ann", groups, groups + "b"}, "", "", false},
		{"groups twice", "10.0.0.5:1", []string{user + "ann", groups + "a", groups + "b"}, "", "", false},
		{"too many groups", "10.0.0.5:1", []string{user + "ann", groups + strings.Repeat("a,", maxGroups+1)}, "", "", false},
		{"groups alone", "10.0.0.5:1", []string{groups + "staff"}, "", "", false},
		{"nothing", "10.0.0.5:1", nil, "", "", false},
		{"next to the network", "10.0.0.16:1", []string{user + "ann"}, "", "", true},
		{"elsewhere", "192.0.2.1:1", []string{user + "ann", groups + "staff"}, "", "", true},
		{"elsewhere, groups alone", "192.0.2.1:1", []string{groups + "staff"}, "", "", true},
		{"elsewhere, that says where it is", "192.0.2.1:1", []string{user + "ann", "X-Forwarded-For: 10.0.0.5", "Forwarded: for=10.0.0.5", "X-Real-Ip: 10.0.0.5"}, "", "", true},
		{"no address", "@", []string{user + "ann"}, "", "", true},
		{"elsewhere with a token", "192.0.2.1:1", []string{user + "ann", "Authorization: Bearer a-token-of-the-configuration"}, "ci", "", true},
	} {
		var foreign []string
		chain, err := New(Config{
			Tokens:       []Token{{"ci", "a-token-of-the-configuration", nil}},
			Proxy:        &Proxy{[]netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/124"), netip.MustParsePrefix("fd00::/64")}, "x-forwarded-user", "X-Forwarded-Groups"},
			ForeignProxy: func(_ *http.Request, header string) { foreign = append(foreign, header) },
		})
		if err != nil {
			t.Fatal(err)
		}
		r := peer(request("/mcp", tt.lines...), tt.address, nil)
		id, err := chain.Authenticate(r)
		got, members := "", ""
		if err == nil {
			got = id.Principal
			if id.Claims != nil {
				members = fmt.Sprint(id.Claims["groups"])
			}
		}
		if got != tt.want || members != tt.groups || len(foreign) != 0 != tt.foreign {
			t.Errorf("%s: got %q %s, %v, events %q", tt.name, got, members, err, foreign)
		}
		if status, challenge, message := answer(err); err != nil && (status != 401 || strings.Contains(challenge+message, "ann")) {
			t.Errorf("%s: %d %s %s", tt.name, status, challenge, message)
		}
		if tt.foreign && (r.Header["X-Forwarded-User"] != nil || r.Header["X-Forwarded-Groups"] != nil) {
			t.Errorf("%s: left in the request: %v", tt.name, r.Header)
		}
	}
}

// Requirements N6 and N15, identity attack 8, over all forms: the order is fixed, what fails is
// final, and nothing that a request says of its way counts.
func TestChoiceOfAllForms(t *testing.T) {
	introspecting(t, func(cfg *Config, _ *provider) {
		cfg.Issuers[1].Header = "Cf-Access-Jwt-Assertion"
		cfg.Certificates = overCertificate(t, "cert.dns[0]")
		cfg.Proxy = &Proxy{[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}, "X-Forwarded-User", "X-Forwarded-Groups"}
	}, func(s *site, asked *tokenServer) {
		asked.set(func(a *tokenServer) { a.tokens["opaque"] = active(t, s.corp, map[string]any{"sub": "op"}) })
		const near, far = "10.0.0.5:1", "192.0.2.1:1"
		const bearer, access, user = "Authorization: Bearer ", "Cf-Access-Jwt-Assertion: ", "X-Forwarded-User: ann"
		static, corp, partner := bearer+"a-token-of-the-configuration", bearer+s.corp.token(nil), access+s.partner.token(nil)
		elsewhere := sign(t, "ES256", "ec", map[string]any{"kid": "ec"}, s.corp.claims(map[string]any{"iss": "https://elsewhere.example"}))
		good, nameless := certificate(t, time.Hour), certificate(t, time.Hour)
		nameless[0].DNSNames = nil
		for _, tt := range []struct {
			name, from string
			cert       []*x509.Certificate
			lines      []string
			want       string // the principal, or ""
		}{
			{"nothing", near, nil, nil, ""},
			{"opaque", far, nil, []string{bearer + "opaque"}, "corp:op"},
			{"static before all", near, good, []string{static, partner, user}, "ci"},
			{"JWT before all", near, good, []string{corp, partner, user}, "corp:8f3a"},
			{"opaque before all", near, good, []string{bearer + "opaque", partner, user}, "corp:op"},
			{"signed header before certificate and proxy", near, good, []string{partner, user}, "partner:8f3a"},
			{"certificate before proxy", near, good, []string{user}, "certificate:ann.example.com"},
			{"proxy", near, nil, []string{user}, "proxy:ann"},
			{"certificate", far, good, nil, "certificate:ann.example.com"},

			{"inactive token, then all", near, good, []string{bearer + "gone", partner, user}, ""},
			{"expired JWT, then all", near, good, []string{bearer + s.corp.token(map[string]any{"exp": 1}), partner, user}, ""},
			{"JWT of an unknown issuer, then introspection", near, good, []string{bearer + elsewhere}, ""},
			{"JWT with a bad signature, then introspection", near, nil, []string{corp[:len(corp)-6] + "AAAAAA"}, ""},
			{"empty bearer, then all", near, good, []string{bearer, partner, user}, ""},
			{"Basic, then all", near, good, []string{"Authorization: Basic eDp5", partner, user}, ""},
			{"two Authorization headers, then all", near, good, []string{static, static, partner, user}, ""},
			{"bearer twice", near, good, []string{bearer + "Bearer opaque"}, ""},
			{"control bytes", far, nil, []string{bearer + "opaque\x01"}, ""},
			{"a line of a form", far, nil, []string{bearer + "opaque&active=true"}, ""},
			{"100 KiB", far, nil, []string{bearer + strings.Repeat("x", 100<<10)}, ""},
			{"failed signed header, then certificate and proxy", near, good, []string{access + "nope", user}, ""},
			{"two signed headers, then certificate", near, good, []string{partner, partner}, ""},
			{"opaque token in the signed header", far, nil, []string{access + "opaque"}, ""},
			{"certificate without a name, then proxy", near, nameless, []string{user}, ""},
			{"two users, then nothing", near, nil, []string{user, user}, ""},
			{"header of the proxy from elsewhere", far, nil, []string{user}, ""},
			{"header of the proxy from elsewhere, with a certificate", far, good, []string{user}, "certificate:ann.example.com"},

			{"certificate in a header", far, nil, []string{"X-Forwarded-Client-Cert: Subject=\"CN=ann\"", "X-Client-Cert: ann", "Ssl-Client-Verify: SUCCESS"}, ""},
			{"other headers of proxies", near, nil, []string{"X-Forwarded-Email: ann@example.com", "X-Remote-User: ann", "X-Forwarded-Preferred-Username: ann", "X-Auth-Request-User: ann"}, ""},
			{"user of the proxy with an issuer's prefix", near, nil, []string{"X-Forwarded-User: corp:8f3a"}, "proxy:corp:8f3a"},
			{"address of the proxy in headers", far, nil, []string{user, "X-Forwarded-For: 10.0.0.5", "Forwarded: for=10.0.0.5", "X-Real-Ip: 10.0.0.5", "X-Forwarded-Host: mcp.example.com", "X-Forwarded-Proto: https"}, ""},
		} {
			for range 2 { // an answer may be kept
				id, err := s.chain.Authenticate(peer(request("/mcp", tt.lines...), tt.from, tt.cert))
				got := ""
				if id != nil {
					got = id.Principal
				}
				if got != tt.want || (err == nil) != (tt.want != "") {
					t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
				}
				status, challenge, message := answer(err)
				if tt.want == "" && (status != 401 || strings.Contains(challenge+message, "ann") || strings.Contains(challenge+message, "opaque")) {
					t.Errorf("%s: %d %s %s", tt.name, status, challenge, message)
				}
			}
		}
		// Requirement N1: no token but an opaque one goes to the issuer, and only once.
		asked.mu.Lock()
		defer asked.mu.Unlock()
		if len(asked.asked) != 2 || strings.Join(asked.asked, " ") != "opaque gone" {
			t.Errorf("the issuer was asked about %.80q", asked.asked)
		}
	})
}
