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

// readAtMost reads a file, and one byte more than most of a larger one.
//
// A pipe is read, because a shell can make a config that is one, and never waited
// for: to open one that nobody writes to would last until somebody does.
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
	// One more, by which the caller sees that there is more without reading it.
	return io.ReadAll(io.LimitReader(file, most+1))
}

// whyNoRecord says why a file cannot be appended to, as far as that can be told
// without doing it, or "".
func whyNoRecord(path string) (problem, hint string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Sprintf("%s is a folder", path), "write the path of a file in it"
	}
	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case err != nil:
		return "the folder of the record is not there: " + err.Error(), "make it first"
	case !info.IsDir():
		return fmt.Sprintf("%s is no folder", folder), ""
	}
	return "", ""
}
