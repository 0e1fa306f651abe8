// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// held starts a gateway with one backend that holds a pipe open. It returns the gateway, and
// the pipe once the child has opened it.
func held(t *testing.T, manner string, args ...string) (*process, *os.File) {
	t.Helper()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), fmt.Sprintf("mcpServers: {kid: {command: mcpchild, args: [hello, %q, %s]}}\n", pipe, manner))
	gw, err := startProcess(dir, os.Environ(), "signalbox", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gw.kill)
	f, err := os.Open(pipe) // waits for the child
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return gw, f
}

// ends waits until no process holds the pipe open.
func ends(t *testing.T, pipe *os.File) {
	t.Helper()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, pipe)
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(commandtest.Patience):
		t.Fatal("the child outlived its gateway")
	}
}

func TestChildrenDieWithAGatewayThatIsKilled(t *testing.T) {
	t.Parallel()
	gw, pipe := held(t, "stubborn", "serve", "--listen", "127.0.0.1:0")
	if _, err := gw.expect("listening on"); err != nil {
		t.Fatal(err)
	}
	gw.kill() // SIGKILL
	ends(t, pipe)
}

func TestChildrenEndWithTheirCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		signal bool
	}{
		{"serve", []string{"serve", "--listen", "127.0.0.1:0"}, true},
		{"list", []string{"tools"}, false},
		{"call", []string{"call", "kid__hello", "--json"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gw, pipe := held(t, "polite", tt.args...)
			if tt.signal {
				if err := gw.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			ends(t, pipe)
			if _, err := gw.finish(); err != nil {
				t.Error(err)
			}
		})
	}
}
