// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package safefile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and group of another one.
func keepOwner(f *os.File, of fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	want, known := of.Sys().(*syscall.Stat_t)
	got, also := info.Sys().(*syscall.Stat_t)
	if !known || !also || want.Uid == got.Uid && want.Gid == got.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}
