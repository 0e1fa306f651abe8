// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// withPrincipals makes a fixture of a gateway with several users.
func withPrincipals(t *testing.T) *fixture {
	f := newFixture(t)
	f.desk.cfg.Identify = func(*http.Request, mcp.Token) (string, bool) { return "", false }
	return f
}

func (f *fixture) ticket(t *testing.T, principal, backend string) *Ticketed {
	t.Helper()
	begun, err := f.desk.Begin(t.Context(), &grant.Missing{Backend: backend, Principal: principal, Reason: grant.NeverSignedIn}, f.source)
	if err != nil {
		t.Fatal(err)
	}
	return begun
}

// visit requests a URL with the cookies of a browser, to which those of the response are added.
func (f *fixture) visit(t *testing.T, method, to string, cookies *[]*http.Cookie, header map[string]string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, to, http.NoBody)
	for _, c := range *cookies {
		r.AddCookie(c)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	f.desk.ServeHTTP(w, r)
	resp := w.Result()
	*cookies = append(*cookies, resp.Cookies()...)
	return resp
}

// isUser reports whether a browser is known at a page.
func (f *fixture) isUser(t *testing.T, page string, cookies []*http.Cookie) bool {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	_, ok := f.desk.principalOf(r, strings.TrimPrefix(r.URL.Path, PathPages))
	return ok
}

// A ticket identifies one browser, at its sign-in, within a minute, and only if it is in the address
// line. What the browser gets is a cookie; the address of the page has no ticket.
func TestTicket(t *testing.T) {
	for _, tt := range []struct {
		name    string
		after   time.Duration
		method  string
		header  map[string]string
		change  func(ticket string) string
		isTaken bool
	}{
		{name: "the ticket", isTaken: true},
		{name: "at the end", after: TicketLife - time.Second, isTaken: true},
		{name: "late", after: TicketLife},
		{name: "typed", header: map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, isTaken: true},
		{name: "a link of a page", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}},
		{name: "a part of a page", header: map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "no-cors"}},
		{name: "a preview", method: http.MethodHead},
		{name: "another one", change: func(string) string { return strings.Repeat("A", 26) }},
		{name: "a part of it", change: func(ticket string) string { return ticket[:25] }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := withPrincipals(t)
				defer f.close()
				begun := f.ticket(t, "ann", "crm")
				page, query, _ := strings.Cut(begun.URL, "?")
				values, err := url.ParseQuery(query)
				if ticket := values.Get("ticket"); err != nil || len(ticket) != 26 || strings.Contains(page, ticket) {
					t.Fatalf("URL %s", begun.URL) // 26 characters of base32 are 130 bits
				}
				to := begun.URL
				if tt.change != nil {
					to = page + "?ticket=" + tt.change(values.Get("ticket"))
				}
				time.Sleep(tt.after)
				if tt.method == "" {
					tt.method = http.MethodGet
				}
				var browser, other []*http.Cookie
				resp := f.visit(t, tt.method, to, &browser, tt.header)
				if tt.method == http.MethodGet && (resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/signin/"+begun.ID) {
					t.Errorf("status %d, to %q", resp.StatusCode, resp.Header.Get("Location"))
				}
				if got := f.isUser(t, page, browser); got != tt.isTaken {
					t.Errorf("the browser is the user's: %v, want %v", got, tt.isTaken)
				}
				if !tt.isTaken {
					return
				}
				c := browser[0]
				if len(browser) != 1 || !strings.HasPrefix(c.Name, "__Host-signalbox-ticket-") || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge > int(Lifetime.Seconds()) {
					t.Errorf("cookies %v", browser)
				}
				f.visit(t, http.MethodGet, to, &other, nil)
				if f.isUser(t, page, other) {
					t.Error("the ticket was used twice")
				}
				// The cookie is for this sign-in, also under the name of another one.
				second := f.ticket(t, "ann", "wiki")
				moved := *c
				moved.Name = hostPrefix + ticketCookie(second.ID)
				if f.isUser(t, PathPages+second.ID, []*http.Cookie{c, &moved}) {
					t.Error("the browser is known at another sign-in")
				}
				time.Sleep(Lifetime)
				if f.isUser(t, page, browser) {
					t.Error("the cookie is valid after the sign-in")
				}
			})
		})
	}
}

// The latest ticket of a sign-in counts, and none is needed where each browser is the user's.
func TestTicketIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withPrincipals(t)
		defer f.close()
		first, second := f.ticket(t, "ann", "crm"), f.ticket(t, "ann", "crm")
		if first.ID != second.ID || first.URL == second.URL {
			t.Errorf("%+v, %+v", first, second)
		}
		page, _, _ := strings.Cut(first.URL, "?")
		var browser []*http.Cookie
		f.visit(t, http.MethodGet, first.URL, &browser, nil)
		if f.isUser(t, page, browser) {
			t.Error("the first ticket is valid")
		}
		f.visit(t, http.MethodGet, second.URL, &browser, nil)
		if !f.isUser(t, page, browser) {
			t.Error("the second ticket is not valid")
		}
		single := newFixture(t)
		defer single.close()
		if begun := single.ticket(t, "", "crm"); strings.Contains(begun.URL, "?") {
			t.Errorf("URL %s", begun.URL)
		}
	})
}

// A ticket changes nothing for a browser that is another principal's (identity attack 23).
func TestTicketOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withPrincipals(t)
		defer f.close()
		begun := f.ticket(t, "ann", "crm")
		bob := []*http.Cookie{{Name: hostPrefix + browserName, Value: f.desk.sealBrowser("bob")}}
		f.visit(t, http.MethodGet, begun.URL, &bob, nil)
		page, _, _ := strings.Cut(begun.URL, "?")
		if resp := f.visit(t, http.MethodGet, page, &bob, nil); resp.StatusCode != http.StatusNotFound || len(bob) != 1 {
			t.Errorf("status %d, cookies %v", resp.StatusCode, bob)
		}
		var ann []*http.Cookie
		f.visit(t, http.MethodGet, begun.URL, &ann, nil)
		if !f.isUser(t, page, ann) {
			t.Error("the ticket is not valid any more")
		}
	})
}

// Await returns each state, also one that came between two calls, and nothing of another's.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withPrincipals(t)
		defer f.close()
		begun := f.ticket(t, "ann", "crm")
		await := func(principal, backend string, refusals int) (State, time.Duration) {
			began := time.Now()
			return f.desk.Await(t.Context(), begun.ID, principal, backend, refusals, time.Minute), time.Since(began)
		}
		if s, took := await("ann", "crm", 0); s != StateOpen || took != time.Minute {
			t.Errorf("%s after %v", s, took)
		}
		for _, other := range [][2]string{{"bob", "crm"}, {"ann", "wiki"}} {
			if s, took := await(other[0], other[1], 0); s != StateEnded || took != 0 {
				t.Errorf("%v: %s after %v", other, s, took)
			}
		}
		f.desk.refuse(f.desk.find(begun.ID))
		if s, took := await("ann", "crm", 0); s != StateRefused || took != 0 {
			t.Errorf("%s after %v", s, took)
		}
		if again := f.ticket(t, "ann", "crm"); again.Refusals != 1 {
			t.Errorf("%d refusals", again.Refusals)
		}
		go func() {
			time.Sleep(time.Second)
			f.desk.refuse(f.desk.find(begun.ID))
		}()
		if s, took := await("ann", "crm", 1); s != StateRefused || took != time.Second {
			t.Errorf("%s after %v", s, took)
		}
		go func() {
			time.Sleep(time.Second)
			f.signIn(t, "ann")
		}()
		if s, took := await("ann", "crm", 2); s != StateEnded || took > 2*time.Second {
			t.Errorf("%s after %v", s, took)
		}
	})
}
