// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

// servedNothing is the status of a gateway without backends.
const servedNothing = `{"version":"v","started":"2026-07-28T10:00:00Z","uptime":"1s","backends":[],"problems":[],"limits":{},"promise":"p"}`

func TestStatusOfNothing(t *testing.T) {
	t.Parallel()
	address, _ := commandtest.StatusServer(t, commandtest.Answering(200, "application/json", servedNothing))
	e := commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "status", "--url", address.String()); code != exitOK {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	want := "signalbox v at " + address.String() + ", up for 1s\n0 sessions, 0 in flight\n\nno backends\n"
	if diff := cmp.Diff(e.Out.String(), want); diff != "" {
		t.Errorf("printed (-got +want):\n%s", diff)
	}
}

// Each error names the cause and a cure, and never shows a token.
func TestStatusErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"no token", commandtest.Answering(401, "text/plain", "who are you"), "the token is missing or not accepted (HTTP status 401): put a valid one into SIGNALBOX_TOKEN\n"},
		{"foreign host", commandtest.Answering(403, "text/plain", "the Host \x1b[1m\nis not"), `the gateway refuses this address or header (HTTP status 403): the Host \x1b[1m` + "\n"},
		{"another program", commandtest.Answering(404, "text/html", "<h1>"), "the server there is not Signalbox, or does not serve its status at this address\n"},
		{"another method", commandtest.Answering(405, "text/html", ""), "the server there is not Signalbox"},
		{"a page", commandtest.Answering(200, "text/html", "<h1>"), "the server there is not Signalbox"},
		{"no type", commandtest.Answering(200, "", servedNothing), "the server there is not Signalbox"},
		{"another status", commandtest.Answering(200, "application/json", `{"status":"green"}`), "the server there is not Signalbox"},
		{"half a status", commandtest.Answering(200, "application/json", servedNothing[:100]), "the server there is not Signalbox"},
		{"a list", commandtest.Answering(200, "application/json", `[]`), "the server there is not Signalbox"},
		{"far too much", commandtest.Answering(200, "application/json", strings.Repeat(" ", control.MaxStatus+1)), "the server there is not Signalbox"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://a.example/", http.StatusMovedPermanently)
		},
			`the server redirects to "https://a.example/", which is not followed; if that is the gateway, name it with --url` + "\n"},
		{"a proxy without its gateway", commandtest.Answering(502, "text/plain", strings.Repeat("x", 300)),
			"the server responded with HTTP status 502: " + strings.Repeat("x", 199) + "…\n"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, "unexpected EOF\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address, asked := commandtest.StatusServer(t, tt.handler)
			e := commandtest.New(t, "")
			e.LookupEnv = func(name string) (string, bool) { return "sesame", name == target.TokenVariable }
			if code := runCommand(t.Context(), e, "status", "--url", address.String(), "--header", "X-Tenant: a"); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			want := "signalbox: status of " + address.Host + ": " + tt.want
			if got := e.Err.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "sesame") {
				t.Errorf("said %q, want %q", got, want)
			}
			if e.Out.String() != "" {
				t.Errorf("printed %q", e.Out)
			}
			if asked.Header.Get("Authorization") != "Bearer sesame" || asked.Header.Get("X-Tenant") != "a" {
				t.Errorf("asked with %v", asked.Header)
			}
		})
	}
}

func TestStatusWithoutGateway(t *testing.T) {
	t.Parallel()
	at := commandtest.ClosedAddress(t)
	e := commandtest.New(t, "")
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "listen: "+at+"\nmcpServers: {}\n")
	if code := runCommand(t.Context(), e, "status"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	want := "signalbox: status of " + at + ": nothing listens there; start a gateway with 'signalbox serve', or name the right one with --url\n"
	if got := e.Err.String(); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

// The terminal of an editor without a cursor would show the control sequences.
func TestWatchOnADumbTerminal(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	e.Terminal = func(any) bool { return true }
	e.LookupEnv = func(name string) (string, bool) { return "dumb", name == "TERM" }
	code := runCommand(t.Context(), e, "status", "--watch")
	if want := "--watch needs a terminal that can move its cursor, and TERM is dumb"; code != exitUsage || !strings.Contains(e.Err.String(), want) || e.Out.String() != "" {
		t.Errorf("exit code %d, printed %q, said %q, want %q", code, e.Out, e.Err, want)
	}
}
