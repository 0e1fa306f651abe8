// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A user that is not known signs in at the provider, comes back to the page, and is known for ten
// minutes (identity section 5.3, step 1).
func TestUserIsIdentified(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p, err := x.begin("corp:ann", "crm")
		if err != nil {
			t.Fatal(err)
		}
		ann := x.visitor()
		w := ann.do(http.MethodGet, PathPages+p.id, nil)
		if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, "id.example.com") || strings.Contains(text, "crm") || strings.Contains(text, "password") || len(ann.cookies) != 0 {
			t.Errorf("status %d, cookies %v\n%s", w.Code, ann.cookies, text)
		}
		w = ann.signIn(x, p.id, "ann", nil)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != PathPages+p.id {
			t.Fatalf("status %d, header %v\n%s", w.Code, w.Header(), w.Body)
		}
		for name, value := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Access-Control-Allow-Origin": ""} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %q", name, got)
			}
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Error("the response can be framed")
		}
		if len(ann.cookies) != 1 || ann.cookies[hostPrefix+browserName] == "" {
			t.Errorf("cookies %v", ann.cookies)
		}
		for _, c := range w.Result().Cookies() {
			if c.MaxAge > 0 && (!c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 600 || strings.Contains(c.Value, "ann")) {
				t.Errorf("cookie %+v", c)
			}
		}
		if w = ann.do(http.MethodGet, PathPages+p.id, nil); !strings.Contains(w.Body.String(), "<strong>corp:ann</strong>") || !strings.Contains(w.Body.String(), "as.example") {
			t.Errorf("the page: status %d\n%s", w.Code, w.Body)
		}
		time.Sleep(Lifetime - time.Second)
		q, err := x.begin("corp:ann", "crm") // a call with another token of the user, after the first pending
		if err != nil {
			t.Fatal(err)
		}
		if w = ann.do(http.MethodGet, PathPages+q.id, nil); !strings.Contains(w.Body.String(), "<strong>corp:ann</strong>") {
			t.Errorf("after nine minutes: status %d\n%s", w.Code, w.Body)
		}
		time.Sleep(2 * time.Second)
		if q, err = x.begin("corp:ann", "crm"); err != nil {
			t.Fatal(err)
		}
		if w = ann.do(http.MethodGet, PathPages+q.id, nil); strings.Contains(w.Body.String(), "corp:ann") || !strings.Contains(w.Body.String(), "Identify yourself") {
			t.Errorf("after ten minutes: status %d\n%s", w.Code, w.Body)
		}
	})
}

// The sealed cookie of another instance, and one that was changed, identify no user.
func TestCookiesOfOthers(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p, err := x.begin("corp:ann", "crm")
		if err != nil {
			t.Fatal(err)
		}
		sealed := func(cfg Config) string {
			other, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			return other.sealBrowser("corp:ann")
		}
		own, changed := x.desk.sealBrowser("corp:ann"), "A"
		if own[:1] == changed {
			changed = "B"
		}
		for name, value := range map[string]string{
			"another instance":  sealed(Config{PublicURL: publicURL}),
			"changed":           changed + own[1:],
			"a principal":       "corp:ann",
			"another purpose":   x.desk.box.Seal("sign-in", []byte("99999999999 corp:ann"), publicURL),
			"another publicURL": x.desk.box.Seal(browserPurpose, []byte("99999999999 corp:ann"), "https://other.example.com"),
		} {
			v := x.visitor()
			v.cookies[hostPrefix+browserName] = value
			if w := v.do(http.MethodGet, PathPages+p.id, nil); !strings.Contains(w.Body.String(), "Identify yourself") {
				t.Errorf("%s: status %d\n%s", name, w.Code, w.Body)
			}
		}
		v := x.visitor()
		v.cookies[hostPrefix+browserName] = own
		if w := v.do(http.MethodGet, PathPages+p.id, nil); !strings.Contains(w.Body.String(), "corp:ann") {
			t.Errorf("the right one: status %d\n%s", w.Code, w.Body)
		}
	})
}

// A link that was handed to another user does not exist for that one, and the sign-in goes on
// without it (identity attack 23; N7). A user that is not known learns nothing from the page.
func TestLinkOfAnotherUser(t *testing.T) {
	for _, isIdentity := range []bool{false, true} {
		t.Run(fmt.Sprintf("identity %t", isIdentity), func(t *testing.T) {
			withProvider(t, nil, func(t *testing.T, x *identityFixture) {
				p := x.beginIdentity("corp:ann")
				if !isIdentity {
					var err error
					if p, err = x.begin("corp:ann", "crm"); err != nil {
						t.Fatal(err)
					}
				}
				unknown := strings.Repeat("A", 26)
				bob := x.visitor()
				form, other := bob.do(http.MethodGet, PathPages+p.id, nil), bob.do(http.MethodGet, PathPages+unknown, nil)
				if form.Code != other.Code || form.Body.String() != strings.ReplaceAll(other.Body.String(), unknown, p.id) {
					t.Errorf("a browser that is not known learns whether a sign-in exists:\n%s\n%s", form.Body, other.Body)
				}
				w := bob.signIn(x, p.id, "bob", nil)
				if w.Code != http.StatusSeeOther || w.Header().Get("Location") != PathPages+p.id {
					t.Fatalf("status %d, header %v", w.Code, w.Header())
				}
				own, not := bob.do(http.MethodGet, PathPages+p.id, nil), bob.do(http.MethodGet, PathPages+unknown, nil)
				if own.Code != 404 || not.Code != 404 || own.Body.String() != not.Body.String() {
					t.Errorf("status %d and %d\n%s\n%s", own.Code, not.Code, own.Body, not.Body)
				}
				if w := bob.do(http.MethodPost, PathPages+p.id, toProvider); w.Code != 404 {
					t.Errorf("bob begins: status %d", w.Code)
				}
				if kinds := x.kindsOf(); !slices.Equal(kinds, []EventKind{Foreign, Foreign}) {
					t.Errorf("events %v", kinds)
				}
				if x.mu.Lock(); x.events[len(x.events)-1].Principal != "corp:bob" {
					t.Errorf("event %+v", x.events[len(x.events)-1])
				}
				x.mu.Unlock()
				if x.desk.find(p.id) != p {
					t.Fatal("the pending of ann has ended")
				}
				if _, err := x.tokens.IDToken(t.Context(), "corp:ann"); !errors.Is(err, grant.ErrNoIDToken) {
					t.Errorf("the ID token of ann: %v", err)
				}
				ann := x.visitor()
				w = ann.signIn(x, p.id, "ann", nil)
				if isIdentity && (w.Code != 200 || x.desk.find(p.id) != nil) || !isIdentity && w.Code != http.StatusSeeOther {
					t.Errorf("ann: status %d\n%s", w.Code, w.Body)
				}
			})
		})
	}
}

// A response counts once, in the browser that was sent, with its state, for ten minutes (identity
// attack 22; N7).
func TestIdentityResponses(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p := x.beginIdentity("corp:ann")
		ann, other := x.visitor(), x.visitor()
		begin := func() url.Values {
			w := ann.do(http.MethodPost, PathPages+p.id, toProvider)
			return x.provider.authorize(w.Header().Get("Location"), "ann")
		}
		with := func(q url.Values, name, value string) string {
			q = url.Values{"state": q["state"], "iss": q["iss"], "code": q["code"], name: {value}}
			return PathIdentity + "?" + q.Encode()
		}
		response := begin()
		for what, target := range map[string]string{
			"another state": with(response, "state", "x"), "no state": with(response, "state", ""), "no query": PathIdentity, "no form": PathIdentity + "?%zz",
			"the other path": PathCallback + "?" + response.Encode(),
		} {
			if w := ann.do(http.MethodGet, target, nil); w.Code != 400 {
				t.Errorf("%s: status %d", what, w.Code)
			}
		}
		target := PathIdentity + "?" + response.Encode()
		if w := other.do(http.MethodGet, target, nil); w.Code != 400 || len(other.cookies) != 0 {
			t.Errorf("another browser: status %d", w.Code)
		}
		other.cookies = map[string]string{hostPrefix + identityCookie(response.Get("state")): "guess"}
		if w := other.do(http.MethodGet, target, nil); w.Code != 400 {
			t.Errorf("another browser with a cookie: status %d", w.Code)
		}
		for _, method := range []string{http.MethodPost, http.MethodHead, http.MethodPut} {
			if w := ann.do(method, target, nil); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: status %d", method, w.Code)
			}
		}
		if x.provider.asked != 0 {
			t.Errorf("%d token requests", x.provider.asked)
		}
		// Twice at once, with the cookies of one browser.
		var all sync.WaitGroup
		codes := make(chan int, 2)
		for range 2 {
			twin := &visitor{x.desk, ann.address, maps.Clone(ann.cookies)}
			all.Go(func() { codes <- twin.do(http.MethodGet, target, nil).Code })
		}
		all.Wait()
		if got := []int{<-codes, <-codes}; got[0]+got[1] != 600 || x.provider.asked != 1 {
			t.Errorf("twice at once: status %v, %d token requests", got, x.provider.asked)
		}
		if x.desk.find(p.id) != nil {
			t.Error("the pending is there after the sign-in")
		}
		if w := ann.do(http.MethodGet, target, nil); w.Code != 400 || x.provider.asked != 1 {
			t.Errorf("again: status %d", w.Code)
		}
		p = x.beginIdentity("corp:ann2")
		response = begin()
		time.Sleep(Lifetime)
		if w := ann.do(http.MethodGet, PathIdentity+"?"+response.Encode(), nil); w.Code != 400 || x.provider.asked != 1 {
			t.Errorf("after ten minutes: status %d", w.Code)
		}
	})
}

// Nothing of a response with a fault is used or shown, and after each of them the user can start
// again (identity attacks 1, 6, 21; N9).
func TestIdentityFaults(t *testing.T) {
	claim := func(name string, value any) func(*idToken) {
		return func(k *idToken) { k.claims[name] = value }
	}
	query := func(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
	refusal := func(iss string) func(url.Values) {
		return func(q url.Values) {
			q.Del("code")
			q.Set("iss", iss)
			q.Set("error", "access_denied")
			q.Set("error_description", "evil <b>text of the error</b>")
		}
	}
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text)) // a recorder has no errors
		}
	}
	for _, tt := range []struct {
		name     string
		response func(url.Values)
		fault    func(*idToken)
		token    http.HandlerFunc
		want     string // of the page
	}{
		{name: "no iss", response: func(q url.Values) { q.Del("iss") }, want: "not valid"},
		{name: "another iss", response: query("iss", "https://evil.example.com"), want: "not valid"},
		{name: "iss with a slash", response: query("iss", providerURL+"/"), want: "not valid"},
		{name: "two codes", response: func(q url.Values) { q.Add("code", "x") }, want: "not valid"},
		{name: "no code", response: func(q url.Values) { q.Del("code") }, want: "not valid"},
		{name: "another code", response: query("code", "canary-x"), want: "not valid"},
		{name: "a refusal of another issuer", response: refusal("https://evil.example.com"), want: "not valid"},
		{name: "a refusal", response: refusal(providerURL), want: "declined"},
		{name: "no ID token", fault: func(k *idToken) { k.omit = true }, want: "not valid"},
		{name: "another nonce", fault: claim("nonce", "x"), want: "not valid"},
		{name: "no nonce", fault: claim("nonce", nil), want: "not valid"},
		{name: "another audience", fault: claim("aud", "other"), want: "not valid"},
		{name: "the resource as audience", fault: claim("aud", publicURL+"/mcp"), want: "not valid"},
		{name: "several audiences", fault: claim("aud", []string{"gw-web", "other"}), want: "not valid"},
		{name: "azp of another client", fault: claim("azp", "other"), want: "not valid"},
		{name: "another issuer", fault: claim("iss", "https://evil.example.com"), want: "not valid"},
		{name: "expired", fault: claim("exp", 1), want: "not valid"},
		{name: "no expiry", fault: claim("exp", nil), want: "not valid"},
		{name: "no subject", fault: claim("sub", nil), want: "not valid"},
		{name: "a subject that is no name", fault: claim("sub", "a\nb"), want: "not valid"},
		{name: "none", fault: func(k *idToken) { k.header["alg"], k.sign = "none", func(string) []byte { return nil } }, want: "not valid"},
		{name: "HS256 with the secret of the client", fault: func(k *idToken) { k.header["alg"], k.sign = "HS256", hs256 }, want: "not valid"},
		{name: "another algorithm", fault: func(k *idToken) { k.header["alg"] = "ES512" }, want: "not valid"},
		{name: "the key of another issuer", fault: func(k *idToken) { k.key = providerKeys()[1] }, want: "not valid"},
		{name: "an access token", fault: func(k *idToken) { k.header["typ"] = "at+jwt" }, want: "not valid"},
		{name: "a text", token: answer(200, `{"access_token":"a","token_type":"Bearer","id_token":"canary"}`), want: "not valid"},
		{name: "no JSON", token: answer(200, `evil`), want: "not valid"},
		{name: "a refused code", token: answer(400, `{"error":"access_denied","error_description":"evil text"}`), want: "not valid"},
		{name: "status 500", token: answer(500, `{}`), want: "not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withProvider(t, nil, func(t *testing.T, x *identityFixture) {
				p := x.beginIdentity("corp:ann")
				x.provider.set(func(i *identityProvider) { i.fault, i.token = tt.fault, tt.token })
				ann := x.visitor()
				w := ann.signIn(x, p.id, "ann", tt.response)
				text := w.Body.String()
				if w.Code != 400 || !strings.Contains(text, tt.want) || strings.Contains(text, "canary") || strings.Contains(text, "evil") || !strings.Contains(text, PathPages+p.id) {
					t.Errorf("status %d\n%s", w.Code, text)
				}
				if len(ann.cookies) != 0 {
					t.Errorf("cookies %v", ann.cookies)
				}
				if x.desk.find(p.id) != p {
					t.Fatal("the pending has ended")
				}
				if all, err := x.vault.List(t.Context()); err != nil || len(all.IDTokens) != 0 {
					t.Errorf("kept: %v, %v", all, err)
				}
				x.provider.set(func(i *identityProvider) { i.fault, i.token = nil, nil })
				if w = ann.signIn(x, p.id, "ann", nil); w.Code != 200 || !strings.Contains(w.Body.String(), "You are signed in") {
					t.Errorf("again: status %d\n%s", w.Code, w.Body)
				}
			})
		})
	}
}

// Programs that open a link, and pages of other origins, begin nothing (identity attacks 24, 25;
// N16).
func TestIdentityBeginsWithItsPage(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p := x.beginIdentity("corp:ann")
		v := x.visitor()
		synctest.Wait()
		before := x.provider.reads // for the keys
		for range 3 {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if w := v.do(method, PathPages+p.id, nil); w.Code != 200 || len(v.cookies) != 0 {
					t.Errorf("%s: status %d", method, w.Code)
				}
			}
		}
		for _, origin := range []string{"https://evil.example.com", "null", "", "http://mcp.example.com", publicURL + ":444"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, publicURL+PathPages+p.id, strings.NewReader(toProvider.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			w := httptest.NewRecorder()
			x.desk.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("origin %q: status %d, header %v", origin, w.Code, w.Header())
			}
		}
		if len(x.desk.identifying) != 0 || x.provider.reads != before {
			t.Errorf("%d sign-ins, %d requests", len(x.desk.identifying), x.provider.reads-before)
		}
		if w := v.do(http.MethodPost, PathPages+"x", toProvider); w.Code != 404 {
			t.Errorf("no id: status %d", w.Code)
		}
	})
}

// What waits for browsers is bounded: by one address, by all, and in number, where the oldest
// makes room. A provider that is down is asked once in a while.
func TestIdentityIsBounded(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p := x.beginIdentity("corp:ann")
		v, n := x.visitor(), 0
		synctest.Wait()
		before := x.provider.reads // for the keys
		for range 100 {
			if v.do(http.MethodPost, PathPages+p.id, toProvider).Code == http.StatusSeeOther {
				n++
			}
		}
		if w := v.do(http.MethodPost, PathPages+p.id, toProvider); n != 60 || w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d sign-ins of one address, then status %d", n, w.Code)
		}
		time.Sleep(time.Minute)
		first := x.visitor()
		response := x.provider.authorize(first.do(http.MethodPost, PathPages+p.id, toProvider).Header().Get("Location"), "ann")
		for i := range 2 * maxIdentifying {
			other := &visitor{x.desk, fmt.Sprintf("10.0.%d.%d:1", i/250, i%250), map[string]string{}}
			if w := other.do(http.MethodPost, PathPages+p.id, toProvider); w.Code != http.StatusSeeOther {
				t.Fatalf("status %d after %d", w.Code, i)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(x.desk.identifying); n != maxIdentifying {
			t.Errorf("%d browsers are kept", n)
		}
		if w := first.do(http.MethodGet, PathIdentity+"?"+response.Encode(), nil); w.Code != 400 {
			t.Errorf("the oldest: status %d", w.Code)
		}
		if n := x.provider.reads - before; n != 1 {
			t.Errorf("the metadata was read %d times", n)
		}
	})
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p := x.beginIdentity("corp:ann")
		x.provider.set(func(i *identityProvider) { i.isDown = true })
		v := x.visitor()
		for range 10 {
			if w := v.do(http.MethodPost, PathPages+p.id, toProvider); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "cannot be reached") {
				t.Errorf("status %d\n%s", w.Code, w.Body)
			}
		}
		x.provider.set(func(i *identityProvider) { i.isDown = false })
		time.Sleep(10 * time.Second)
		if w := v.signIn(x, p.id, "ann", nil); w.Code != 200 {
			t.Errorf("later: status %d\n%s", w.Code, w.Body)
		}
	})
}

// A user with a token of the configuration enters that, as without a provider.
func TestTokenBesideProvider(t *testing.T) {
	withProvider(t, func(cfg *Config) {
		cfg.Identify = func(_ *http.Request, token mcp.Token) (string, bool) { return "ci", token.Reveal() == "ci-token" }
	}, func(t *testing.T, x *identityFixture) {
		p, err := x.begin("ci", "crm")
		if err != nil {
			t.Fatal(err)
		}
		v := x.visitor()
		if text := v.do(http.MethodGet, PathPages+p.id, nil).Body.String(); !strings.Contains(text, `type="password"`) || !strings.Contains(text, "Continue to id.example.com") {
			t.Errorf("the page:\n%s", text)
		}
		if w := v.do(http.MethodPost, PathPages+p.id, url.Values{"token": {"ci-token"}}); w.Code != http.StatusSeeOther {
			t.Errorf("status %d", w.Code)
		}
		if w := v.do(http.MethodGet, PathPages+p.id, nil); !strings.Contains(w.Body.String(), "<strong>ci</strong>") {
			t.Errorf("status %d\n%s", w.Code, w.Body)
		}
	})
}

// A call that needs an ID token waits for the sign-in at the provider, and goes on with it. There is
// no second authorization server, and the token is that of the principal of the call.
func TestCallWaitsForIDToken(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		var sent []string
		h := &Handler{Desk: x.desk, Backend: "tickets", Rounds: 3, Next: mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			token, err := x.tokens.IDToken(ctx, req.Principal)
			if err != nil {
				return nil, &grant.Missing{Backend: "tickets", Principal: req.Principal, Reason: grant.NoIDToken, Err: err}
			}
			sent = append(sent, token.Reveal())
			return mcp.NewResult([]byte(`{"content":[],"resultType":"complete"}`))
		})}
		request := func(capabilities string) *mcp.Request {
			req, err := mcp.NewRequest("tools/call", []byte(`{"name":"tickets__find"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Principal, req.TakesInputRequired = "corp:ann", true
			req.Client.Version, req.Client.Capabilities = mcp.V20260728, []byte(capabilities)
			return req
		}
		text, err := h.Serve(t.Context(), request(`{}`), nil)
		if err != nil || !strings.Contains(string(text.Bytes()), "sign in at the identity provider first") || strings.Contains(string(text.Bytes()), "signalbox login") {
			t.Fatalf("%s, %v", text.Bytes(), err)
		}
		asked, err := h.Serve(t.Context(), request(`{"elicitation":{"url":{}}}`), nil)
		if err != nil || !strings.Contains(string(asked.Bytes()), publicURL+PathPages) {
			t.Fatalf("%v, %v", asked, err)
		}
		id := string(asked.Resume)
		again := request(`{"elicitation":{"url":{}}}`)
		answer, err := mcp.NewResult([]byte(`{"action":"accept"}`))
		if err != nil {
			t.Fatal(err)
		}
		again.Resumed = &mcp.Resumed{State: asked.Resume, Answers: map[string]*mcp.Result{inputKey: answer}, Rounds: 1}
		type outcome struct {
			res *mcp.Result
			err error
		}
		ended := make(chan outcome, 1)
		go func() {
			res, err := h.Serve(t.Context(), again, nil)
			ended <- outcome{res, err}
		}()
		synctest.Wait()
		ann := x.visitor()
		w := ann.signIn(x, id, "ann", nil)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "You are signed in at id.example.com") {
			t.Fatalf("status %d\n%s", w.Code, w.Body)
		}
		synctest.Wait()
		select {
		case got := <-ended:
			if got.err != nil || string(got.res.Bytes()) != `{"content":[],"resultType":"complete"}` || len(sent) != 1 {
				t.Errorf("the call: %+v, %d sent", got, len(sent))
			}
		default:
			t.Error("the call waits")
		}
		if kinds := x.kindsOf(); !slices.Equal(kinds, []EventKind{Done}) {
			t.Errorf("events %v", kinds)
		}
		// Another principal has none, and one that is known to the page needs the provider, too.
		if _, err := x.tokens.IDToken(t.Context(), "corp:bob"); !errors.Is(err, grant.ErrNoIDToken) {
			t.Errorf("bob: %v", err)
		}
		p := x.beginIdentity("corp:bob")
		bob := x.visitor()
		bob.cookies[hostPrefix+browserName] = x.desk.sealBrowser("corp:bob")
		page := bob.do(http.MethodGet, PathPages+p.id, nil).Body.String()
		if !strings.Contains(page, "<strong>corp:bob</strong>") || !strings.Contains(page, "Continue to id.example.com") {
			t.Errorf("the page:\n%s", page)
		}
		if w := bob.signIn(x, p.id, "bob", nil); w.Code != 200 || x.desk.find(p.id) != nil {
			t.Errorf("bob: status %d", w.Code)
		}
	})
}

// A refusal at the provider wakes the calls of the user that has begun, and the user can start again
// (identity attack 35).
func TestIdentityRefused(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p := x.beginIdentity("corp:ann")
		got := make(chan outcome, 1)
		go func() { got <- x.desk.wait(t.Context(), p, Lifetime/2, func() {}) }()
		synctest.Wait()
		deny := func(q url.Values) {
			q.Del("code")
			q.Set("error", "access_denied")
		}
		x.visitor().signIn(x, p.id, "ann", deny) // of a browser that is not known
		synctest.Wait()
		select {
		case how := <-got:
			t.Fatalf("a stranger has ended the wait: %d", how)
		default:
		}
		ann := x.visitor()
		ann.cookies[hostPrefix+browserName] = x.desk.sealBrowser("corp:ann")
		ann.signIn(x, p.id, "ann", deny)
		synctest.Wait()
		select {
		case how := <-got:
			if how != refused {
				t.Errorf("outcome %d", how)
			}
		default:
			t.Fatal("the call waits")
		}
		if w := ann.signIn(x, p.id, "ann", nil); w.Code != 200 || x.desk.find(p.id) != nil {
			t.Errorf("again: status %d", w.Code)
		}
	})
}

// A pending ends when its user signs in at the provider for another page, and not by a token that was
// there when a backend refused it.
func TestIDTokenOfAnotherPage(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		p := x.beginIdentity("corp:ann")
		q, err := x.begin("corp:ann", "crm")
		if err != nil {
			t.Fatal(err)
		}
		ann := x.visitor()
		ann.signIn(x, q.id, "ann", nil)
		synctest.Wait()
		if x.desk.find(p.id) != nil {
			t.Error("the pending is there")
		}
		time.Sleep(time.Second)
		p, err = x.desk.begin(t.Context(), &grant.Missing{Backend: "tickets", Principal: "corp:ann", Reason: grant.Ended}, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if x.desk.find(p.id) != p {
			t.Fatal("the refused token has ended the pending")
		}
		ann.signIn(x, p.id, "ann", nil)
		if x.desk.find(p.id) != nil {
			t.Error("the new token has not ended the pending")
		}
	})
}

// ID tokens are kept sealed, one for a principal, and deleted when they expire, also those of former
// processes (N14).
func TestIDTokensExpire(t *testing.T) {
	withProvider(t, nil, func(t *testing.T, x *identityFixture) {
		ctx := t.Context()
		life := func(d time.Duration) {
			x.provider.set(func(i *identityProvider) {
				i.fault = func(k *idToken) { k.claims["exp"] = time.Now().Add(d).Unix() }
			})
		}
		keep := func(user string, d time.Duration) {
			life(d)
			x.visitor().signIn(x, x.beginIdentity("corp:"+user).id, user, nil)
		}
		left := func() (names []string) {
			all, err := x.vault.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range all.IDTokens {
				names = append(names, k.Principal)
			}
			return names
		}
		keep("ann", 5*time.Minute)
		keep("bob", 30*time.Minute)
		first, err := x.tokens.IDToken(ctx, "corp:ann")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		q, err := x.desk.begin(ctx, &grant.Missing{Backend: "tickets", Principal: "corp:ann", Reason: grant.Ended}, nil)
		if err != nil {
			t.Fatal(err)
		}
		life(5 * time.Minute)
		x.visitor().signIn(x, q.id, "ann", nil)
		if second, err := x.tokens.IDToken(ctx, "corp:ann"); err != nil || second.Reveal() == first.Reveal() || !slices.Equal(left(), []string{"corp:ann", "corp:bob"}) {
			t.Errorf("the second token: %v, of %v", err, left())
		}
		time.Sleep(4*time.Minute + 51*time.Second)
		if _, err := x.tokens.IDToken(ctx, "corp:ann"); !errors.Is(err, grant.ErrNoIDToken) {
			t.Errorf("nine seconds before its end: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if got := left(); !slices.Equal(got, []string{"corp:bob"}) {
			t.Errorf("left %v", got)
		}
		time.Sleep(time.Hour)
		if got := left(); got != nil { // no request has looked for it
			t.Errorf("left %v", got)
		}
	})
}
