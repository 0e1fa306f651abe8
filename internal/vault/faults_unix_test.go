// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// full: saves a large grant where a file may have 600 bytes only, and reports the error.
var _ = addChild("full", func(ctx context.Context, folder *Folder, _ []string) error {
	v, err := childVault(folder, "a")
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 600, Max: 600}); err != nil {
		return err
	}
	g := &Grant{GrantKey: aliceKey}
	if err := v.Load(ctx, g); err != nil {
		return err
	}
	before := g.Meta
	g.RefreshToken = mcp.NewToken(strings.Repeat("x", 10_000))
	err = v.Save(ctx, g)
	fmt.Println(err, g.Meta == before)
	return nil
})

// A record that cannot be written completely is an error, and the old one stays (identity
// fault 28).
func TestDiskFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	v, _ := newVault(t, path, "a")
	mustSave(t, v, aliceGrant())
	full := start(t, "full", path)
	lines, err := full.rest()
	if err != nil || len(lines) != 1 || !strings.HasSuffix(lines[0], "file too large true") {
		t.Fatalf("got %q, %v, %s", lines, err, &full.err)
	}
	checkOld(t, v, path)
}

// checkOld checks that a failed save has left the old record and nothing else.
func checkOld(t *testing.T, v *Vault, path string) {
	t.Helper()
	g := &Grant{GrantKey: aliceKey}
	if err := v.Load(t.Context(), g); err != nil || g.RefreshToken.Reveal() != "refresh-1" {
		t.Errorf("the old record: %v %s", err, g.RefreshToken.Reveal())
	}
	if files, _ := filepath.Glob(filepath.Join(path, "*"+newSuffix)); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
	mustSave(t, v, g)
}

// foreignCase is a file that is not the user's alone.
type foreignCase struct {
	name   string
	folder bool // else the record
	change func(path string) error
	want   string
}

// Files and folders that others own or can open are refused, and left as they are (identity
// fault 28).
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	chmod := func(mode os.FileMode) func(string) error {
		return func(path string) error { return os.Chmod(path, mode) }
	}
	cases := []foreignCase{
		{"readable by the group", false, chmod(0o640), "other users can open PATH (mode 0640): chmod 600 PATH"},
		{"readable by all", false, chmod(0o604), "other users can open PATH (mode 0604): chmod 600 PATH"},
		{"writable by all", false, chmod(0o602), "other users can open PATH (mode 0602): chmod 600 PATH"},
		{"a link", false, func(path string) error {
			return errors.Join(os.Rename(path, path+"-moved"), os.Symlink(path+"-moved", path))
		}, "open PATH: too many levels of symbolic links"},
		{"a pipe", false, func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, "PATH is not a regular file"},
		{"a folder for all", true, chmod(0o755), "other users can open PATH (mode 0755): chmod 700 PATH"},
		{"no folder", true, func(path string) error { return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600)) }, "PATH is not a folder"},
	}
	if os.Geteuid() == 0 { // else TestFolderOfRoot
		const want = "PATH belongs to another user (uid 65534): name another folder in credentials.dir"
		chown := func(path string) error { return os.Chown(path, 65534, 65534) }
		cases = append(cases, foreignCase{"of another user", false, chown, want}, foreignCase{"a folder of another user", true, chown, want})
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "credentials")
			v, log := newVault(t, path, "a")
			g := aliceGrant()
			mustSave(t, v, g)
			changed := path
			if !tt.folder {
				changed = filepath.Join(path, v.names(g.identity())[0])
			}
			if err := tt.change(changed); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(changed)
			want := strings.ReplaceAll(tt.want, "PATH", changed)
			if tt.folder {
				_, err := OpenFolder(path)
				if err == nil || err.Error() != want {
					t.Errorf("open: %v, want %s", err, want)
				}
			} else if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); err == nil || err.Error() != want {
				t.Errorf("load: %v, want %s", err, want)
			}
			if err := v.Save(t.Context(), g); err == nil || err.Error() != want {
				t.Errorf("save: %v, want %s", err, want)
			}
			if err := v.Delete(t.Context(), g); err == nil || err.Error() != want {
				t.Errorf("delete: %v, want %s", err, want)
			}
			if after, err := os.Lstat(changed); err != nil || after.Mode() != before.Mode() || !os.SameFile(before, after) {
				t.Errorf("the file was changed: %v, %v", after, err)
			}
			if log.Len() > 0 {
				t.Errorf("logged: %s", log)
			}
		})
	}
}

// The key file follows the same rule.
func TestForeignKeyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials.key")
	text := []byte("key " + strings.Repeat("A", 43) + "\n")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := DefaultKey(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	_, _, err := DefaultKey(t.Context(), file)
	if want := "other users can open " + file + " (mode 0640): chmod 600 " + file; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != string(text) {
		t.Errorf("the file was changed to %q, %v", kept, err)
	}
}

// A folder of another user is refused also where it cannot be given away.
func TestFolderOfRoot(t *testing.T) {
	t.Parallel()
	_, err := OpenFolder("/")
	want := "/ belongs to another user (uid 0): name another folder in credentials.dir"
	if os.Geteuid() == 0 {
		want = "other users can open / "
	}
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// New folders and files are closed to others, whatever the umask permits.
func TestModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "credentials")
	v, _ := newVault(t, path, "a")
	mustSave(t, v, aliceGrant())
	for folder, mode := range map[string]os.FileMode{path: 0o700, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", folder, info.Mode(), err)
		}
	}
	files, err := os.ReadDir(path)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", file.Name(), info.Mode(), err)
		}
	}
}
