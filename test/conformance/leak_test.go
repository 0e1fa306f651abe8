// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// Identity N1: a secret in what a gateway writes fails the scenario of a client behind it, in the output and in the state
// folder, and without one the same scenario passes.
func TestLeaksFailScenarios(t *testing.T) {
	t.Parallel()
	s := installSuite(t)
	gateway, behind := foreign.BuildGo(t, filepath.Join("..", ".."), "./cmd/signalbox"), foreign.BuildGo(t, ".", "./behind")
	client := foreign.BuildGo(t, ".", "./client")
	for _, tt := range []struct{ leak, want string }{
		{"", ""},
		{"token", "a secret has leaked: output: the secret token of the client"},
		{"issued", `output: "test-token" of the authorization server`},
		{"state", "leaked: the secret token of the client"},
	} {
		for _, scenario := range []string{"initialize", "auth/client-credentials-basic"} {
			t.Run(tt.leak+" "+scenario, func(t *testing.T) {
				t.Parallel()
				ctx, stop := context.WithTimeout(t.Context(), suiteLimit)
				defer stop()
				command := strings.Join([]string{"env", "BEHIND_LEAK=" + tt.leak, behind, gateway, client}, " ")
				got := s.clientScenario(ctx, t, command, scenario, nil)
				text := strings.Join(got.messages, "\n")
				if want := map[bool]verdict{true: passed, false: failed}[tt.leak == ""]; got.verdict != want || !strings.Contains(text, tt.want) {
					t.Errorf("verdict %v, want %v: %s", got.verdict, want, text)
				}
			})
		}
	}
}
