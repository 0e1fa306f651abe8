// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zalando/go-keyring"
)

// withFiles loads a server with an entry, with files beside the configuration. The problems
// have no path of the folder.
func withFiles(t *testing.T, entry string, files map[string]string) (*Config, []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "wide") {
			if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(dir, "signalbox.yaml")
	if err := os.WriteFile(path, []byte("mcpServers: {a: {"+entry+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, func(name string) (string, bool) {
		value, set := map[string]string{"file": "variable", "HOME": "/home/alice"}[name]
		return value, set
	})
	if err == nil {
		return c, nil
	}
	text := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	if strings.Contains(text, secretText) {
		t.Errorf("%s: an error shows a value: %s", entry, text)
	}
	return nil, strings.Split(text, "\n")
}

// TestFileReferences checks the values of files, and that they count as secrets.
func TestFileReferences(t *testing.T) {
	files := map[string]string{"a": "one\n", "sub/b": "two\r\n\n", "c": "three\nfour\n", "empty": "\n"}
	for entry, want := range map[string]struct{ args, known []string }{
		`command: x, args: ["${file:a}", "--b=${file:sub/b}", "${file:./a}"]`:    {[]string{"one", "--b=two", "one"}, []string{"one", "two"}},
		`command: x, args: ["${file:c}"]`:                                        {[]string{"three\nfour"}, []string{"three\nfour"}},
		`command: x, args: ["${file:empty}", "${file:-default}", "${file}"]`:     {[]string{"", "variable", "variable"}, nil},
		`command: x, args: ["${keyring:-default}", "${env:file}", "$file:a"]`:    {[]string{"default", "variable", "$file:a"}, nil},
		`command: x, disabled: true, args: ["${file:none}", "${keyring:x}", ""]`: {[]string{"", "", ""}, nil},
	} {
		c, problems := withFiles(t, entry, files)
		if problems != nil {
			t.Errorf("%s: %q", entry, problems)
			continue
		}
		var known []string
		for _, secret := range c.Servers[0].Secrets {
			known = append(known, secret.Reveal())
		}
		if diff := cmp.Diff(want.args, c.Servers[0].Args) + cmp.Diff(want.known, known); diff != "" {
			t.Errorf("%s (-want +got):\n%s", entry, diff)
		}
	}
}

// TestFileReferenceProblems checks that each mistake is reported at its position with its
// cure, and without the content of a file.
func TestFileReferenceProblems(t *testing.T) {
	files := map[string]string{
		"wide": secretText, "empty": "\n", "large": strings.Repeat(secretText, maxSecretFile), "binary": secretText + "\x00", "latin": secretText + "\xe4",
		"folder/a": "",
	}
	const create = "create it for your user alone (mode 0600), or write ${NAME} and run 'signalbox secret set NAME'"
	for entry, want := range map[string]string{
		`command: x, args: ["${file:none}"]`:                     `1:37: "args[0]": the file none does not exist (` + create + `)`,
		`command: x, args: [a, "${file:folder/none}"]`:           `1:40: "args[1]": the file folder/none does not exist (` + create + `)`,
		`command: x, args: ["${file:wide}"]`:                     `1:37: "args[0]": the file wide is not used: other users can read or write it (mode 0644) (chmod 600 wide)`,
		`command: x, env: {KEY: "${file:empty}"}`:                `1:41: "KEY": the file empty is empty (write the secret into it)`,
		`command: x, args: ["${file:large}"]`:                    `1:37: "args[0]": the file large is larger than 64KiB (write the path of a file with nothing but the secret)`,
		`command: x, args: ["${file:binary}"]`:                   `1:37: "args[0]": the file binary is not text in UTF-8 (write the secret in a form of text, such as base64 or PEM)`,
		`command: x, args: ["${file:latin}"]`:                    `1:37: "args[0]": the file latin is not text in UTF-8 (write the secret in a form of text, such as base64 or PEM)`,
		`command: x, args: ["${file:folder}"]`:                   `1:37: "args[0]": the file folder is not used: it is not a regular file (mode drwx------)`,
		`command: x, args: ["${file:}"]`:                         `1:37: "args[0]" has a ${file:} without a path (write ${file:PATH})`,
		`command: x, args: ["${file:${HOME}/a}"]`:                `1:37: "args[0]" has a reference inside the path of a ${file:} (write the path itself)`,
		`command: x, args: ["${file:a:-b}"]`:                     `1:37: "args[0]" has a default in a ${file:} (a file has no default: write ${file:PATH} or ${NAME:-default})`,
		`command: x, args: ["${file:~/a}"]`:                      `1:37: "args[0]" has a path that begins with ~, which only a shell replaces (write the whole path) [SB_FILE_TILDE]`,
		`command: x, args: ["${file:a"]`:                         `1:37: "args[0]" has a ${ without an end (close it with })`,
		`url: "http://x", headers: {A: "${file:none}"}`:          `1:48: "A": the file none does not exist (` + create + `)`,
		`command: x, args: ["${keyring:}"]`:                      `1:37: "args[0]" has a ${keyring:} without a valid name (write ${keyring:NAME} with letters, digits and ._-@/ in the name)`,
		`command: x, args: ["${keyring:a b}"]`:                   `1:37: "args[0]" has a ${keyring:} without a valid name (write ${keyring:NAME} with letters, digits and ._-@/ in the name)`,
		`command: x, args: ["${keyring:a:-` + secretText + `}"]`: `1:37: "args[0]" has a ${keyring:} without a valid name (write ${keyring:NAME} with letters, digits and ._-@/ in the name)`,
	} {
		if strings.Contains(entry, "wide") && runtime.GOOS == "windows" {
			continue // files have no such modes
		}
		_, problems := withFiles(t, entry, files)
		want := "signalbox.yaml:" + want
		if i := slices.Index(problems, want); i != 0 || len(problems) != 1 && !strings.Contains(entry, "${HOME}") {
			t.Errorf("%s: %q, want %q", entry, problems, want)
		}
	}
}

// TestKeyringReferences checks the entries of a keyring, and what is reported without one.
func TestKeyringReferences(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	keyring.MockInit() // the library's, as there may be no other
	const entry = `url: "http://x", headers: {Authorization: "Bearer ${keyring:forge/token}"}`
	const at = `signalbox.yaml:1:60: "Authorization" needs the keyring entry forge/token`
	const cure = "write ${NAME} and run 'signalbox secret set NAME')"
	_, problems := withFiles(t, entry, nil)
	if want := at + ` of the service "signalbox", which does not exist (store it there, or ` + cure; len(problems) != 1 || problems[0] != want {
		t.Errorf("without the entry: %q, want %q", problems, want)
	}
	if err := keyring.Set("signalbox", "forge/token", secretText); err != nil {
		t.Fatal(err)
	}
	c, problems := withFiles(t, entry, nil)
	if problems != nil || c.Servers[0].Headers["Authorization"].Reveal() != "Bearer "+secretText || len(c.Servers[0].Secrets) != 1 || c.Servers[0].Secrets[0].Reveal() != secretText {
		t.Errorf("with the entry: %q, %v", problems, c)
	}
	keyring.MockInitWithError(errors.New("it is locked"))
	_, problems = withFiles(t, entry, nil)
	if want := at + ": the keyring of this system cannot be used: it is locked (" + cure; len(problems) != 1 || problems[0] != want {
		t.Errorf("with a locked keyring: %q, want %q", problems, want)
	}
}

// TestReferencedFilesAreExposed checks that a reload knows the files of references, which
// others may be able to write.
func TestReferencedFilesAreExposed(t *testing.T) {
	c, problems := withFiles(t, `command: x, args: ["${file:a}", "${file:b}", "${file:a}"]`, map[string]string{"a": "one", "b": "two"})
	if problems != nil {
		t.Fatal(problems)
	}
	var names []string
	for _, file := range new(Config).NewEnvFiles(c) {
		names = append(names, filepath.Base(file))
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// The folder of the files is one that the server works in.
	dir := t.TempDir()
	path := filepath.Join(dir, "etc", "signalbox.yaml")
	secret := filepath.Join(dir, "work", "a")
	for file, text := range map[string]string{
		path:   "mcpServers: {a: {command: x, cwd: " + filepath.Join(dir, "work") + ", args: [\"${file:" + secret + "}\"]}}",
		secret: "one",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Inspect(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := `others may be able to write the file of "args[0]"`; !strings.Contains(c.Notes.Error(), want) {
		t.Errorf("the notes are %q, want %q", c.Notes.Error(), want)
	}
}
