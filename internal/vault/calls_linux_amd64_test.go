// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// A save is durable before it returns, and before the record of the old key is removed: the
// new file is synced before it is renamed, and the folder after each change.
func TestOrderOfCalls(t *testing.T) {
	runtime.LockOSThread() // the one that traces
	defer runtime.UnlockOSThread()
	path := filepath.Join(t.TempDir(), "credentials")
	old, _ := newVault(t, path, "a")
	mustSave(t, old, aliceGrant())
	names := map[uint64]string{
		syscall.SYS_FSYNC: "fsync", syscall.SYS_RENAME: "rename", syscall.SYS_RENAMEAT: "rename", 316: "rename", // renameat2
		syscall.SYS_UNLINK: "unlink", syscall.SYS_UNLINKAT: "unlink",
	}
	var calls []string
	ends := false
	killed := trace(t, path, func(pid int) {
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
			t.Fatal(err)
		}
		// What does not exist is not removed.
		if name := names[regs.Orig_rax]; ends && name != "" && regs.Rax == 0 {
			calls = append(calls, name)
		}
		ends = !ends
	})
	want := []string{"fsync", "rename", "fsync", "unlink", "fsync"}
	if killed || !slices.Equal(calls, want) {
		t.Errorf("the calls are %v, want %v", calls, want)
	}
}
