// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The same on a file system without space.
func TestFileSystemFull(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	if err := syscall.Mount("none", mount, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skipf("file systems cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(mount, "credentials")
	v, _ := newVault(t, path, "a")
	g := aliceGrant()
	mustSave(t, v, g)
	filler := filepath.Join(mount, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the file system is not full: %v", err)
	}
	before := g.Meta
	g.RefreshToken = mcp.NewToken("refresh-2")
	if err := v.Save(t.Context(), g); !errors.Is(err, syscall.ENOSPC) || g.Meta != before {
		t.Errorf("saved on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	checkOld(t, v, path)
}
