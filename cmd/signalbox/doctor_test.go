// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// On a terminal, doctor --fix asks, and without a yes the file stays.
func TestDoctorFixAsks(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "n\n")
	e.Terminal = func(stream any) bool { return stream == e.Stdin }
	file := filepath.Join(e.Dir, "signalbox.yaml")
	const text = "listen: 127.0.0.1:0\nmcpServers: {a: {command: no-such-program -x}}\n"
	commandtest.Write(t, file, text)
	if code := runCommand(t.Context(), e, "doctor", "--fix"); code != exitFailed {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	want := "a: write command: no-such-program, args: [\"-x\"] into " + file + "? [y/N] "
	if said := e.Err.String(); !strings.HasPrefix(said, want) || !strings.HasSuffix(said, "signalbox: 1 server needs attention: a\n") {
		t.Errorf("said %q, want %q", said, want)
	}
	if got, err := os.ReadFile(file); string(got) != text || err != nil {
		t.Errorf("the file is %s, %v", got, err)
	}
}

// For a server that refuses requests without a token, doctor has the line that lets users sign in.
func TestDoctorHasTheLineForSignIns(t *testing.T) {
	t.Parallel()
	for challenge, want := range map[string]string{
		"Bearer": "fix: write an Authorization header in its headers; or, if users sign in to it, add 'oauth: {}' to a, then signalbox login a --as PRINCIPAL",
		`Bearer resource_metadata="http://127.0.0.1/meta"`: "fix: add 'oauth: {}' to a, then signalbox login a --as PRINCIPAL",
	} {
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(refusing.Close)
		e := commandtest.New(t, "")
		commandtest.Write(t, filepath.Join(e.Dir, "ann.token"), "a-token-of-ann-0123456789")
		if err := os.Chmod(filepath.Join(e.Dir, "ann.token"), 0o600); err != nil {
			t.Fatal(err)
		}
		commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"),
			"listen: 127.0.0.1:0\nauth: {tokens: [{principal: ann, file: ann.token}]}\nmcpServers: {a: {url: \""+refusing.URL+"/mcp\"}}\n")
		if code := runCommand(t.Context(), e, "doctor", "a"); code != exitFailed || !strings.Contains(e.Out.String(), want) {
			t.Errorf("%s: exit code %d: %s%s\nwant %s", challenge, code, e.Out, e.Err, want)
		}
	}
}
