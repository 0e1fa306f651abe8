// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/shellpath"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A program that is only in the PATH of the login shell finds others there, too.
func TestLoginPath(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"only-login-wrapper": "#!/bin/sh\nexec only-login-program\n",
		"only-login-program": "#!/bin/sh\nprintf %s \"$PATH\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	asked := 0
	setup := call.NewSetup(call.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		LoginPath: func(context.Context) string {
			asked++
			return folder + ":/no/such/folder"
		},
		ProcessLevel: slog.LevelDebug,
	})
	start := func(cmd Command) (string, error) {
		l := NewLauncher(setup, cmd)
		defer l.Quit()
		var output []byte
		for range 2 { // the log notes a program once
			c, err := l.Start(t.Context())
			if err != nil {
				return "", err
			}
			output, _ = io.ReadAll(c) // ends with the process
			c.End("test")
		}
		return string(output), nil
	}
	own := os.Getenv("PATH")
	for _, tt := range []struct {
		name string
		cmd  Command
		want string // the PATH of the process
		uses bool
	}{
		{"in no PATH but the shell's", Command{Path: "only-login-wrapper"}, shellpath.Join(folder+":/no/such/folder", own), true},
		{"configured", Command{Path: "only-login-program", Env: []string{"PATH=/bin"}}, "/bin", true},
		{"in ours", Command{Path: "sh", Args: []string{"-c", `printf %s "$PATH"`}}, own, false},
		{"named by its path", Command{Path: filepath.Join(folder, "only-login-program")}, own, false},
	} {
		log.Reset()
		asked = 0
		got, err := start(tt.cmd)
		if err != nil || got != tt.want {
			t.Errorf("%s: PATH is %q, %v, want %q", tt.name, got, err, tt.want)
		}
		want := 0
		if tt.uses {
			want = 1
		}
		if n := strings.Count(log.String(), "program found in the PATH of the login shell only"); n != want || (asked > 0) != tt.uses {
			t.Errorf("%s: noted %d times, asked %d times:\n%s", tt.name, n, asked, log.String())
		}
	}
	_, err := start(Command{Path: "no-such-program"})
	if fault, ok := errors.AsType[*mcp.Fault](err); !ok || !strings.Contains(fault.Message, `"no-such-program" was not found in PATH`) || fault.Reason != code.StartNotFound {
		t.Errorf("got %v, want that it was not found", err)
	}
}
