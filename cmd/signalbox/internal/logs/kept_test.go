// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
)

// A start removes the logs of all but the last gateways that have ended. Those of running
// gateways, and of others that are starting, remain.
func TestOldLogsAreRemoved(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	folder := filepath.Join(state, Folder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	add := func(name string, age time.Duration) {
		path := filepath.Join(folder, name)
		commandtest.Write(t, path, "{}\n")
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		add(fmt.Sprintf("ended%d.log", i), time.Duration(i+1)*time.Hour)
		add(fmt.Sprintf("ended%d.log.1", i), time.Duration(i+1)*time.Hour)
		add(fmt.Sprintf("new%d.log", i), 0)
	}
	add("running.log", 100*time.Hour)
	commandtest.Write(t, filepath.Join(state, "running"+control.SocketSuffix), "")
	RemoveOld(state)
	left, _ := filepath.Glob(filepath.Join(folder, "*"))
	var names []string
	for _, path := range left {
		names = append(names, filepath.Base(path))
	}
	want := "ended0.log ended0.log.1 ended1.log ended1.log.1 ended2.log ended2.log.1 new0.log new1.log new2.log new3.log new4.log running.log"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("left %s, want %s", got, want)
	}
}
