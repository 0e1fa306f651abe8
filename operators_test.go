// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// asking returns a request for a page of the operator from an address.
func asking(path, remote, principal string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	r.RemoteAddr = remote
	if principal != "" {
		r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenOf(principal))
	}
	return r
}

// Operators are the principals that meet the condition; without one, and with a policy, the
// callers on this machine; and without both, all that may call. The listener of the operator
// is always theirs, and /healthz is everybody's.
func TestOperators(t *testing.T) {
	const near, nearToo, far = "127.0.0.1:5", "[::ffff:127.0.0.1]:5", "192.0.2.7:5"
	condition := config.Config{Operators: `principal.name == "ops" || "platform" in principal.claims.groups`}
	withPolicy := config.Config{Policy: config.Policy{Otherwise: config.PolicyAllow}}
	both := condition
	both.Policy = withPolicy.Policy
	for _, tt := range []struct {
		name      string
		cfg       config.Config
		remote    string
		principal string
		want      int
	}{
		{"neither", config.Config{}, far, "ci", 200},
		{"neither, no token", config.Config{}, far, "", 401},
		{"condition", condition, far, "ops", 200},
		{"condition, near", condition, near, "ops", 200},
		{"condition, another", condition, near, "ci", 403},
		{"condition, no token", condition, near, "", 401},
		{"policy, near", withPolicy, near, "ci", 200},
		{"policy, near too", withPolicy, nearToo, "ci", 200},
		{"policy, IPv6", withPolicy, "[::1]:5", "ci", 200},
		{"policy, far", withPolicy, far, "ci", 403},
		{"policy, no token", withPolicy, near, "", 401},
		{"policy, no address", withPolicy, "@", "ci", 403},
		{"both", both, far, "ops", 200},
		{"both, another", both, near, "ci", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gatewaytest.WithPrincipals(&tt.cfg, "ops", "ci")
			g := gatewaytest.New(t, tt.cfg, signalbox.Options{})
			for _, path := range []string{"/status", "/metrics"} {
				r := asking(path, tt.remote, tt.principal)
				r.Header.Set("X-Forwarded-For", "127.0.0.1")
				r.Header.Set("Forwarded", "for=127.0.0.1")
				w := httptest.NewRecorder()
				g.Operations().ServeHTTP(w, r)
				if w.Code != tt.want {
					t.Errorf("%s: %d, want %d", path, w.Code, tt.want)
				}
				if w.Code == 403 && w.Body.String() != "only operators of the gateway may read this (operators)\n" {
					t.Errorf("%s: %s", path, w.Body)
				}
				w = httptest.NewRecorder()
				signalbox.Local(g.Operations()).ServeHTTP(w, asking(path, "@", ""))
				if w.Code != 200 {
					t.Errorf("%s on the listener of the operator: %d", path, w.Code)
				}
			}
			w := httptest.NewRecorder()
			g.Operations().ServeHTTP(w, asking("/healthz", far, ""))
			if w.Code != 200 {
				t.Errorf("/healthz: %d", w.Code)
			}
		})
	}
}

// A reload changes the operators, and a refusal is recorded.
func TestOperatorsAfterAReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	cfg := config.Config{Audit: config.Audit{File: path}, Operators: `principal.name == "ops"`}
	gatewaytest.WithPrincipals(&cfg, "ops", "ci")
	g := gatewaytest.New(t, cfg, signalbox.Options{})
	status := func() int {
		w := httptest.NewRecorder()
		g.Operations().ServeHTTP(w, asking("/status", "192.0.2.7:5", "ci"))
		_, _ = io.Copy(io.Discard, w.Result().Body)
		return w.Code
	}
	if got := status(); got != 403 {
		t.Errorf("%d, want 403", got)
	}
	next := cfg
	next.Operators = `principal.name == "ci"`
	if err := g.Reload(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := status(); got != 200 {
		t.Errorf("%d after the reload, want 200", got)
	}
	next.Operators = `principal.name ==`
	if err := g.Reload(t.Context(), next); err == nil || !strings.Contains(err.Error(), "operators: ") {
		t.Errorf("a mistake is taken: %v", err)
	}
	if got := status(); got != 200 {
		t.Errorf("%d after the mistake, want 200", got)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(readFile(t, path), "\n")
	const want = `"event":"policy_denied","principal":"ci","remote":"192.0.2.7:5","session":"","detail":"/status","via":"token","decision":"denied","rule":"operators"}`
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, want) }) {
		t.Errorf("%q has no %s", lines, want)
	}
}
