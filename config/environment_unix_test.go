// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inspected returns the notes on a file with a text and a mode, in a folder that only its
// owner can open. PATH has the program "known", and the folder of the file has "here".
func inspected(t *testing.T, text string, mode os.FileMode) []string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err, os.Chmod(dir, 0o700))
	bin, work := filepath.Join(dir, "bin"), filepath.Join(dir, "work")
	must(t, os.Mkdir(bin, 0o700), os.Mkdir(work, 0o700))
	for _, program := range []string{filepath.Join(bin, "known"), filepath.Join(bin, "well known"), filepath.Join(work, "here")} {
		must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", bin)
	t.Chdir(work)
	must(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "var"), 0o700))
	for name, mode := range map[string]os.FileMode{"own.env": 0o600, "all.env": 0o666} {
		path := filepath.Join(dir, "var", name)
		must(t, os.WriteFile(path, []byte("A=1\n"), mode), os.Chmod(path, mode))
	}
	file := filepath.Join(dir, "etc", "signalbox.json")
	must(t, os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode))
	c, err := Inspect(file, func(string) (string, bool) { return "hidden-hidden", true })
	must(t, err)
	var notes []string
	for _, n := range c.Notes {
		notes = append(notes, strings.ReplaceAll(n.String(), dir, "DIR"))
	}
	return notes
}

// signingKey returns a private key in PEM, as a string of JSON.
func signingKey(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return strconv.Quote(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
}

// TestInspectFindsReadersAndWriters checks the notes on readable credentials and on files that
// others can write.
func TestInspectFindsReadersAndWriters(t *testing.T) {
	const literal = `{"mcpServers": {
		"a": {"url": "http://x", "headers": {"Authorization": "Bearer LITERALSECRET123", "X-Trace": "on"}},
		"b": {"command": "known", "env": {"GITHUB_TOKEN": "ghp_123", "MODE": "fast", "API_KEY": "${KEY}"}}},
		"state": {"keys": ["0123456789abcdef0123456789abcdef"]}}`
	const cure = " looks like a credential, and all users of this machine can read this file (mode 0644) (write ${NAME} and set that variable, or chmod 600 the file)"
	const keep = " (keep it in a folder that neither a server nor another user can write)"
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       []string
	}{
		{"only the owner reads", literal, 0o600, nil},
		{"the group reads", literal, 0o640, nil},
		{"everybody reads", literal, 0o644, []string{
			`DIR/etc/signalbox.json:2:40: "Authorization"` + cure,
			`DIR/etc/signalbox.json:3:37: "GITHUB_TOKEN"` + cure,
			`DIR/etc/signalbox.json:4:22: "keys[0]"` + cure,
		}},
		{"everybody reads the key of a client", `{"mcpServers": {"a": {"url": "http://127.0.0.1", "oauth": {"clientId": "c", "clientKey": ` + signingKey(t) + `}}}}`, 0o644, []string{
			`DIR/etc/signalbox.json:1:90: "clientKey"` + cure,
		}},
		{"nothing to read", `{"mcpServers": {"a": {"url": "http://x", "headers": {"Authorization": "Bearer ${T}"}}}}`, 0o644, nil},
		{"a placeholder", `{"mcpServers": {"a": {"url": "http://x", "headers": {"Authorization": "Bearer <YOUR_TOKEN>"}}}}`, 0o644, []string{
			`DIR/etc/signalbox.json:1:54: "Authorization" holds a placeholder (write the real one) [SB_FILE_PLACEHOLDER]`,
		}},
		{"everybody writes", `{"mcpServers": {}}`, 0o666, []string{
			"DIR/etc/signalbox.json:1:1: others may be able to write this file, so changes that run something new wait for 'signalbox reload': " +
				"all users of this machine can write DIR/etc/signalbox.json (mode 0666)" + keep,
		}},
		{"everybody writes, and it is taken", `{"reload": "auto", "mcpServers": {}}`, 0o666, []string{
			`DIR/etc/signalbox.json:1:1: others may be able to write this file, and "reload: auto" runs what they write: ` +
				`all users of this machine can write DIR/etc/signalbox.json (mode 0666) (remove "reload: auto")`,
		}},
		{"everybody writes, and nothing is taken", `{"reload": "manual", "mcpServers": {}}`, 0o666, nil},
		{"a backend writes", `{"mcpServers": {"files": {"command": "known", "args": ["../etc"]}}}`, 0o600, []string{
			"DIR/etc/signalbox.json:1:1: others may be able to write this file, so changes that run something new wait for 'signalbox reload': " +
				`backend "files" is given DIR/etc` + keep,
		}},
		{"a file of variables of its owner", `{"mcpServers": {"a": {"command": "known", "envFile": "../var/own.env"}}}`, 0o600, nil},
		{"a file of variables that others read and write", `{"mcpServers": {"a": {"command": "known", "envFile": "../var/all.env"}}}`, 0o600, []string{
			`DIR/etc/signalbox.json:1:54: "envFile" holds variables, and all users of this machine can read DIR/var/all.env (mode 0666) (chmod 600 it)`,
			`DIR/etc/signalbox.json:1:54: others may be able to write the file of "envFile", so changes that run something new wait for 'signalbox reload': ` +
				"all users of this machine can write DIR/var/all.env (mode 0666)" + keep,
		}},
		{"a file of variables that a backend writes", `{"reload": "auto", "mcpServers": {"a": {"command": "known", "args": ["../var"], "envFile": "../var/own.env"}}}`, 0o600, []string{
			`DIR/etc/signalbox.json:1:92: others may be able to write the file of "envFile", and "reload: auto" runs what they write: backend "a" is given DIR/var (remove "reload: auto")`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(inspected(t, tt.text, tt.mode), tt.want); diff != "" {
				t.Errorf("notes (-got +want):\n%s", diff)
			}
		})
	}
}

func TestInspectFindsMissingPrograms(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{`"known"`, ""},
		{`"known", "disabled": false`, ""},
		{`"/bin/sh"`, ""},
		{`"./here"`, ""},
		{`"../work/here", "cwd": "../bin"`, ""},
		{`"nosuchprogram", "disabled": true`, ""},
		{`"nosuchprogram"`, `the program of "a" was not found in PATH (install it, or write its whole path) [SB_START_NOT_FOUND]`},
		{`"here"`, `the program of "a" was not found in PATH (install it, or write its whole path) [SB_START_NOT_FOUND]`},
		{`"./nosuchprogram"`, `the program of "a" does not exist or cannot be executed [SB_START_NOT_FOUND]`},
		{`"/nosuch/program"`, `the program of "a" does not exist or cannot be executed [SB_START_NOT_FOUND]`},
		{`"known -y @example/server"`, `"command" is one string with spaces in it, and no program has that name (write "command": "known", and each word after it as one of "args") [SB_START_ONE_STRING]`},
		{`"nosuchprogram x"`, `"command" has a space in it, but must be the name of one program (write what follows the program in "args") [SB_START_ONE_STRING]`},
		{`"known x"`, `"command" is one string with spaces in it, and no program has that name (write "command": "known", and each word after it as one of "args") [SB_START_ONE_STRING]`},
		{`"well known"`, ""},
		{`"nosuchprogram ${SECRET}/x"`, `the program of "a" does not exist or cannot be executed [SB_START_NOT_FOUND]`},
	} {
		notes := inspected(t, `{"mcpServers": {"a": {"command": `+tt.command+`}}}`, 0o600)
		got := strings.Join(notes, "\n")
		if len(notes) > 1 {
			t.Errorf("%s: %d notes for one cause:\n%s", tt.command, len(notes), got)
		}
		if want := strings.TrimPrefix("DIR/etc/signalbox.json:1:35: "+tt.want, "DIR/etc/signalbox.json:1:35: "); tt.want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, want %q", tt.command, got, tt.want)
		}
	}
}

// TestReadmeExampleKeepsItsFileToItself checks that the server of the README's first example
// cannot write the example's file.
func TestReadmeExampleKeepsItsFileToItself(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	_, after, _ := strings.Cut(string(readme), "```json\n")
	text, _, found := strings.Cut(after, "```")
	if !found || !strings.Contains(text, "mcpServers") {
		t.Fatalf("the README begins with another example: %q", text)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.Chmod(dir, 0o700), os.Mkdir("docs", 0o700), os.WriteFile("mcp.json", []byte(text), 0o600))
	c, err := Inspect("mcp.json", func(string) (string, bool) { return "x", true })
	must(t, err)
	for _, n := range c.Notes {
		if strings.Contains(n.Message, "others may") {
			t.Error(n)
		}
	}
}
