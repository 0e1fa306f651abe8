// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// A file that a gateway refuses at its start is a problem, also without servers.
func TestConnectReportsARefusedStart(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	old, next := strings.Repeat("a", vault.MinKey), strings.Repeat("b", vault.MinKey)
	e.LookupEnv = func(name string) (string, bool) { return next, name == "NEXT" }
	v, err := vault.Open(t.Context(), vault.NewOptions(filepath.Join(e.Dir, "kept"), [][]byte{[]byte(old)}, e.Dir, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Save(t.Context(), &vault.Binding{Backend: "wiki", Client: "abc", Issuer: "https://as.example"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(e.Dir, "signalbox.yaml")
	for servers, backends := range map[string]string{"{}": "0 backends", `{a: {url: "http://127.0.0.1:1/mcp"}}`: "1 backend"} {
		commandtest.Write(t, file, `{credentials: {dir: kept, keys: ["${NEXT}"]}, mcpServers: `+servers+"}\n")
		before := len(e.Out.String())
		cmd := New(e.Env)
		cmd.SetArgs([]string{"--connect", file})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		const want = "is sealed with a key that is not there any more"
		if out := e.Out.String()[before:]; err == nil || !strings.HasSuffix(err.Error(), ": 1 problem") ||
			!strings.Contains(out, want) || !strings.Contains(out, ": 1 problem, "+backends+": no items\n") {
			t.Errorf("%s: %v\n%s", servers, err, out)
		}
	}
}
