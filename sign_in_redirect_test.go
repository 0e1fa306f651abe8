// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// freePort returns a port of this machine that nothing uses.
func freePort(t *testing.T) int {
	t.Helper()
	l := listenAt(t, 0)
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	l.Close()
	return port
}

func listenAt(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// redirectOf returns the redirect URI of the address of an authorization request.
func redirectOf(t *testing.T, authorize string) string {
	t.Helper()
	u, err := url.Parse(authorize)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("redirect_uri")
}

// A client that is registered with a port of the user's machine, as those in the files of clients
// are, signs in by the pages of a gateway on that machine, too. The port is open as long as the
// sign-in is, and for its redirect URI only.
func TestSignInAtCallbackPort(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost"} {
		t.Run(host, func(t *testing.T) {
			p := newSignInPeers(t)
			port := freePort(t)
			g := p.open(fmt.Sprintf(`, "oauth": {"clientId": "registered-client", "callbackPort": %d, "callbackHost": %q}`, port, host) + keyed)
			retried(t, g.Gateway, "down")
			page, _ := g.begun("")
			b := newBrowser(t)
			authorize, callback := b.start(page, g.edge.URL)
			want := fmt.Sprintf("http://%s:%d/callback", host, port)
			if got := redirectOf(t, authorize); got != want {
				t.Fatalf("redirect URI %q, want %q", got, want)
			}
			b.CheckRedirect = nil
			for _, other := range []string{strings.Replace(callback, "/callback", "/other", 1), strings.Replace(callback, host, "127.0.0.2", 1)} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.URL.Host, req.Host = strings.Replace(req.URL.Host, "127.0.0.2", "127.0.0.1", 1), req.URL.Host
				resp, err := b.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: status %d", other, resp.StatusCode)
				}
			}
			if status, _, _ := newBrowser(t).get(callback); status != http.StatusBadRequest {
				t.Errorf("another browser: status %d", status)
			}
			if status, html, _ := b.get(callback); status != 200 || !strings.Contains(html, "You are signed in to crm") {
				t.Errorf("status %d\n%s", status, html)
			}
			if got := p.redirect.Load(); got == nil || *got != want {
				t.Errorf("the token was requested with the redirect URI %v", got)
			}
			listenAt(t, port) // it is free again
		})
	}
}

// Where the port cannot be used, the page has the reason and what to do.
func TestNoSignInAtCallbackPort(t *testing.T) {
	p := newSignInPeers(t)
	taken := listenAt(t, 0).Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	oauth := fmt.Sprintf(`, "oauth": {"clientId": "registered-client", "callbackPort": %d}`, taken)
	g := p.open(oauth + keyed)
	retried(t, g.Gateway, "down")
	page, _ := g.begun("")
	if status, html, _ := newBrowser(t).get(page); status != http.StatusBadGateway || !strings.Contains(html, fmt.Sprintf("http://127.0.0.1:%d/callback, cannot be used", taken)) {
		t.Errorf("status %d\n%s", status, html)
	}
	// Beyond loopback, the redirect URI is on the wrong machine.
	far := p.open(oauth + keyed + `, "publicURL": "https://mcp.example.com"` + strings.TrimPrefix(withTokens, `, "oauth": {}`+keyed))
	retried(t, far.Gateway, "down")
	begun := far.ownSignIn(http.MethodPost, "/crm", ann)
	to := strings.Replace(begun.URL, "https://mcp.example.com", far.edge.URL, 1)
	cookies := newBrowser(t).noRedirects()
	_, _, header := cookies.get(to)
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, far.edge.URL+header.Get("Location"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	html := string(text)
	for _, want := range []string{fmt.Sprintf("http://127.0.0.1:%d/callback (oauth.callbackPort)", taken), "register https://mcp.example.com/oauth/callback for the client", "signalbox login crm"} {
		if resp.StatusCode != http.StatusBadGateway || !strings.Contains(html, want) {
			t.Errorf("status %d, without %q:\n%s", resp.StatusCode, want, html)
		}
	}
}

// A gateway with pages at another port than before, as one on stdio has, uses the port that it
// is registered with as long as that is free, and registers anew if it is not. No other port is
// assumed to be allowed (RFC 8252, section 7.3, is not what all servers do).
func TestSignInReusesTheRegisteredPort(t *testing.T) {
	p := newSignInPeers(t)
	signIn := func() (redirect string) {
		g := p.open(keyed)
		retried(t, g.Gateway, "down")
		begun := g.ownSignIn(http.MethodPost, "/crm", "")
		b := newBrowser(t)
		authorize, callback := b.start(begun.URL, g.edge.URL)
		b.CheckRedirect = nil
		if status, html, _ := b.get(callback); status != 200 || !strings.Contains(html, "You are signed in to crm") {
			t.Fatalf("status %d\n%s", status, html)
		}
		if got := *p.redirect.Load(); got != redirectOf(t, authorize) {
			t.Errorf("the token was requested with the redirect URI %v", got)
		}
		if _, text := g.own(http.MethodDelete, "/crm", ""); !strings.Contains(text, `"deleted":1`) {
			t.Fatalf("sign-out: %s", text)
		}
		g.edge.Close() // the port is free now
		return redirectOf(t, authorize)
	}
	first := signIn()
	for range 3 {
		if again := signIn(); again != first || p.registered.Load() != 1 {
			t.Errorf("redirect URI %q, before %q; %d registrations", again, first, p.registered.Load())
		}
	}
	u, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscan(u.Port(), &port); err != nil {
		t.Fatal(err)
	}
	taken := listenAt(t, port)
	if other := signIn(); other == first || p.registered.Load() != 2 {
		t.Errorf("redirect URI %q, which is in use; %d registrations", other, p.registered.Load())
	}
	taken.Close()
	if again := signIn(); p.registered.Load() != 2 {
		t.Errorf("redirect URI %q; %d registrations", again, p.registered.Load())
	}
}
