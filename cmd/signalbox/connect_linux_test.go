// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/edit"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/internal/ledger"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// newHome returns an env with a home folder, and a configuration in its working directory.
func newHome(t *testing.T, stdin string) (e *commandtest.Env, home string) {
	t.Helper()
	home, err := os.MkdirTemp("", "h") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	e = commandtest.New(t, stdin)
	e.LookupEnv = func(name string) (string, bool) { return home, name == "HOME" }
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "listen: 127.0.0.1:7801\nmcpServers: {}\n")
	return e, home
}

// writeBelow writes a file of a home folder.
func writeBelow(t *testing.T, home, name, text string) string {
	t.Helper()
	path := filepath.Join(home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, path, text)
	return path
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ledgerOf returns what connect has recorded.
func ledgerOf(e *commandtest.Env) (ledger.Ledger, error) {
	state, err := source.StateHome(e.Env)
	return ledger.Ledger(filepath.Join(state, "ledger")), err
}

// On a terminal, connect and disconnect ask.
func TestConnectAsks(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "n\n": false, "": false} {
		e, home := newHome(t, answer)
		e.Terminal = func(stream any) bool { return stream == e.Stdin }
		path := writeBelow(t, home, ".cursor/mcp.json", `{"mcpServers": {}}`)
		if code := runCommand(t.Context(), e, "connect", "cursor"); code != exitOK {
			t.Errorf("exit code %d: %s", code, e.Err)
		}
		if got := strings.Contains(readText(t, path), "signalbox"); got != want {
			t.Errorf("answer %q: written %v", answer, got)
		}
		if said := e.Err.String(); said != "Write ~/.cursor/mcp.json? [y/N] " {
			t.Errorf("asked %q", said)
		}
	}
}

// A client comes to the running gateway: connect has written its URL, and reports the client.
func TestConnectWaitsForTheClient(t *testing.T) {
	t.Parallel()
	t.Run("everything", func(t *testing.T) { t.Parallel(); waitForTheClient(t, "", 4) })
	t.Run("profile", func(t *testing.T) { t.Parallel(); waitForTheClient(t, "some", 1) })
}

func waitForTheClient(t *testing.T, profile string, tools int) {
	t.Helper()
	e, home := newHome(t, "")
	path := writeBelow(t, home, ".cursor/mcp.json", "")
	gateway := commandtest.New(t, "")
	gateway.LookupEnv = e.LookupEnv
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers:\n  d: {url: "+commandtest.Serving(t, demo.New())+"}\nprofiles:\n  some: {include: [d__echo]}\n")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() { served <- runCommand(ctx, gateway, "serve", "--listen", "127.0.0.1:0", "--config", file) }()
	defer func() {
		cancel()
		if code := <-served; code != exitOK {
			t.Errorf("serve: exit code %d: %s", code, gateway.Err)
		}
	}()
	var url string
	until(t, func() bool {
		found, _ := control.Running(t.Context(), e.Env, file)
		defer control.CloseIdle(found)
		if len(found) == 1 {
			url = found[0].URL
		}
		return url != ""
	})
	args := []string{"connect", "cursor", "--yes", "--wait"}
	if profile != "" {
		url += "/p/" + profile
		args = append(args, "--profile", profile)
	}
	connected := make(chan int, 1)
	go func() { connected <- runCommand(t.Context(), e, args...) }()
	until(t, func() bool { return strings.Contains(e.Err.String(), "waiting for cursor ... ") })
	if got := readText(t, path); !strings.Contains(got, `"url": "`+url+`"`) {
		t.Errorf("written %s, want %s", got, url)
	}
	// Another command of this user is not the client.
	if code := runCommand(t.Context(), newCommand(t, e), "tools", "--config", file); code != exitOK {
		t.Errorf("tools: exit code %d", code)
	}
	c := client.NewHTTP(url, client.Config{Name: "gateway"})
	defer c.Close()
	req, err := mcp.NewRequest("tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Info: []byte(`{"name":"cursor-vscode","version":"2.3"}`)}
	if _, err := c.Serve(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if code := <-connected; code != exitOK {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	if said := e.Err.String(); said != fmt.Sprintf("waiting for cursor ... connected, %s (cursor-vscode 2.3, 2026-07-28)\n", output.Plural(tools, "tool")) {
		t.Errorf("said %q", said)
	}
}

// newCommand returns an env for another command of the same user.
func newCommand(t *testing.T, e *commandtest.Env) *commandtest.Env {
	t.Helper()
	other := commandtest.New(t, "")
	other.LookupEnv = e.LookupEnv
	return other
}

// until waits for a condition.
func until(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !is() {
		select {
		case <-deadline:
			t.Fatal("it has not become true")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A file that was changed after the difference was shown is not overwritten, and its record
// stays as it was.
func TestConnectRefusesAChangedFile(t *testing.T) {
	t.Parallel()
	e, home := newHome(t, "")
	path := writeBelow(t, home, ".cursor/mcp.json", "{}")
	e.Terminal = func(stream any) bool { return stream == e.Stdin }
	e.Stdin = &lateAnswer{strings.NewReader("y\n"), func() { commandtest.Write(t, path, `{"changed": true}`) }}
	if code := runCommand(t.Context(), e, "connect", "cursor"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if said := e.Err.String(); !strings.Contains(said, "mcp.json: changed meanwhile; look again") {
		t.Errorf("said %q", said)
	}
	led, err := ledgerOf(e)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := led.All(); len(all) > 0 || err != nil {
		t.Errorf("records %+v, %v", all, err)
	}
	if got := readText(t, path); got != `{"changed": true}` {
		t.Errorf("the file is %s", got)
	}
}

// lateAnswer is an answer that comes after something else has happened.
type lateAnswer struct {
	io.Reader

	before func()
}

func (a *lateAnswer) Read(p []byte) (int, error) {
	if a.before != nil {
		a.before()
	}
	a.before = nil
	return a.Reader.Read(p)
}

// TestConnectGivesFilesBack connects and disconnects all clients, in files as they are found
// in public repositories: with bytes that no test invents. After a crash between the record
// and the file, each entry is still recognized.
func TestConnectGivesFilesBack(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		if c.Ended || c.ID == "claude-desktop" {
			continue // no longer developed; or its place on Linux is unknown
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile("../../internal/imports/testdata/corpus/" + c.ID + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			tried := 0
			for _, file := range archive.Files {
				if strings.HasSuffix(file.Name, ".want") || testing.Short() && tried == 1 {
					continue
				}
				if giveBack(t, c, file.Data) {
					tried++
				}
			}
			if tried == 0 {
				t.Error("no file was connected")
			}
		})
	}
}

// giveBack connects and disconnects a file. It reports whether the file can be connected.
func giveBack(t *testing.T, c clients.Client, text []byte) bool {
	t.Helper()
	e, _ := newHome(t, "")
	p := edit.Places(e.Env)
	flags := []string{c.ID, "--yes"}
	_, path, ok := p.ToWrite(c, clients.User)
	if !ok {
		flags = append(flags, "--project")
		if _, path, ok = p.ToWrite(c, clients.Project); !ok {
			t.Fatal("no place")
		}
	}
	text = bytes.TrimSuffix(text, []byte("\n")) // an archive cannot have such a file
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, path, string(text))
	if runCommand(t.Context(), e, append([]string{"connect"}, flags...)...) != exitOK {
		if got := readText(t, path); got != string(text) || !strings.Contains(e.Err.String(), path+":") {
			t.Errorf("%s was refused, without its place or with a change: %s", path, e.Err)
		}
		return false
	}
	connected := readText(t, path)
	again := newCommand(t, e)
	again.Dir = e.Dir
	if code := runCommand(t.Context(), again, append([]string{"connect"}, flags...)...); code != exitOK || !strings.Contains(again.Out.String(), " is connected already") || readText(t, path) != connected {
		t.Errorf("connect again: exit code %d, %s %s", code, again.Out, again.Err)
	}
	if code := runCommand(t.Context(), again, append([]string{"disconnect"}, flags...)...); code != exitOK {
		t.Errorf("disconnect: exit code %d: %s", code, again.Err)
	}
	if got := readText(t, path); got != string(text) {
		t.Errorf("%s is not the same after connect and disconnect:\n%s\n%s", path, text, got)
	}
	return true
}

// After a crash between Begin and the replacement, and after one before Done, the entry is
// still ours.
func TestConnectAfterACrash(t *testing.T) {
	t.Parallel()
	e, home := newHome(t, "")
	path := writeBelow(t, home, ".cursor/mcp.json", "{}")
	if code := runCommand(t.Context(), e, "connect", "cursor", "--yes"); code != exitOK {
		t.Fatal(e.Err)
	}
	led, err := ledgerOf(e)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	record, err := led.Find(real)
	if err != nil || record == nil {
		t.Fatal(record, err)
	}
	next := *record
	next.Entries, next.After = []string{"another"}, ledger.Hash([]byte("another"))
	if err := led.Begin(next, []byte(readText(t, path)), true); err != nil {
		t.Fatal(err)
	}
	other := newCommand(t, e)
	if code := runCommand(t.Context(), other, "disconnect", "cursor", "--yes"); code != exitOK {
		t.Errorf("exit code %d: %s", code, other.Err)
	}
	if got := readText(t, path); strings.Contains(got, "signalbox") {
		t.Errorf("the entry is still there: %s", got)
	}
}
