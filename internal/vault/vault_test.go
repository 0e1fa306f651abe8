// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func secretOf(letter string) []byte { return []byte(strings.Repeat(letter, MinKey)) }

// newVault returns a vault in a folder, with the keys of letters, and its log.
func newVault(t *testing.T, folder string, letters ...string) (*Vault, *bytes.Buffer) {
	t.Helper()
	store, err := OpenFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	var keys [][]byte
	for _, letter := range letters {
		keys = append(keys, secretOf(letter))
	}
	var log bytes.Buffer
	v, err := New(store, keys, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return v, &log
}

var aliceKey = GrantKey{Owner: Owner{Principal: "corp:alice"}, Backend: "github", Issuer: "https://as.example", Resource: "https://api.example/mcp", Client: "abc"}

func aliceGrant() *Grant {
	return &Grant{
		GrantKey: aliceKey, AccessToken: mcp.NewToken("access-1"), RefreshToken: mcp.NewToken("refresh-1"), IDToken: mcp.NewToken("id-1"),
		TokenType: "Bearer", Scopes: []string{"repo", "user"}, Expires: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		SignedIn: time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC), Refreshed: time.Date(2026, 11, 26, 11, 30, 0, 0, time.UTC),
	}
}

// tokens compares tokens by their texts.
var tokens = cmp.Comparer(func(a, b mcp.Token) bool { return a.Reveal() == b.Reveal() })

func mustSave(t *testing.T, v *Vault, r Record) {
	t.Helper()
	if err := v.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// Records of all kinds are as they were saved.
func TestRecords(t *testing.T) {
	t.Parallel()
	v, _ := newVault(t, filepath.Join(t.TempDir(), "credentials"), "a")
	registered := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ saved, loaded Record }{
		{aliceGrant(), &Grant{GrantKey: aliceKey}},
		{&Grant{GrantKey: GrantKey{Owner: Owner{Gateway: true}, Backend: "github"}, AccessToken: mcp.NewToken("own")}, &Grant{GrantKey: GrantKey{Owner: Owner{Gateway: true}, Backend: "github"}}},
		{&Grant{GrantKey: GrantKey{Backend: "github"}, AccessToken: mcp.NewToken("anonymous")}, &Grant{GrantKey: GrantKey{Backend: "github"}}},
		{
			&Registration{Issuer: "https://as.example", RedirectURI: "http://127.0.0.1:8765/cb", Client: "c", Secret: mcp.NewToken("s"), SecretExpires: registered.Add(time.Hour), AuthMethod: "client_secret_post", Registered: registered},
			&Registration{Issuer: "https://as.example", RedirectURI: "http://127.0.0.1:8765/cb"},
		},
		{&Binding{Backend: "github", Client: "abc", Issuer: "https://as.example"}, &Binding{Backend: "github", Client: "abc"}},
	} {
		if err := v.Load(t.Context(), tt.loaded); !errors.Is(err, ErrNotFound) {
			t.Errorf("%T: loaded before it was saved: %v", tt.saved, err)
		}
		mustSave(t, v, tt.saved)
		if tt.saved.meta().Generation == 0 || tt.saved.meta().Saved.IsZero() {
			t.Errorf("%T: no generation or time: %+v", tt.saved, tt.saved.meta())
		}
		if err := v.Load(t.Context(), tt.loaded); err != nil {
			t.Errorf("%T: %v", tt.saved, err)
		}
		if diff := cmp.Diff(tt.saved, tt.loaded, tokens); diff != "" {
			t.Errorf("%T (-saved +loaded):\n%s", tt.saved, diff)
		}
	}
}
