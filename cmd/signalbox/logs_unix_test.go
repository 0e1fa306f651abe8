// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// logs --follow continues over the restart of a gateway, with each record once, also if the
// gateway was killed.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	state := commandtest.WithState(t, e)
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "listen: 127.0.0.1:0\nmcpServers: {kid: {command: mcpchild, idle: none}}\n")
	code := make(chan int)
	go func() { code <- runCommand(t.Context(), e, "logs", "--follow", "--config", file) }()
	commandtest.AwaitText(t, e.Err, "no gateway is running; waiting for one", 1)
	for i := range 2 {
		gateway, err := startProcess(e.Dir, append(os.Environ(), commandtest.StateVariable+"="+state), "signalbox", "serve")
		if err != nil {
			t.Fatal(err)
		}
		defer gateway.kill()
		commandtest.AwaitText(t, e.Out, `line="child is up"`, i+1)
		if i == 0 {
			_ = gateway.cmd.Process.Signal(syscall.SIGTERM)
			if _, err := gateway.finish(); err != nil {
				t.Fatal(err)
			}
			commandtest.AwaitText(t, e.Out, "shutting down", 1)
		}
		gateway.kill()
		commandtest.AwaitText(t, e.Err, "no gateway is running; waiting for one", i+2)
	}
	e.Arrived <- syscall.SIGINT
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, e.Err)
	}
	if got := strings.Count(e.Out.String(), `msg="backend process started"`); got != 2 {
		t.Errorf("%d starts, want 2:\n%s", got, e.Out)
	}
	if !regexp.MustCompile(`continuing with the log of process [0-9]+\n`).MatchString(e.Err.String()) {
		t.Errorf("standard error has %q", e.Err)
	}
}
