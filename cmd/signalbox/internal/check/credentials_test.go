// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// A check has a note on credentials that a removed key has sealed (identity fault 40).
func TestOrphanedCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "signalbox.yaml"), filepath.Join(dir, "kept")
	old, next := strings.Repeat("a", vault.MinKey), strings.Repeat("b", vault.MinKey)
	v, err := vault.Open(t.Context(), vault.NewOptions(folder, [][]byte{[]byte(old)}, dir, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Save(t.Context(), &vault.Binding{Backend: "github", Client: "abc", Issuer: "https://as.example"}); err != nil {
		t.Fatal(err)
	}
	checked := func(keys string) (string, error) {
		t.Helper()
		text := "credentials:\n  dir: kept\n  keys: " + keys + "\nmcpServers: {}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		env := map[string]string{"OLD": old, "NEW": next, "XDG_STATE_HOME": dir}
		e := &command.Env{Stdout: &out, Terminal: func(any) bool { return false }, LookupEnv: func(name string) (string, bool) { value, set := env[name]; return value, set }}
		err := check(t.Context(), e, file, true)
		return strings.ReplaceAll(out.String(), dir+string(filepath.Separator), ""), err
	}
	for _, keys := range []string{`["${OLD}"]`, `["${NEW}", "${OLD}"]`} {
		if out, err := checked(keys); err != nil {
			t.Errorf("with the keys %s: %v, %s", keys, err, out)
		}
	}
	const want = "signalbox.yaml:3:9: in kept 1 kept credential is sealed with a key that is not there any more: the owners are signed out (add the former key at the end of credentials.keys)\n"
	if out, err := checked(`["${NEW}"]`); err == nil || out != want {
		t.Errorf("with the new key alone: %v, %q, want %q", err, out, want)
	}
}
