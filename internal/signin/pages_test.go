// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Values of others are escaped on each page: names of servers, hosts, scopes and reasons.
func TestPagesEscapeValues(t *testing.T) {
	const evil = `"><script>alert('x')</script>&`
	for name, c := range map[string]content{
		"start":    startPage{Action: evil, Principal: evil, Backend: evil, Server: evil, Issuer: evil, Previous: evil, Scopes: []string{evil}},
		"identify": formPage{Action: evil, Server: evil, HasToken: true, IsWrong: true},
		"identity": startPage{Action: evil, Principal: evil, Backend: evil, Server: evil, IsIdentity: true},
		"message":  messagePage{Text: evil, Again: evil},
	} {
		w := httptest.NewRecorder()
		writePage(w, 200, evil, c)
		text := w.Body.String()
		if strings.Contains(text, "<script") || strings.Contains(text, `"">`) || strings.Contains(text, "alert('") {
			t.Errorf("%s has\n%s", name, text)
		}
		if !strings.Contains(text, "&lt;script&gt;") || !strings.HasSuffix(text, "</html>\n") {
			t.Errorf("%s lacks a value, or its end:\n%s", name, text)
		}
	}
}

// A cookie without the prefix that other hosts of a domain cannot set counts for nothing where
// cookies have it: such a host could make a browser that of another principal (N7).
func TestBrowserCookieHasItsPrefix(t *testing.T) {
	for _, tt := range []struct {
		public, name string
		isKnown      bool
	}{
		{"https://mcp.example.com", hostPrefix + browserName, true},
		{"https://mcp.example.com", browserName, false},
		{"http://127.0.0.1:7777", browserName, true},
	} {
		d, err := New(Config{PublicURL: tt.public, Identify: func(*http.Request, mcp.Token) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.public+PathPages+"x", http.NoBody)
		r.AddCookie(&http.Cookie{Name: tt.name, Value: d.sealBrowser("ann")})
		if principal, isKnown := d.principalOf(r, "x"); isKnown != tt.isKnown || isKnown && principal != "ann" {
			t.Errorf("%s at %s: %q, %t", tt.name, tt.public, principal, isKnown)
		}
		d.Close()
	}
}
