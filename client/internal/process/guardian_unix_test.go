// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// A server without processes has no guardian either, and its next process is guarded again.
func TestGuardianEndsWithTheLastProcess(t *testing.T) {
	t.Parallel()
	l := NewLauncher(call.NewSetup(call.Config{Stop: time.Second}), Command{Path: "/bin/sh", Args: []string{"-c", "read -r line"}})
	defer l.Quit()
	begin := func() *Child {
		t.Helper()
		c, err := l.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 2 {
		first, second := begin(), begin()
		guardian := l.guardian.cmd
		if guardian == nil || guardian.ProcessState != nil {
			t.Fatal("there is no guardian")
		}
		first.End("")
		if l.guardian.cmd != guardian || guardian.ProcessState != nil {
			t.Error("the guardian ended before the last process")
		}
		second.End("")
		if l.guardian.cmd != nil || guardian.ProcessState == nil {
			t.Error("the guardian has outlived the last process")
		}
	}
}
