// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package vault

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openFlags prevent that a link is followed, and that opening a pipe waits for a writer.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// checkPrivate returns an error unless a file or folder belongs to the user of the process
// and is closed to all others. Unlike a file of secrets it may not be one of root either: the
// gateway has written it itself.
func checkPrivate(path string, info fs.FileInfo, mode string) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is unknown", path)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d): name another folder in credentials.dir", path, stat.Uid)
	}
	if open := info.Mode().Perm(); open&0o077 != 0 {
		return fmt.Errorf("other users can open %s (mode %04o): chmod %s %s", path, open, mode, path)
	}
	return nil
}

func rename(from, to string) error { return os.Rename(from, to) }

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
