// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

func TestGroupMemoryOfThisProcess(t *testing.T) {
	group, err := syscall.Getpgid(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if n := GroupMemory()[group]; n < 1<<20 {
		t.Errorf("the group of this process has %d bytes", n)
	}
}

// A child that uses more memory than it may, together with what it has started, is killed
// and counts as one that has crashed. One that uses less is not.
func TestMemoryIsLimited(t *testing.T) {
	const limit = 64 << 20
	for _, tt := range []struct {
		script string
		killed bool
	}{
		{"head -c 300000000 /dev/zero | tail -c 250000000 >/dev/null; read -r _", true},
		{"head -c 3000000 /dev/zero | tail -c 2500000 >/dev/null; read -r _", false},
	} {
		l := NewLauncher(call.NewSetup(call.Config{Stop: time.Millisecond}), Command{Path: "/bin/sh", Args: []string{"-c", tt.script}, Memory: limit})
		l.memoryTick = 5 * time.Millisecond
		c, err := l.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f := l.Figures(); len(f.Groups) != 1 || f.Started != 1 {
			t.Errorf("the figures are %+v", f)
		}
		if !tt.killed {
			if call.Within(c.exited, 200*time.Millisecond) {
				t.Error("a process that uses little has ended")
			}
		} else if !call.Within(c.exited, 20*time.Second) {
			t.Error("a process that uses too much was not killed")
		} else if text, reason := c.ExitReason(call.SeveralClients); reason != code.ChildMemory || !strings.Contains(text, "may use 64 MiB") {
			t.Errorf("the reason is %q, %s", text, reason)
		}
		if n := len(l.backoff.deaths); n != map[bool]int{true: 1, false: 0}[tt.killed] {
			t.Errorf("killed %v: %d crashes are counted", tt.killed, n)
		}
		c.End("")
		l.Quit()
		if f := l.Figures(); len(f.Groups) != 0 || f.Started != 1 {
			t.Errorf("in the end the figures are %+v", f)
		}
	}
}
