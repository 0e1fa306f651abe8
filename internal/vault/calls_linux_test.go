// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// traced LETTERS: changes the grant. It is on the first thread, which alone is traced, and
// sends itself a signal before it saves.
var _ = addChild("traced", func(ctx context.Context, folder *Folder, args []string) error {
	v, g, err := childGrant(ctx, folder, args[0])
	if err != nil {
		return err
	}
	g.RefreshToken = mcp.NewToken("refresh-2")
	if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGUSR1); err != nil {
		return err
	}
	return v.Save(ctx, g)
})

// A goroutine that is locked while variables are initialized is on the first thread.
var _ = lockTraced()

func lockTraced() bool {
	traced := os.Getenv(childVariable) == "traced"
	if traced {
		runtime.LockOSThread()
	}
	return traced
}

// A process is killed before and after each system call of a save that also replaces the key
// (identity requirement I12).
func TestKilledAtEachCall(t *testing.T) {
	runtime.LockOSThread() // the one that traces
	defer runtime.UnlockOSThread()
	step := 1
	if testing.Short() {
		step = 20
	}
	found := make(map[string]int)
	for stops := 1; ; stops += step {
		path := filepath.Join(t.TempDir(), "credentials")
		old, _ := newVault(t, path, "a")
		mustSave(t, old, aliceGrant())
		if !killAtCall(t, path, stops) {
			checkAfterKill(t, path, true)
			break
		}
		v, _ := newVault(t, path, "b", "a")
		g := &Grant{GrantKey: aliceKey}
		if err := v.Load(t.Context(), g); err != nil {
			t.Fatalf("killed at stop %d: %v", stops, err)
		}
		token := g.RefreshToken.Reveal()
		found[token]++
		checkAfterKill(t, path, token == "refresh-2")
	}
	// Each of the two files is opened, read and closed, and the new one written and synced.
	if found["refresh-1"] < 30/step || found["refresh-2"] < 10/step || len(found) != 2 {
		t.Errorf("the records after kills are %v", found)
	}
	t.Logf("the records after kills: %v", found)
}

// killAtCall kills the task "traced" when its save has stopped as often as given, at the
// beginning or the end of a system call. It returns false if it ends before.
func killAtCall(t *testing.T, path string, stops int) bool {
	t.Helper()
	return trace(t, path, func(pid int) {
		if stops--; stops == 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// trace runs the task "traced", and calls stopped at the beginning and at the end of each
// system call of its save. It returns whether it was killed. The calling goroutine is locked to
// its thread.
func trace(t *testing.T, path string, stopped func(pid int)) (killed bool) {
	t.Helper()
	pid, saves := startTraced(t, path), false
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil {
			t.Fatal(err)
		}
		deliver := 0
		switch {
		case status.Signaled():
			return true
		case status.Exited() && status.ExitStatus() == 0 && saves:
			return false
		case status.Exited():
			t.Fatalf("it exited with %d", status.ExitStatus())
		case status.StopSignal() == syscall.SIGUSR1:
			saves = true
		case status.StopSignal() == syscall.SIGTRAP && saves:
			stopped(pid)
		case status.StopSignal() != syscall.SIGTRAP:
			deliver = int(status.StopSignal())
		}
		// A process that was killed does not exist any more.
		if err := syscall.PtraceSyscall(pid, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// startTraced starts the task "traced", which stops at once.
func startTraced(t *testing.T, path string) (pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte(path+"\nba"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	process, err := os.StartProcess(self, []string{self}, &os.ProcAttr{
		Env:   append(os.Environ(), childVariable+"=traced"),
		Files: []*os.File{stdin, nil, os.Stderr},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		t.Fatal(err)
	}
	return process.Pid
}
