// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
)

// A user signs in at a real authorization server in a terminal; a gateway that runs uses the
// access, and not after the user has signed out, which revokes it (identity I7, I10).
func TestLogin(t *testing.T) {
	p, between := watched(t, provider.Settings{})
	address, _ := reference(t, p)
	g := startGateway(t, object{"mcpServers": object{"tools": object{"url": address, "prefix": ""}}})
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), signalbox(t), append(args, "--config", filepath.Join(g.folder, "signalbox.json"))...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+g.state)
		return cmd
	}
	login := command("login", "tools", "--no-browser")
	out, err := login.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := login.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("login printed nothing: %v", login.Wait())
	}
	end, err := browser.New("ann").SignIn(t.Context(), lines.Text())
	if err != nil || end.Status != http.StatusOK || !strings.Contains(end.Body, "You can close this window") {
		t.Fatalf("the browser: %v, %+v", err, end)
	}
	lines.Scan()
	if said := lines.Text(); !strings.HasPrefix(said, "tools: signed in at "+strings.TrimPrefix(p.Issuer, "http://")) {
		t.Errorf("login said %q", said)
	}
	if err := login.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		if got := anonymous(t, g, version, "read")[0]; !strings.HasPrefix(got.Text, "read with Bearer ") {
			t.Errorf("%s: a call: %+v", version, got)
		}
	}
	said, err := command("logout", "tools").Output()
	if err != nil || !strings.HasPrefix(string(said), "tools: signed out, and revoked at ") {
		t.Errorf("logout said %q, %v", said, err)
	}
	revoked := 0
	for _, e := range between.Passed() {
		if strings.Contains(e.Path, "revocation") {
			revoked++
		}
	}
	if revoked != 1 {
		t.Errorf("%d requests to revoke, want 1", revoked)
	}
	// The server takes the token until it ends, and the gateway looks for grants once a second.
	for start := time.Now(); ; {
		got := anonymous(t, g, "2026-07-28", "read")[0]
		if strings.Contains(got.Text, "signalbox login tools") {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("a call after the sign-out: %+v", got)
		}
	}
}
