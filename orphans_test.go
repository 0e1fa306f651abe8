// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// A start is refused with keys that do not open all records, unless the configuration allows
// that (identity fault 40). The error names the key to keep, and what is allowed loses nothing.
func TestStartWithoutAKey(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	key := func(letter string) string { return strings.Repeat(letter, vault.MinKey) }
	grant := &vault.Grant{GrantKey: vault.GrantKey{Principal: "ann", Backend: "crm", Issuer: "https://as.example", Resource: "https://crm.example/mcp", Client: "c"}}
	binding := &vault.Binding{Backend: "crm", Client: "c", Issuer: "https://as.example"}
	for letter, record := range map[string]vault.Record{"a": grant, "b": binding} {
		v, err := vault.Open(t.Context(), vault.NewOptions("", [][]byte{[]byte(key(letter))}, state, slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	start := func(members string) error {
		t.Helper()
		text := "{\n\"mcpServers\": {\"crm\": {\"url\": \"http://127.0.0.1:1/mcp\", \"oauth\": {}}}" + members + "}"
		cfg, err := config.Parse("x.json", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := signalbox.New(*cfg, signalbox.Options{StateFolder: state})
		if err != nil {
			return err
		}
		return g.Close()
	}
	keys := func(letters, more string) string {
		var all []string
		for _, letter := range letters {
			all = append(all, fmt.Sprintf("%q", key(string(letter))))
		}
		return ",\n\"credentials\": {\"keys\": [" + strings.Join(all, ", ") + "]" + more + "}"
	}
	const one = "1 kept credential is sealed with key "
	for _, tt := range []struct{ members, want string }{
		{keys("ab", ""), ""},
		{keys("cba", ""), ""},
		{keys("b", ""), one + `[0-9a-f]{8}, and credentials.keys has only [0-9a-f]{8}: the owners would be signed out \(keep that key at the end of credentials.keys, or write orphans: allow in credentials\)$`},
		{keys("c", ""), one + "[0-9a-f]{8}, " + one + `[0-9a-f]{8}, and credentials.keys has only `},
		{"", one + ".*and no key is there.* \\(restore .*credentials.key or credentials.keys, or write orphans: allow"},
		{keys("c", `, "orphans": "refuse"`), "credentials.keys has only "},
		{keys("c", `, "orphans": "allow"`), ""},
		{keys("ab", ""), ""}, // nothing is lost
	} {
		err := start(tt.members)
		if (err == nil) != (tt.want == "") || err != nil && !regexp.MustCompile(tt.want).MatchString(err.Error()) {
			t.Errorf("with%s: %v, want %q", tt.members, err, tt.want)
		}
		if err != nil && tt.members != "" && !strings.HasPrefix(err.Error(), "x.json:3:25: ") {
			t.Errorf("the error has no place: %v", err)
		}
		if err != nil && strings.Contains(err.Error(), key("c")) {
			t.Errorf("the error has a key: %v", err)
		}
	}
	// The key to keep is named as the one that an error lists among the keys.
	id := func(want string, err error) string {
		m := regexp.MustCompile(want).FindStringSubmatch(fmt.Sprint(err))
		if m == nil {
			t.Fatalf("no id in %v", err)
		}
		return m[1]
	}
	if missing, present := id("sealed with key ([0-9a-f]+)", start(keys("b", ""))), id(`has only ([0-9a-f]+)`, start(keys("a", ""))); missing != present {
		t.Errorf("the key to keep is %s, and as one of the keys %s", missing, present)
	}
	// The default key is chosen once, by its file.
	if err := os.WriteFile(filepath.Join(state, "credentials.key"), []byte("key "+strings.Repeat("A", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(""); err != nil {
		t.Errorf("with a key file: %v", err)
	}
}
