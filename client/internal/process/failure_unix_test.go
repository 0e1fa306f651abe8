// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// Each way in which a start fails has its code and names what is wrong.
func TestStartFailureCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name       string
		cmd        Command
		code, text string
	}{
		{"not in PATH", Command{Path: "no-such-program"}, code.StartNotFound, `program "no-such-program" was not found in PATH`},
		{"no file", Command{Path: "/no/such/program"}, code.StartNotFound, `program "/no/such/program" does not exist`},
		{"no interpreter", Command{Path: write("script", "#!/no/such/sh\n", 0o700)}, code.StartNotFound, `interpreter "/no/such/sh"`},
		{"no loader", Command{Path: write("binary", "\x7fELF", 0o700)}, code.StartForbidden, "built for another system"},
		{"no #!", Command{Path: write("plain", "true\n", 0o700)}, code.StartForbidden, "a script without a #! line"},
		{"not executable", Command{Path: write("data", "#!/bin/sh\n", 0o600)}, code.StartForbidden, "may not be executed"},
		{"folder of the program missing", Command{Path: "/bin/sh", Dir: "/no/such/folder"}, code.StartFolder, `working directory "/no/such/folder"`},
		{"one string", Command{Path: "sh -c true"}, code.StartOneString, `command "sh -c true" is one string`},
		{"one string with a path", Command{Path: "/bin/sh -c true"}, code.StartOneString, "is one string"},
		{"path with a space", Command{Path: "/no/such folder/program"}, code.StartNotFound, "does not exist"},
	} {
		cmd := exec.Command(tt.cmd.Path)
		cmd.Dir = tt.cmd.Dir
		err := cmd.Run()
		if err == nil {
			t.Errorf("%s: it started", tt.name)
			continue
		}
		got := startFailure(&tt.cmd, err)
		if got.code != tt.code || !strings.Contains(got.text, tt.text) {
			t.Errorf("%s: %+v, want %s, %q", tt.name, got, tt.code, tt.text)
		}
	}
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
		if got := startFailure(&Command{Path: "x"}, &os.PathError{Err: errno}); got.code != code.FilesLimit {
			t.Errorf("%v: %+v, want %s", errno, got, code.FilesLimit)
		}
	}
	if got := startFailure(&Command{Path: "x"}, errors.New("secret")); got.code != "" || strings.Contains(got.text, "secret") {
		t.Errorf("unknown: %+v", got)
	}
}

// The last lines on stderr decide the code of an exit.
func TestExitCode(t *testing.T) {
	for line, want := range map[string]string{
		// Words of npm 6 to 11, uv, pip and docker.
		"npm error code E404": code.StartPackage,
		"npm ERR! 404 Not Found - GET https://npm.example.com/@x%2fsearch - Not found": code.StartPackage,
		"npm error code ETARGET": code.StartPackage,
		"  ╰─▶ Because no-such-package was not found in the package registry and you require no-such-package":      code.StartPackage,
		"ERROR: No matching distribution found for no-such-package":                                                code.StartPackage,
		"docker: Error response from daemon: pull access denied for x/y, repository does not exist or may require": code.StartPackage,
		"docker: Error response from daemon: manifest for x/y:9 not found: manifest unknown: manifest unknown":     code.StartPackage,
		"Error: BRAVE_API_KEY environment variable is required":                                                    code.StartNeedsValue,
		"GITHUB_PERSONAL_ACCESS_TOKEN not set":                                                                     code.StartNeedsValue,
		"KeyError: 'SLACK_BOT_TOKEN'":                                                                              code.StartNeedsValue,
		"Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables":                                       code.StartNeedsValue,
		"Missing required environment variable: TOKEN":                                                             code.StartNeedsValue,
		"env var APIKEY must be set":                                                                               code.StartNeedsValue,
		"":                                                                                                         code.TalkExited,
		"Segmentation fault":                                                                                       code.TalkExited,
		"npm error code ENOENT":                                                                                    code.TalkExited,
		"code: 'ERR_REQUIRED_ARG'; the argument is missing":                                                        code.TalkExited,
		"Error: Cannot find module 'x' MODULE_NOT_FOUND, which is required":                                        code.TalkExited,
		"using API_KEY of the file":                                                                                code.TalkExited,
		"argument --root is required":                                                                              code.TalkExited,
	} {
		if got := exitCode([]string{"starting", line, "bye"}); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	// Words of node, about a package that npx has installed in part, and about a program.
	for want, texts := range map[string][]string{
		code.StartInstall: {
			"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /home/me/.npm/_npx/15b07286cbcc3329/node_modules/@x/memory/dist/index.js",
			"Error: Cannot find module 'ajv'\nRequire stack:\n- /home/me/.npm/_npx/a705c79b42eea4c8/node_modules/ajv-formats/dist/limit.js",
			`Error: Cannot find module 'ajv'` + "\n" + `- C:\Users\A B\AppData\Local\npm-cache\_npx\a705c79b42eea4c8\node_modules\ajv-formats\dist\limit.js`,
		},
		code.TalkExited: {
			"Error: Cannot find module '/srv/tools/lint.js'",
			"Error: Cannot find module 'ajv'\nRequire stack:\n- /srv/tools/node_modules/ajv-formats/dist/limit.js",
			"TypeError: x is not a function\n    at /home/me/.npm/_npx/a705c79b42eea4c8/node_modules/x/index.js:1:1",
		},
	} {
		for _, text := range texts {
			if got := exitCode(strings.Split(text, "\n")); got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
		}
	}
}
