// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ID tokens are listed without their text, and deleted for one user.
func TestIDTokens(t *testing.T) {
	t.Parallel()
	env := commandtest.New(t, "")
	commandtest.WithState(t, env)
	file := filepath.Join(env.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers: {}\ncredentials: {dir: kept, keys: [\"a key of thirty-two characters or more\"]}\n")
	k, err := load(env.Env, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.open(t.Context(), env.Env); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"corp:ann", "corp:bob"} {
		err := k.vault.Save(t.Context(), &vault.IDToken{
			Principal: user, Issuer: "https://id.example.com", Client: "gw", Token: mcp.NewToken("canary-id-token"), Expires: time.Now().Add(time.Hour), SignedIn: time.Now(),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{nil, {"--json"}} {
		before := len(env.Out.String())
		if err := env.Execute(t.Context(), NewCredentials(env.Env), flags...); err != nil {
			t.Fatal(err)
		}
		text := env.Out.String()[before:]
		if strings.Count(text, "corp:ann") != 1 || strings.Count(text, "https://id.example.com") != 2 || strings.Contains(text, "canary") {
			t.Errorf("%q printed\n%s", flags, text)
		}
		if !strings.Contains(text, "(ID token)") && !strings.Contains(text, `"idToken": true`) {
			t.Errorf("%q does not name the kind:\n%s", flags, text)
		}
	}
	for _, want := range []string{"tickets: signed out", "nothing to delete"} {
		before := len(env.Out.String())
		if err := k.forgetIDToken(t.Context(), env.Env, "tickets", "corp:ann"); err != nil || !strings.Contains(env.Out.String()[before:], want) {
			t.Errorf("printed %q, %v, want %q", env.Out, err, want)
		}
	}
	if left, err := k.vault.List(t.Context()); err != nil || len(left.IDTokens) != 1 || left.IDTokens[0].Principal != "corp:bob" {
		t.Errorf("left %+v, %v", left, err)
	}
}
