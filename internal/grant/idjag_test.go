// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A call of a user has a token for which the identity provider has vouched, once for all its calls
// and once for each ID token of the user (I14). What the backend names is not requested, and an
// assertion is sent once.
func TestIDJAG(t *testing.T) {
	t.Parallel()
	w := newVouched(t)
	j, c := w.closing(t, func(cfg *grant.IDJAGConfig) {
		cfg.Parameters, cfg.Scopes = map[string]string{"extra": "1"}, []string{"tickets.read", "tickets.write"}
	})
	ann, bob := w.signIn("ann", time.Hour), w.signIn("bob", time.Hour)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			id := []*mcp.Identity{ann, bob}[i%2]
			if got, err := callAs(t.Context(), c, id); err != nil || got != id.Subject {
				t.Errorf("the backend was called as %q, %v, want %s", got, err, id.Subject)
			}
		})
	}
	all.Wait()
	forms, grants := w.requests(), w.g.requests()
	if len(forms) != 2 || len(grants) != 2 {
		t.Fatalf("%d assertions and %d tokens, want 2 of each", len(forms), len(grants))
	}
	want := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "requested_token_type": {oauth.TypeIDJAG},
		"subject_token_type": {oauth.TypeIDToken}, "audience": {w.g.URL}, "resource": {w.b.URL + "/mcp"}, "extra": {"1"},
		"scope": {"tickets.read tickets.write"},
	}
	for _, form := range forms {
		want["subject_token"] = form["subject_token"]
		if form.Encode() != want.Encode() {
			t.Errorf("exchange %s, want %s", form.Encode(), want.Encode())
		}
	}
	want = url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "resource": {w.b.URL + "/mcp"}}
	for _, form := range grants {
		want["assertion"] = form["assertion"]
		if form.Encode() != want.Encode() {
			t.Errorf("token request %s, want %s", form.Encode(), want.Encode())
		}
	}
	w.signIn("ann", 2*time.Hour)
	if got, err := callAs(t.Context(), c, ann); err != nil || got != "ann" || len(w.requests()) != 3 {
		t.Errorf("with a new ID token: called as %q, %v, after %d assertions, want 3", got, err, len(w.requests()))
	}
	if last := j.Last(); last.Err != nil || last.Issuer != w.g.URL || last.Resource != w.b.URL+"/mcp" || last.Scopes != nil || last.Until.Before(last.At) {
		t.Errorf("last request: %+v", last)
	}
	if !j.PerPrincipal() {
		t.Error("users share sessions")
	}
}

// What the identity provider returns is checked before it is sent on, and its refusals end a call
// with their code. Its texts are in no error and unescaped in no log (row 38).
func TestIDJAGOfTheProviderIsRefused(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Minute).Unix()
	for name, tt := range map[string]struct {
		fault func(*voucher)
		want  []string
	}{
		"another audience":          {func(v *voucher) { v.change = claims{"aud": "https://evil.example.com"} }, []string{"not for it (aud)", "oauth.authorizationServer.issuer"}},
		"another audience, too":     {func(v *voucher) { v.change = claims{"aud": []string{"https://evil.example.com", "x"}} }, []string{"(aud)"}},
		"the ID token as audience":  {func(v *voucher) { v.change = claims{"aud": subjectToken} }, []string{"(aud)"}},
		"another resource":          {func(v *voucher) { v.change = claims{"resource": "https://evil.example.com"} }, []string{"(resource)", "oauth.resource"}},
		"another client":            {func(v *voucher) { v.change = claims{"client_id": "other"} }, []string{"(client_id)", "oauth.authorizationServer.clientId"}},
		"another issuer":            {func(v *voucher) { v.change = claims{"iss": "https://evil.example.com"} }, []string{"(iss)", "oauth.issuer"}},
		"expired":                   {func(v *voucher) { v.change = claims{"exp": past} }, []string{"(exp)"}},
		"without end":               {func(v *voucher) { v.change = claims{"exp": nil} }, []string{"(exp)"}},
		"of the future":             {func(v *voucher) { v.change = claims{"iat": past + 600} }, []string{"(iat)"}},
		"another typ":               {func(v *voucher) { v.typ = "JWT" }, []string{"(typ)"}},
		"an access token":           {func(v *voucher) { v.typ = "at+jwt" }, []string{"(typ)"}},
		"another issued_token_type": {func(v *voucher) { v.response = claims{"issued_token_type": oauth.TypeAccessToken} }, []string{"not acceptable (token_type)", "oauth.issuer"}},
		"no issued_token_type":      {func(v *voucher) { v.response = claims{"issued_token_type": nil} }, []string{"(token_type)"}},
		"no JWT":                    {func(v *voucher) { v.response = claims{"access_token": "opaque"} }, []string{"(the assertion)"}},
		"invalid_grant":             {func(v *voucher) { v.refuse = "invalid_grant" }, []string{"does not vouch for the user (invalid_grant)", "oauth.clientId"}},
		"invalid_target":            {func(v *voucher) { v.refuse = "invalid_target" }, []string{"(invalid_target)", "oauth.resource, oauth.authorizationServer.issuer"}},
		"access_denied":             {func(v *voucher) { v.refuse = "access_denied" }, []string{"(access_denied)"}},
		"invalid_client":            {func(v *voucher) { v.refuse = "invalid_client" }, []string{"(invalid_client)", "oauth.clientSecret"}},
		"an invalid code":           {func(v *voucher) { v.refuse = "<b>\r\n" }, []string{"(HTTP status 400)"}},
		"down":                      {func(v *voucher) { v.status = 503 }, []string{"identity provider cannot be reached"}},
		"status 401":                {func(v *voucher) { v.status = 401 }, []string{"(HTTP status 401)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newVouched(t)
			tt.fault(w.voucher)
			j, c := w.closing(t, nil)
			ann := w.signIn("ann", time.Hour)
			for range 3 {
				_, err := callAs(t.Context(), c, ann)
				w.wantRefused(t, j, err, append(tt.want, "tickets")...)
			}
			if n := len(w.requests()); n != 1 || len(w.g.requests()) != 0 {
				t.Errorf("%d requests to the identity provider, want 1, and %d to the authorization server, want 0", n, len(w.g.requests()))
			}
		})
	}
}

// The refusals of the authorization server end a call with their code, and what it returns of the
// assertion and the ID token is sent to no backend (N1, N3).
func TestIDJAGIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault func(*granter)
		want  []string
	}{
		"invalid_grant":  {func(g *granter) { g.refuse = "invalid_grant" }, []string{"gives no token (invalid_grant)", "oauth.authorizationServer.clientId"}},
		"invalid_client": {func(g *granter) { g.refuse = "invalid_client" }, []string{"(invalid_client)", "oauth.authorizationServer.clientSecret"}},
		"invalid_target": {func(g *granter) { g.refuse = "invalid_target" }, []string{"(invalid_target)", "oauth.resource"}},
		"down":           {func(g *granter) { g.status = 500 }, []string{"authorization server cannot be reached"}},
		"the assertion":  {func(g *granter) { g.echo = "assertion" }, []string{"returned what it was sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newVouched(t)
			tt.fault(w.g)
			j, c := w.closing(t, nil)
			ann := w.signIn("ann", time.Hour)
			for range 3 {
				_, err := callAs(t.Context(), c, ann)
				w.wantRefused(t, j, err, tt.want...)
			}
			if len(w.g.requests()) != 1 {
				t.Errorf("%d requests to the authorization server, want 1", len(w.g.requests()))
			}
		})
	}
}

// missing returns the *grant.Missing of an error.
func missing(t *testing.T, err error) *grant.Missing {
	t.Helper()
	m, ok := errors.AsType[*grant.Missing](err)
	if !ok {
		t.Fatalf("error %v, want a sign-in", err)
	}
	return m
}

// A user without an ID token has to sign in at the identity provider: it is called for neither with
// the access of another user, nor without any.
func TestIDJAGWithoutIDToken(t *testing.T) {
	t.Parallel()
	w := newVouched(t)
	j, _ := w.closing(t, nil)
	ended := w.signIn("eve", -time.Second)
	if _, err := j.For(t.Context(), requestAs(t, w.signIn("ann", time.Hour))); err != nil {
		t.Fatal(err)
	}
	w.ids.set("", w.idToken("everyone", time.Hour))
	before := len(w.requests())
	for name, id := range map[string]*mcp.Identity{
		"another user": {Principal: "corp:bob", Via: mcp.ViaJWT, Issuer: w.URL, Token: mcp.NewToken("canary-inbound-bob")},
		"static":       {Principal: "ci", Via: mcp.ViaToken},
		"expired":      ended,
		"nobody":       {},
	} {
		m := missing(t, func() error { _, err := j.For(t.Context(), requestAs(t, id)); return err }())
		if m.Reason != grant.NoIDToken || m.Principal != id.Principal || m.Backend != "tickets" || !strings.Contains(m.Error(), "identity provider") {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if n := len(w.requests()) - before; n != 0 {
		t.Errorf("%d requests to the identity provider", n)
	}
	none, c := w.closing(t, func(cfg *grant.IDJAGConfig) { cfg.IDTokens = nil })
	if _, err := callAs(t.Context(), c, w.signIn("ann", time.Hour)); missing(t, err).Reason != grant.NoIDToken {
		t.Error(err)
	}
	if err := none.Refused(t.Context(), requestAs(t, w.signIn("ann", time.Hour)), client.Credential{}, client.Refusal{Status: 401}); missing(t, err) == nil {
		t.Error(err)
	}
	w.ids.errs = map[string]error{"corp:ann": errors.New("the disk is full")}
	if _, err := j.For(t.Context(), requestAs(t, w.signIn("ann", time.Hour))); err == nil || strings.Contains(err.Error(), "disk") {
		t.Errorf("an ID token that cannot be read: %v", err)
	}
}

// requestAs returns a call of a sender.
func requestAs(t *testing.T, id *mcp.Identity) *mcp.Request {
	t.Helper()
	req := requestOf(t, id.Principal)
	if id.Principal != "" {
		req.Identity = id
	}
	return req
}

// An ID token goes to the identity provider that has issued it, and to no other (N3).
func TestIDTokenOfAnotherProvider(t *testing.T) {
	t.Parallel()
	w, other := newVouched(t), newVoucher(t)
	j, c := w.closing(t, nil)
	for name, token := range map[string]mcp.Token{
		"another issuer": other.idToken("ann", time.Hour), "no JWT": mcp.NewToken("canary-opaque-id-token"),
	} {
		w.ids.set("corp:ann", token)
		_, err := callAs(t.Context(), c, &mcp.Identity{Principal: "corp:ann"})
		w.wantRefused(t, j, err, "not one of", "oauth.issuer")
		if text := err.Error() + j.Last().Err.Error(); strings.Contains(text, token.Reveal()) {
			t.Errorf("%s: the ID token is in %s", name, text)
		}
	}
	if n := len(w.requests()) + len(other.requests()) + len(w.g.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// The authorization server is the pinned one, or the first that the backend named: assertions and the
// client's secret go to no other (N3).
func TestIDJAGIsBound(t *testing.T) {
	t.Parallel()
	w := newVouched(t)
	evil := newGranter(t, w.voucher)
	ann := w.signIn("ann", time.Hour)
	j, c := w.closing(t, nil)
	w.b.set(func() { w.b.names = evil.URL })
	_, err := callAs(t.Context(), c, ann)
	w.wantRefused(t, j, err, "another authorization server", "oauth.authorizationServer.issuer")

	w.b.set(func() { w.b.names = w.g.URL })
	j, c = w.closing(t, func(cfg *grant.IDJAGConfig) { cfg.Client.Issuer = "" })
	if got, err := callAs(t.Context(), c, ann); err != nil || got != "ann" {
		t.Fatalf("called as %q, %v", got, err)
	}
	w.b.set(func() { w.b.names, w.b.never, w.b.calls = evil.URL, true, nil })
	for range 3 { // the metadata are read again after a refusal
		_, err = callAs(t.Context(), c, ann)
	}
	wantFault(t, err, "refuses the token")
	w.signIn("ann", time.Hour)
	w.b.set(func() { w.b.calls = nil })
	_, err = callAs(t.Context(), c, ann)
	w.wantRefused(t, j, err, "another authorization server", "oauth.authorizationServer.issuer")
	if n := len(evil.requests()); n != 0 {
		t.Errorf("%d requests to another authorization server", n)
	}
	for _, form := range w.requests() {
		if form.Get("audience") != w.g.URL {
			t.Errorf("an assertion for %s", form.Get("audience"))
		}
	}
	for _, cfg := range []grant.IDJAGConfig{
		{URL: w.b.URL}, {URL: "x", Issuer: w.URL},
		{URL: w.b.URL, Issuer: w.URL, ProviderClient: oauth.Registration{Issuer: evil.URL}, Client: oauth.Registration{ClientID: "x"}},
		{URL: w.b.URL, Issuer: w.URL, ProviderClient: oauth.Registration{Issuer: w.URL}},
	} {
		if j, err := grant.NewIDJAG(cfg); err == nil {
			j.Close()
			t.Errorf("accepted: %+v", cfg)
		}
	}
}

// A token that the backend refuses is requested again once, and the call is sent again once. Then
// the error names the keys (identity attack 29). Scopes are not widened.
func TestVouchedTokenIsRefused(t *testing.T) {
	t.Parallel()
	w := newVouched(t)
	_, c := w.closing(t, nil)
	ann := w.signIn("ann", time.Hour)
	if _, err := callAs(t.Context(), c, ann); err != nil {
		t.Fatal(err)
	}
	w.g.set(func() { w.g.ended["granted-1"] = true })
	if got, err := callAs(t.Context(), c, ann); err != nil || got != "ann" {
		t.Fatalf("called as %q, %v", got, err)
	}
	if calls := w.b.seen(); !slices.Equal(calls, []string{"granted-1", "granted-1", "granted-2"}) {
		t.Errorf("calls with %v", calls)
	}
	w.b.set(func() { w.b.never, w.b.calls = true, nil })
	for range 5 {
		_, err := callAs(t.Context(), c, ann)
		wantFault(t, err, "refuses the token", "HTTP status 401", "oauth.scopes")
	}
	if n := len(w.requests()); n != 2 || len(w.b.seen()) != 5 {
		t.Errorf("%d assertions and %d calls, want 2 and 5", n, len(w.b.seen()))
	}
	w.b.set(func() { w.b.never, w.b.needs = false, "tickets.admin" })
	_, err := callAs(t.Context(), c, ann)
	wantFault(t, err, "tickets.admin", "oauth.scopes")
	if n := len(w.requests()); n != 2 {
		t.Errorf("%d assertions after a refusal for lack of a scope", n)
	}
}

// An identity provider that hangs ends no call but by the call's own time, and its answer serves
// those that come later.
func TestIDJAGOfAProviderThatHangs(t *testing.T) {
	t.Parallel()
	w := newVouched(t)
	hang := make(chan struct{})
	w.hang = hang
	_, c := w.closing(t, nil)
	ann := w.signIn("ann", time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := callAs(ctx, c, ann); err == nil {
				t.Error("a call went on without a token")
			}
		})
	}
	for len(w.requests()) == 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	cancel()
	all.Wait()
	w.set(func() { w.hang = nil })
	close(hang)
	if got, err := callAs(t.Context(), c, ann); err != nil || got != "ann" || len(w.requests()) != 1 {
		t.Errorf("called as %q, %v, after %d requests, want 1", got, err, len(w.requests()))
	}
}

// A token is used until it ends, also when the ID token has ended meanwhile. Then the user has to
// sign in. Nothing is requested for an ID token that has expired.
func TestIDJAGAndTheEndOfTheIDToken(t *testing.T) {
	w := newVouched(t)
	w.g.life = 600
	synctest.Test(t, func(t *testing.T) {
		w.tick()
		j, c := w.dial(t, w.b, nil)
		defer j.Close()
		defer c.Close()
		ann := w.signIn("ann", 15*time.Minute)
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {569 * time.Second, 1}, {2 * time.Second, 2}, {400 * time.Second, 2}} {
			time.Sleep(step.after)
			w.tick()
			if got, err := callAs(t.Context(), c, ann); err != nil || got != "ann" || len(w.requests()) != step.want {
				t.Errorf("%v later: called as %q, %v, after %d assertions, want %d", step.after, got, err, len(w.requests()), step.want)
			}
		}
		time.Sleep(10 * time.Minute)
		w.tick()
		if _, err := j.For(t.Context(), requestAs(t, ann)); missing(t, err).Reason != grant.NoIDToken || len(w.requests()) != 2 {
			t.Errorf("after the end: %v, after %d assertions", err, len(w.requests()))
		}
		w.signIn("ann", time.Hour)
		if got, err := callAs(t.Context(), c, ann); err != nil || got != "ann" {
			t.Errorf("with a new ID token: called as %q, %v", got, err)
		}
	})
}

// Requests of the gateway itself have no credential: the access of a user is not used for them unless
// all users see the same lists, and only as long as the user is signed in.
func TestIDJAGForTheGatewayItself(t *testing.T) {
	t.Parallel()
	w := newVouched(t)
	own := &mcp.Request{Method: "tools/list"}
	ann := w.signIn("ann", time.Hour)
	j, _ := w.closing(t, nil)
	if _, err := j.For(t.Context(), requestAs(t, ann)); err != nil {
		t.Fatal(err)
	}
	sent, err := j.For(t.Context(), own)
	if err != nil || len(sent.Header) != 0 {
		t.Errorf("the lists are fetched with %d headers, %v", len(sent.Header), err)
	}
	if err := j.Refused(t.Context(), own, sent, client.Refusal{Status: 401}); err == nil || !strings.Contains(err.Error(), "for each its own") {
		t.Errorf("refused: %v", err)
	}
	if err := j.Refused(t.Context(), own, sent, client.Refusal{Status: 403}); !errors.Is(err, client.ErrRefused) {
		t.Errorf("forbidden: %v", err)
	}
	listed := 0
	shared, _ := w.closing(t, func(cfg *grant.IDJAGConfig) { cfg.SharedLists, cfg.Listed = true, func() { listed++ } })
	if sent, err := shared.For(t.Context(), own); err != nil || len(sent.Header) != 0 {
		t.Errorf("before a user: %d headers, %v", len(sent.Header), err)
	}
	if err := shared.Refused(t.Context(), own, client.Credential{}, client.Refusal{Status: 401}); err == nil || !strings.Contains(err.Error(), "no user") {
		t.Errorf("refused: %v", err)
	}
	for _, id := range []*mcp.Identity{ann, w.signIn("bob", time.Hour)} {
		if _, err := shared.For(t.Context(), requestAs(t, id)); err != nil {
			t.Fatal(err)
		}
	}
	sent, err = shared.For(t.Context(), own)
	if user := w.g.of(bearer(sent), w.b.URL+"/mcp"); err != nil || user != "ann" || listed != 1 {
		t.Errorf("the lists are fetched as %q, %v, after %d calls of Listed", user, err, listed)
	}
	w.ids.set("corp:ann", mcp.Token{})
	if sent, err := shared.For(t.Context(), own); err != nil || len(sent.Header) != 0 {
		t.Errorf("after the user has signed out: %d headers, %v", len(sent.Header), err)
	}
	if _, err := shared.For(t.Context(), requestOf(t, "")); missing(t, err).Principal != "" {
		t.Error(err)
	}
}

// With the ID token of a file all callers are that user. The file is read again.
func TestIDJAGOfAFile(t *testing.T) {
	w := newVouched(t)
	file := filepath.Join(t.TempDir(), "id-token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		j, c := w.dial(t, w.b, func(cfg *grant.IDJAGConfig) { cfg.File, cfg.Scopes = file, []string{"read"} })
		defer j.Close()
		defer c.Close()
		if j.PerPrincipal() {
			t.Error("callers do not share sessions")
		}
		_, err := callAs(t.Context(), c, &mcp.Identity{Principal: "ci"})
		w.wantRefused(t, j, err, "cannot be read", "oauth.idToken")
		for _, user := range []string{"robot", "robot2"} {
			write(w.idToken(user, time.Hour).Reveal())
			time.Sleep(2 * time.Second)
			w.tick()
			for _, id := range []*mcp.Identity{nil, {Principal: "ci"}, w.signIn("ann", time.Hour)} {
				if got, err := callAs(t.Context(), c, id); err != nil || got != user {
					t.Errorf("called as %q, %v, want %s", got, err, user)
				}
			}
		}
		if n := len(w.requests()); n != 2 {
			t.Errorf("%d assertions, want 2", n)
		}
		if last := j.Last(); !slices.Equal(last.Scopes, []string{"read"}) {
			t.Errorf("last request: %+v", last)
		}
		w.b.set(func() { w.b.calls = nil })
		for text, want := range map[string]string{
			w.idToken("robot", -time.Minute).Reveal(): "has expired", "": "cannot be read", strings.Repeat("x", 70_000): "cannot be read",
			"x": "not one of",
		} {
			write(text)
			time.Sleep(2 * time.Second)
			w.tick()
			_, err := callAs(t.Context(), c, nil)
			w.wantRefused(t, j, err, want, "oauth.idToken")
		}
		w.set(func() { w.refuse = "invalid_grant" })
		write(w.idToken("robot", time.Hour).Reveal())
		time.Sleep(2 * time.Second)
		w.tick()
		_, err = callAs(t.Context(), c, nil)
		w.wantRefused(t, j, err, "(invalid_grant)", "oauth.idToken")
	})
}

// However calls, ID tokens, refusals, moves and faults mix: a backend is called as the user that
// calls, with a token for this backend, or not at all; an ID token is sent to the identity provider
// alone, and an assertion to the server that it is for, once (N1, N2, N3).
func TestIDJAGRandom(t *testing.T) {
	t.Parallel()
	seeds := 200
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		if idJAGRun(t, uint64(seed)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func idJAGRun(t *testing.T, seed uint64) {
	t.Helper()
	w := newVouched(t)
	wiki := newVouchedBackend(t, "wiki", newGranter(t, w.voucher))
	evil := newGranter(t, w.voucher)
	backends := []*vouchedBackend{w.b, wiki}
	defer w.Close()
	defer evil.Close()
	for _, b := range backends {
		defer b.Close()
		defer b.g.Close()
	}
	r := rand.New(rand.NewPCG(seed, 0))
	w.g.life, wiki.g.life = 30+r.IntN(3600), 30+r.IntN(3600)
	synctest.Test(t, func(t *testing.T) {
		w.tick()
		var clients []*client.Client
		for i, b := range backends {
			j, c := w.dial(t, b, func(cfg *grant.IDJAGConfig) {
				if i == 1 { // bound to the first one, which is its own
					cfg.Client.Issuer = ""
				}
			})
			defer j.Close()
			defer c.Close()
			clients = append(clients, c)
		}
		ids := map[string]*mcp.Identity{}
		for _, user := range []string{"ann", "bob", "eve"} {
			ids[user] = w.signIn(user, time.Hour)
		}
		if _, err := callAs(t.Context(), clients[1], ids["ann"]); err != nil {
			t.Error(err)
		}
		for range 6 {
			for user := range ids {
				switch r.IntN(4) {
				case 0:
					w.ids.set("corp:"+user, mcp.Token{})
				case 1:
					ids[user] = w.signIn(user, time.Duration(1+r.IntN(7200))*time.Second)
				}
			}
			w.set(func() {
				w.status = []int{0, 0, 0, 503}[r.IntN(4)]
				w.refuse = []string{"", "", "", "access_denied"}[r.IntN(4)]
				w.change = []claims{nil, nil, nil, {"aud": evil.URL}, {"client_id": "other"}, {"exp": 1}}[r.IntN(6)]
			})
			for _, b := range backends {
				b.set(func() { b.names = []string{b.g.URL, b.g.URL, evil.URL}[r.IntN(3)] })
				b.g.set(func() {
					b.g.status = []int{0, 0, 0, 500}[r.IntN(4)]
					for token := range b.g.issued {
						if r.IntN(4) == 0 {
							b.g.ended[token] = true
						}
					}
				})
			}
			var all sync.WaitGroup
			for range 3 + r.IntN(10) {
				id, i := ids[[]string{"ann", "bob", "eve"}[r.IntN(3)]], r.IntN(2)
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(8) == 0 {
					cancel()
				}
				all.Go(func() {
					defer cancel()
					got, err := callAs(ctx, clients[i], id)
					if _, ok := errors.AsType[*mcp.Fault](err); err != nil && !ok || err == nil && (got != id.Subject || got == "") {
						t.Errorf("%s was called as %q for %s: %v", backends[i].name, got, id.Principal, err)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Duration(r.Int64N(int64(40 * time.Minute))))
			w.tick()
		}
	})
	w.wantCanaries(t, evil, backends...)
}

// wantCanaries checks where each credential has been.
func (w *vouched) wantCanaries(t *testing.T, evil *granter, backends ...*vouchedBackend) {
	t.Helper()
	if len(w.assertions) == 0 {
		t.Error("there was no assertion")
	}
	has := func(place, text string, secrets ...string) {
		for _, secret := range secrets {
			if n := strings.Count(text, secret); n > 0 {
				t.Errorf("%s has got %.40q %d times", place, secret, n)
			}
		}
	}
	has("another authorization server", evil.all.String(), "assertion", "server-secret")
	has("the identity provider", w.all.String(), "canary", "granted-", "server-secret")
	for _, b := range backends {
		grants, seen := b.g.all.String(), b.all.String()
		has("the authorization server of "+b.name, grants, append(w.idTokens, "canary", "granted-", "provider-secret")...)
		has(b.name, seen, append(w.idTokens, "canary", "provider-secret", "server-secret", "granted-refresh")...)
		for assertion, audience := range w.assertions {
			n := strings.Count(grants, url.QueryEscape(assertion))
			if n > 1 || n > 0 && audience != b.g.URL {
				t.Errorf("an assertion for %s was sent %d times to %s", audience, n, b.g.URL)
			}
			has(b.name, seen, assertion)
		}
		for _, token := range b.calls {
			if of := b.g.issued[token]; token == "" || of["resource"] != b.URL+"/mcp" {
				t.Errorf("%s got the token %q for %v", b.name, token, fmt.Sprint(of["resource"]))
			}
		}
	}
}
