// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
)

// site asks for a name, then for consent, and then redirects to /callback.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /start", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: "1", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/login?x=1&y=2", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<form method=post action="/login?a=1&amp;b=2"><input type="hidden" name='id' value="x&amp;y"><input name="login" required><button>Go</button></form>`)
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("visit"); err != nil || r.Header.Get("Origin") != "http://"+r.Host || r.Header.Get("Sec-Fetch-Site") != "same-origin" {
			http.Error(w, "not a browser", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `<p>%s %s %s</p><form method="post" action="/consent"><button name="answer" value="yes">Yes</button><button name="answer" value="no">No</button></form>`,
			r.FormValue("login"), r.FormValue("id"), r.FormValue("b"))
	})
	mux.HandleFunc("POST /consent", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/callback?answer="+r.FormValue("answer"), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done: "+r.FormValue("answer")) })
	mux.HandleFunc("GET /loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("GET /app", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "other-app:do", http.StatusFound) })
	mux.HandleFunc("GET /again", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<form action="/again"><input type=submit></form>`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestSignIn(t *testing.T) {
	s := site(t)
	b := browser.New("ann")
	p, err := b.SignIn(t.Context(), s.URL+"/start")
	if err != nil || p.Body != "done: yes" {
		t.Fatalf("got %+v, %v", p, err)
	}
	want := []string{"/start", "/login?x=1&y=2", "/login?a=1&b=2", "/consent", "/callback?answer=yes"}
	if got := strings.ReplaceAll(strings.Join(b.Visited, " "), s.URL, ""); got != strings.Join(want, " ") {
		t.Errorf("visited %s", got)
	}
	b.Press = "no"
	if p, err := b.SignIn(t.Context(), s.URL+"/start"); err != nil || p.Body != "done: no" {
		t.Errorf("with the other button: got %+v, %v", p, err)
	}
}

// The fields of one form reach the next page, hidden ones unchanged.
func TestSubmit(t *testing.T) {
	s := site(t)
	b := browser.New("ann")
	p, err := b.Open(t.Context(), s.URL+"/start")
	if err != nil || !p.HasForm() {
		t.Fatalf("got %+v, %v", p, err)
	}
	if p, err = b.Submit(t.Context(), p); err != nil || !strings.Contains(p.Body, "<p>ann x&y 2</p>") {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestUntil(t *testing.T) {
	s := site(t)
	b := browser.New("ann")
	b.Until = func(u *url.URL) bool { return u.Path == "/callback" }
	p, err := b.SignIn(t.Context(), s.URL+"/start")
	if err != nil || p.Status != 0 || p.URL.Query().Get("answer") != "yes" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestEnds(t *testing.T) {
	s := site(t)
	for path, want := range map[string]string{
		"/loop":  "more than 20 redirects",
		"/app":   "is not of the web",
		"/again": "after 10 forms",
	} {
		if _, err := browser.New("ann").SignIn(t.Context(), s.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if _, err := new(browser.Browser).SignIn(t.Context(), s.URL+"/start"); err == nil || !strings.Contains(err.Error(), `no answer for the field "login"`) {
		t.Errorf("without a name: got %v", err)
	}
}
