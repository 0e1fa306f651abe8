// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// secretChild is the command mcpsecret: a legacy MCP server on standard input and output. Its
// tool "show" returns the process ID and the variable TOKEN, and writes the variable and the
// arguments to standard error.
func secretChild() {
	time.AfterFunc(time.Minute, func() { os.Exit(3) }) // if a failed test left it behind
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"secret","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"show","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			token := os.Getenv("TOKEN")
			fmt.Fprintf(os.Stderr, "has the token %s and %q\n", token, os.Args[1:])
			result = fmt.Sprintf(`{"content":[{"type":"text","text":"%s in %d"}]}`, token, os.Getpid())
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
	vanish()
}

// A file that cannot be used is not written, and nothing of it is shown.
func TestSecretRefuses(t *testing.T) {
	t.Parallel()
	const value = "not-a-real-secret"
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		stdin      string
		want       string
	}{
		{"a mode that is too wide", "A=" + value + "\n", 0o640, "x", "secrets.env is not used: other users can read or write it (mode 0640) (chmod 600 "},
		{"mistakes", "A=" + value + "\n  " + value + "\nB='" + value + "\n", 0o600, "x", "secrets.env:2:3: the line sets no variable (write NAME=value)\n"},
		{"an empty value", "", 0o600, "\n", "the value is empty, and nothing was written"},
		{"a value of all quotes", "", 0o600, value + `'"` + "`#x", "the value cannot be written in this format (it has a NUL, or quotes of all kinds"},
		{"a value with a NUL", "", 0o600, value + "\x00", "the value cannot be written in this format"},
	} {
		if tt.mode&0o077 != 0 && os.PathSeparator != '/' {
			continue // files have no such modes
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, tt.stdin)
			commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
			path := filepath.Join(e.Dir, "secrets.env")
			commandtest.Write(t, path, tt.text)
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			code := runCommand(t.Context(), e, "secret", "set", "B", "-")
			if code != exitFailed || !strings.Contains(e.Err.String(), tt.want) || strings.Contains(e.Err.String()+e.Out.String(), value) {
				t.Errorf("exit code %d, said %s, want %s", code, e.Err, tt.want)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tt.text {
				t.Errorf("the file has %q, %v", text, err)
			}
		})
	}
}

// The terminal is asked, and the value is not shown.
func TestSecretAsks(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "not-a-real-secret\nmore")
	e.Terminal = func(any) bool { return true }
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
	code := runCommand(t.Context(), e, "secret", "set", "TOKEN")
	text, err := os.ReadFile(filepath.Join(e.Dir, "secrets.env"))
	if code != exitOK || err != nil || string(text) != "TOKEN=not-a-real-secret\n" || !strings.HasPrefix(e.Err.String(), "value of TOKEN (not shown): ") {
		t.Errorf("exit code %d, %q, %v, said %s", code, text, err, e.Err)
	}
	if info, err := os.Stat(filepath.Join(e.Dir, "secrets.env")); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if said := e.Out.String(); !strings.HasSuffix(said, "secrets.env: TOKEN is set; write ${TOKEN} in the configuration to use it\n") {
		t.Errorf("said %s", said)
	}
}

// Of secrets that are set at the same time, for two configurations in one folder, none is lost.
func TestSecretsAtOnce(t *testing.T) {
	t.Parallel()
	folder, state := t.TempDir(), t.TempDir()
	configs := []string{filepath.Join(folder, "signalbox.yaml"), filepath.Join(folder, "other.yaml")}
	for _, path := range configs {
		commandtest.Write(t, path, "mcpServers: {}\n")
	}
	var all sync.WaitGroup
	const count = 16
	for i := range count {
		all.Go(func() {
			e := commandtest.New(t, "not-a-real-secret")
			e.LookupEnv = func(name string) (string, bool) { return state, name == commandtest.StateVariable }
			if code := runCommand(t.Context(), e, "secret", "set", fmt.Sprintf("S%d", i), "-", "--config", configs[i%2]); code != exitOK {
				t.Errorf("exit code %d, said %s", code, e.Err)
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(filepath.Join(folder, "secrets.env")); err != nil || strings.Count(string(text), "=not-a-real-secret\n") != count {
		t.Errorf("%v, the file has\n%s", err, text)
	}
}
