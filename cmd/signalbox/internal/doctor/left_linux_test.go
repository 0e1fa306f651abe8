// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// A process is found after its gateway has gone, and not while a gateway owns it.
func TestLeftProcesses(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "listen: 127.0.0.1:0\nmcpServers: {}\n")
	// The shell ends, so that its child is an orphan.
	start := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
	start.Env = append(os.Environ(), source.InsideVariable+"=0123456789abcdef,"+source.FileID(file))
	out, err := start.Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(orphan, syscall.SIGKILL) }()
	// This process runs the program of a gateway.
	owned := exec.CommandContext(t.Context(), "sleep", "600")
	owned.Env = start.Env
	if err := owned.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = owned.Process.Kill()
		_ = owned.Wait()
	}()
	left := leftProcesses(file)
	if len(left) != 1 || left[0].id != orphan || left[0].name != "sleep" {
		t.Errorf("left %+v, want process %d", left, orphan)
	}
	if got := leftProcesses(file + "x"); got != nil {
		t.Errorf("left of another file: %+v", got)
	}
	if err := e.Execute(t.Context(), New(e.Env)); err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf("warn  SB_CHILD_LEFT      left by an earlier gateway of the file, and still running: sleep (%d)", orphan)
	if !strings.Contains(e.Out.String(), want) || !strings.Contains(e.Out.String(), fmt.Sprintf("fix: kill %d\n", orphan)) {
		t.Errorf("printed %s", e.Out)
	}
}
