// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

// A command that does not reach its server reports the reason with a cure, without waiting for
// a timeout.
func TestServersThatAreNotMCP(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		path    string
		token   string
		want    []string
	}{
		{"the URL of a page", commandtest.Answering(200, "text/html", "<html>"), "/index", "",
			[]string{"text/html instead of a message", "check that it is an MCP server"}},
		{"a wrong path", commandtest.Answering(404, "text/plain", "nothing"), "/mpc", "",
			[]string{"HTTP status 404", "the server has nothing at the path /mpc"}},
		{"no path", commandtest.Answering(404, "text/plain", "nothing"), "/", "",
			[]string{"HTTP status 404", "the URL has no path, but MCP endpoints have one; did you mean http://127.0.0.1:", "/mcp?"}},
		{"no token", commandtest.Answering(401, "text/plain", "who are you"), "/mcp", "",
			[]string{"HTTP status 401", "put a bearer token for the server into SIGNALBOX_TOKEN"}},
		{"a wrong token", commandtest.Answering(401, "text/plain", "who are you"), "/mcp", "secret",
			[]string{"HTTP status 401", "the token in SIGNALBOX_TOKEN was not accepted"}},
		{"a gateway without a token", commandtest.Answering(401, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"a bearer token is needed"}}`), "/mcp", "",
			[]string{"a bearer token is needed", "put a bearer token for the server into SIGNALBOX_TOKEN"}},
		{"a page to sign in", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, "/mcp", "",
			[]string{"redirects", "HTTP status 302"}},
		{"broken", commandtest.Answering(500, "text/plain", "\x1b[31moops"), "/mcp", "", []string{"HTTP status 500"}},
		{"half an answer", commandtest.Answering(200, "application/json", `{"jsonrpc":"2.0","id":1,"res`), "/mcp", "", []string{"list the tools: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			e := commandtest.New(t, "")
			e.LookupEnv = func(name string) (string, bool) { return tt.token, name == target.TokenVariable && tt.token != "" }
			if code := runCommand(t.Context(), e, "tools", "--url", server.URL+tt.path); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			said := e.Err.String()
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("said %q, want %q in it", said, want)
				}
			}
			if strings.Contains(said, "secret") || strings.Contains(said, "\x1b") {
				t.Errorf("said %q", said)
			}
			if e.Out.String() != "" {
				t.Errorf("printed %q", e.Out)
			}
		})
	}
}

// An invalid certificate is distinguished from a server that is down, which has another cure
// (FAULTS, "TLS expired/wrong name/self-signed").
func TestServerWithABadCertificate(t *testing.T) {
	t.Parallel()
	// Reads all certificates of the machine, once. Under the race detector and beside other
	// tests that takes seconds, which are not part of the time of a connection.
	if _, err := x509.SystemCertPool(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(commandtest.Answering(200, "text/plain", ""))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	defer server.Close()
	e := commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "tools", "--url", server.URL+"/mcp"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if said := e.Err.String(); !strings.Contains(said, "certificate") || strings.Contains(said, "insecure") {
		t.Errorf("said %q", said)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	at := commandtest.ClosedAddress(t)
	e := commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "call", "--url", "http://"+at+"/mcp", "echo"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	want := fmt.Sprintf("signalbox: nothing listens at %s; start a gateway with 'signalbox serve', or check the URL\n", at)
	if said := e.Err.String(); !strings.Contains(said, "the request was not sent\n") || !strings.HasSuffix(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}
