// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const withTokens = `, "oauth": {}` + keyed + `, "auth": {"tokens": [{"principal": "ann", "env": "T_ANN"}, {"principal": "bob", "env": "T_BOB"}]}`

// begun returns the page of a sign-in that a call has begun, and the requestState.
func (g *signInGateway) begun(token string) (page, state string) {
	g.t.Helper()
	res := g.call(token, "tools/call", "crm__sign_in", withURL, "")
	page, found := pageURL.FindString(res), stateOf.FindStringSubmatch(res)
	if page == "" || len(found) != 2 {
		g.t.Fatalf("result %s", res)
	}
	return page, found[1]
}

// noRedirects makes a browser stop at the authorization server.
func (b *browser) noRedirects() *browser {
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// start posts the form of a page, and returns where the authorization server is asked, and where
// its response would send the browser.
func (b *browser) start(page, origin string) (authorize, callback string) {
	b.t.Helper()
	b.noRedirects()
	next := func(method, to string) string {
		req, err := http.NewRequestWithContext(b.t.Context(), method, to, http.NoBody)
		if err != nil {
			b.t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		resp, err := b.Do(req)
		if err != nil {
			b.t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Header.Get("Location")
	}
	authorize = next(http.MethodPost, page)
	return authorize, next(http.MethodGet, authorize)
}

// Programs that open a link, and pages of other origins, begin nothing (identity attacks 24, 25;
// N16).
func TestSignInBeginsWithItsPage(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	page, _ := g.begun("")
	b := newBrowser(t)
	for range 3 {
		status, _, header := b.get(page)
		if status != 200 || header.Get("Set-Cookie") != "" || header.Get("Access-Control-Allow-Origin") != "" || header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("status %d, header %v", status, header)
		}
	}
	for _, tt := range []struct{ origin, site string }{
		{"https://evil.example", ""}, {"https://evil.example", "cross-site"}, {"null", ""}, {"", ""}, {"null", "cross-site"}, {g.edge.URL, "same-site"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := b.noRedirects().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) != 0 {
			t.Errorf("origin %q of site %q: status %d, cookies %v", tt.origin, tt.site, resp.StatusCode, resp.Cookies())
		}
	}
	if p.asked.Load() != 0 || p.issued.Load() != 0 {
		t.Error("the authorization server was asked")
	}
	// A real browser sends no referrer from this page, and therefore the origin "null".
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "null")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	c := resp.Cookies()
	if resp.StatusCode != http.StatusSeeOther || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteLaxMode || c[0].Path != "/" {
		t.Errorf("status %d, cookies %v", resp.StatusCode, c)
	}
	// The host of a page that resolves to this machine is not ours.
	req.Host = "evil.example"
	if resp, err = b.Do(req); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign host: status %d", resp.StatusCode)
	}
}

// A response counts once, in the browser that has begun, and with its state (identity attack 22; N7).
func TestSignInResponses(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	page, _ := g.begun("")
	own, other := newBrowser(t), newBrowser(t)
	_, callback := own.start(page, g.edge.URL)
	u, err := url.Parse(callback)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("state", "other")
	for what, to := range map[string]string{"another state": g.edge.URL + "/oauth/callback?" + q.Encode(), "no state": g.edge.URL + "/oauth/callback?code=canary-code", "no query": g.edge.URL + "/oauth/callback"} {
		if status, _, _ := own.get(to); status != 400 {
			t.Errorf("%s: status %d", what, status)
		}
	}
	if status, _, _ := other.get(callback); status != 400 || p.issued.Load() != 0 {
		t.Errorf("another browser: status %d, %d tokens", status, p.issued.Load())
	}
	if status, text, _ := own.get(callback); status != 200 || !strings.Contains(text, "You are signed in") {
		t.Errorf("the browser: status %d, %s", status, text)
	}
	if status, _, _ := own.get(callback); status != 400 || p.issued.Load() != 1 {
		t.Errorf("again: status %d, %d tokens", status, p.issued.Load())
	}
	if status, _, _ := own.get(page); status != 404 {
		t.Errorf("the page after the end: status %d", status)
	}
}

// The text of an error is not shown, whatever its iss, and nothing of an invalid response is used
// (identity attack 21; N9). After a refusal the user can start again (attack 35).
func TestSignInRefused(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	page, state := g.begun("")
	for _, tt := range []struct {
		name, want string
		change     func(url.Values)
	}{
		{"a wrong issuer", "not valid", func(v url.Values) { v.Set("iss", "https://evil.example") }},
		{"no issuer", "not valid", func(v url.Values) { v.Del("iss") }},
		{"an error of a wrong issuer", "not valid", func(v url.Values) {
			v.Set("iss", "https://evil.example")
			v.Set("error", "access_denied")
			v.Set("error_description", "text of <b>the error</b>")
		}},
		{"an error", "declined", func(v url.Values) {
			v.Del("code")
			v.Set("error", "access_denied")
			v.Set("error_description", "text of <b>the error</b>")
		}},
	} {
		p.response.Store(&tt.change)
		b := newBrowser(t)
		status, html := b.post(page, g.edge.URL, nil)
		if status != 400 || !strings.Contains(html, tt.want) || strings.Contains(html, "text of") || strings.Contains(html, "evil") {
			t.Errorf("%s: status %d\n%s", tt.name, status, html)
		}
	}
	if p.issued.Load() != 0 {
		t.Errorf("%d tokens", p.issued.Load())
	}
	// A call that waits learns of a refusal at once.
	answered := make(chan string, 1)
	go func() {
		answered <- g.call("", "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state+`","inputResponses":{"signin":{"action":"accept"}}`)
	}()
	b := newBrowser(t)
	for answer := ""; answer == ""; { // the call may not wait yet
		b.post(page, g.edge.URL, nil)
		select {
		case answer = <-answered:
			if !strings.Contains(answer, "was refused at its authorization server") || !strings.Contains(answer, `"isError":true`) {
				t.Errorf("the call: %s", answer)
			}
		default:
		}
	}
	p.response.Store(nil)
	if status, html := b.post(page, g.edge.URL, nil); status != 200 {
		t.Errorf("started again: status %d\n%s", status, html)
	}
}

// With tokens, a page is only for the principal of the call. To others it does not exist, and a
// browser has to identify itself first (identity attack 23; N7).
func TestSignInOfPrincipals(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	retried(t, g.Gateway, "down")
	page, _ := g.begun("canary-token-of-t_ann")
	ann, bob := newBrowser(t), newBrowser(t)
	unknown := page[:strings.LastIndex(page, "/")+1] + strings.Repeat("A", 26)
	_, form, _ := bob.get(page)
	if _, other, _ := bob.get(unknown); !strings.Contains(form, `type="password"`) || strings.ReplaceAll(other, unknown[len(g.edge.URL):], page[len(g.edge.URL):]) != form {
		t.Errorf("a browser that is not known can tell whether a sign-in exists:\n%s\n%s", form, other)
	}
	if status, html := bob.post(page, g.edge.URL, url.Values{"token": {"wrong"}}); status != 403 || strings.Contains(html, "wrong") {
		t.Errorf("a wrong token: status %d\n%s", status, html)
	}
	status, html := bob.post(page, g.edge.URL, url.Values{"token": {"canary-token-of-t_bob"}})
	if statusOther, htmlOther, _ := bob.get(unknown); status != 404 || statusOther != 404 || html != htmlOther {
		t.Errorf("another principal: status %d and %d\n%s\n%s", status, statusOther, html, htmlOther)
	}
	if status, _ := bob.post(page, g.edge.URL, nil); status != 404 || p.asked.Load() != 0 {
		t.Errorf("another principal begins: status %d", status)
	}
	w := httptest.NewRecorder()
	g.Operations().ServeHTTP(w, operatorRequest(t, "/metrics"))
	if text, _ := io.ReadAll(w.Body); !strings.Contains(string(text), `signalbox_events_total{kind="foreign_signin"} 2`) || !strings.Contains(string(text), "signalbox_pending_sign_ins 1") {
		t.Error("the metrics lack what was done")
	}
	if status, html := ann.post(page, g.edge.URL, url.Values{"token": {" canary-token-of-t_ann\t"}}); status != 200 || !strings.Contains(html, "<strong>ann</strong>") {
		t.Errorf("the principal: status %d\n%s", status, html)
	}
	if status, html := ann.post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in") {
		t.Errorf("the principal signs in: status %d\n%s", status, html)
	}
	if res := g.call("canary-token-of-t_ann", "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, "You are signed in") {
		t.Errorf("ann: %s", res)
	}
	if res := g.call("canary-token-of-t_bob", "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, `"input_required"`) {
		t.Errorf("bob: %s", res)
	}
	for range 11 {
		status, _ = bob.post(page, g.edge.URL, url.Values{"token": {"wrong"}})
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("many tokens: status %d", status)
	}
}

func operatorRequest(t *testing.T, path string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
	r.Header.Set("Authorization", "Bearer canary-token-of-t_ann")
	return r
}

// A call that the policy or a quota refuses asks for no sign-in, and no backend (N12).
func TestNoSignInForWhatIsRefused(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens + `, "policy": {"otherwise": "deny", "rules": [{"name": "ann", "allow": "principal.name == 'ann'"}, {"name": "not-one", "deny": "has(args.a) && args.a == 1"}]},
		"quotas": [{"per": "principal", "calls": "2/1h"}]`)
	retried(t, g.Gateway, "down")
	const ann, bob = "canary-token-of-t_ann", "canary-token-of-t_bob"
	for _, tt := range []struct{ name, token, more, want string }{
		{"a hidden tool", bob, "", "unknown tool"},
		{"refused arguments", ann, `,"arguments":{"a":1}`, "policy not-one does not allow these arguments"},
	} {
		if res := g.call(tt.token, "tools/call", "crm__sign_in", withURL, tt.more); !strings.Contains(res, tt.want) || strings.Contains(res, "/signin/") || strings.Contains(res, "input_required") {
			t.Errorf("%s: %s", tt.name, res)
		}
	}
	if n := metricOf(t, g, "signalbox_pending_sign_ins"); n != "" && n != "0" {
		t.Errorf("%s sign-ins have begun", n)
	}
	g.begun(ann)
	g.begun(ann)
	if res := g.call(ann, "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, "quotas[0]") || strings.Contains(res, "/signin/") {
		t.Errorf("over the quota: %s", res)
	}
}

// metricOf returns the value of a metric.
func metricOf(t *testing.T, g *signInGateway, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	g.Operations().ServeHTTP(w, operatorRequest(t, "/metrics"))
	_, rest, _ := strings.Cut(w.Body.String(), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// With two browsers of one user, the response counts in the one that was the last to begin
// (identity attack 22).
func TestSignInOfTheLatestBrowser(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	page, _ := g.begun("")
	first, last := newBrowser(t), newBrowser(t)
	_, callback := first.start(page, g.edge.URL)
	if _, other := last.start(page, g.edge.URL); other != callback {
		t.Fatalf("another authorization request: %s and %s", callback, other)
	}
	if status, _, _ := first.get(callback); status != 400 || p.issued.Load() != 0 {
		t.Errorf("the first browser: status %d, %d tokens", status, p.issued.Load())
	}
	if status, _, _ := last.get(callback); status != 200 || p.issued.Load() != 1 {
		t.Errorf("the last browser: status %d, %d tokens", status, p.issued.Load())
	}
}

// A client that agrees without opening the page is asked again, as often as limits.rounds allows,
// and then gets the text (identity attack 36).
func TestSignInIsNotAskedForEver(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(`, "oauth": {"wait": "1ms"}` + keyed + `, "limits": {"rounds": 3}`)
	retried(t, g.Gateway, "down")
	page, state := g.begun("")
	for n := 1; n <= 3; n++ {
		res := g.call("", "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state+`","inputResponses":{"signin":{"action":"accept"}}`)
		found := stateOf.FindStringSubmatch(res)
		if n == 3 && len(found) == 0 && strings.Contains(res, `"isError":true`) && strings.Contains(res, page) {
			return
		}
		if len(found) != 2 || pageURL.FindString(res) != page {
			t.Fatalf("answer %d: %s", n, res)
		}
		state = found[1]
	}
	t.Error("it was asked more than three times")
}

// The requestState of a sign-in is for its sender and its request only.
func TestSignInStateBelongsToItsRequest(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	retried(t, g.Gateway, "down")
	_, state := g.begun("canary-token-of-t_ann")
	again := `,"requestState":"` + state + `","inputResponses":{"signin":{"action":"accept"}}`
	for what, res := range map[string]string{
		"another principal": g.call("canary-token-of-t_bob", "tools/call", "crm__sign_in", withURL, again),
		"another request":   g.call("canary-token-of-t_ann", "tools/call", "crm__sign_in", withURL, again+`,"arguments":{"a":1}`),
	} {
		if !strings.Contains(res, "requestState is unknown") {
			t.Errorf("%s: %s", what, res)
		}
	}
}

// identity N5: the tool to sign in is unknown to users from whom the policy hides it, also to one that
// has signed in.
func TestHiddenToolToSignIn(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	retried(t, g.Gateway, "down")
	g.signIn("canary-token-of-t_ann")
	if res := g.call("canary-token-of-t_ann", "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, "You are signed in") {
		t.Fatalf("ann: %s", res)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again := p.open(withTokens + `, "policy": {"otherwise": "deny"}`)
	retried(t, again.Gateway, "down")
	call := func(name string) string {
		res := again.call("canary-token-of-t_ann", "tools/call", name, withURL, "")
		return callIDInError.ReplaceAllString(strings.ReplaceAll(res, name, "NAME"), "")
	}
	if hidden, unknown := call("crm__sign_in"), call("crm__nothing"); hidden != unknown {
		t.Errorf("the tool to sign in is answered %s, an unknown one %s", hidden, unknown)
	}
}
