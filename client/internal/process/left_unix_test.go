// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"log/slog"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
)

// What a process leaves behind is ended and reported. Its end is counted, unless the gateway has
// ended it.
func TestProcessesLeftBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		left         bool
		ended        int
	}{
		{"leaves one", "sleep 1000 >/dev/null 2>&1 & exit 0", true, 1},
		{"waits for it", "sleep 0 & wait", false, 1},
		{"is ended", "sleep 1000 >/dev/null 2>&1 & read -r _", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := new(logtest.Log)
			l := NewLauncher(call.NewSetup(call.Config{Stop: time.Minute, Logger: slog.New(log.Handler())}), Command{Path: "/bin/sh", Args: []string{"-c", tt.script}})
			c, err := l.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tt.ended > 0 && !call.Within(c.exited, 20*time.Second) {
				t.Fatal("it does not end")
			}
			c.End("the test ends it")
			l.Quit()
			if got := log.Count(code.ChildLeft) > 0; got != tt.left {
				t.Errorf("reported %v, want %v: %q", got, tt.left, log.Lines())
			}
			if n := l.Figures().Ended; n != tt.ended {
				t.Errorf("%d ends are counted, want %d", n, tt.ended)
			}
		})
	}
}
