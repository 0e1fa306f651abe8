// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package vault

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

const openFlags = 0

// checkPrivate returns nothing: file modes do not determine access on this system.
func checkPrivate(string, fs.FileInfo, string) error { return nil }

// Windows does not replace a file that another process reads.
const (
	renameTries = 50
	renameDelay = 10 * time.Millisecond
)

// rename is os.Rename, repeated while the file is open elsewhere.
func rename(from, to string) error {
	for try := 1; ; try++ {
		err := os.Rename(from, to)
		if !errors.Is(err, fs.ErrPermission) || try == renameTries {
			return err
		}
		time.Sleep(renameDelay)
	}
}

// syncFolder does nothing: folders cannot be synced on this system.
func syncFolder(string) error { return nil }
