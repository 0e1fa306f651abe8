// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// readAtMost reads up to most+1 bytes of a file.
//
// A pipe can be read, because a shell can substitute one for a configuration. It is opened
// without blocking, as otherwise opening waits for a writer.
func readAtMost(path string, most int64) ([]byte, error) {
	flag := os.O_RDONLY
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		flag |= syscall.O_NONBLOCK
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// One more byte shows the caller that the file is larger.
	return io.ReadAll(io.LimitReader(file, most+1))
}

// checkAppendable reports why a file cannot be appended to, as far as this is known without
// opening it, or "".
func checkAppendable(path string) (problem, hint string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Sprintf("%s is a folder", path), "write the path of a file in it"
	}
	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case err != nil:
		return "the folder of the record cannot be read: " + err.Error(), "create it first"
	case !info.IsDir():
		return fmt.Sprintf("%s is not a folder", folder), ""
	}
	return "", ""
}
