// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// otherUsers describes how other users of the machine may write the file with these steps.
func otherUsers(way []step) []string {
	for _, s := range way {
		if told := replaceable(s); told != "" {
			return []string{told}
		}
	}
	file := way[len(way)-1]
	if told := changeable(file.path, file.info); told != "" {
		return []string{told}
	}
	// The other name of the file may be in a folder of a backend. The links of a folder are those of its subfolders.
	if stat, ok := file.info.Sys().(*syscall.Stat_t); ok && !file.info.IsDir() && stat.Nlink > 1 && int(stat.Uid) == os.Geteuid() {
		return []string{file.path + " has a second name (a hard link)"}
	}
	return nil
}

// replaceable describes how other users may replace an entry.
func replaceable(s step) string {
	folder := filepath.Dir(s.path)
	// In a sticky folder, such as /tmp, only owners can replace an entry.
	if s.folder.Mode()&fs.ModeSticky == 0 {
		return changeable(folder, s.folder)
	}
	if told := owned(folder, s.folder); told != "" {
		return told
	}
	return owned(s.path, s.info)
}

// changeable describes how other users may change a file or folder.
func changeable(path string, info fs.FileInfo) string {
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return fmt.Sprintf("all users of this machine can write %s (mode %04o)", path, mode)
	case mode&0o020 != 0:
		return fmt.Sprintf("the group of %s can write it (mode %04o)", path, mode)
	}
	return owned(path, info)
}

// owned describes the other user that owns a file or folder. Root is ignored, as it can
// write everything.
func owned(path string, info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("%s belongs to another user (uid %d)", path, stat.Uid)
}

// privacyProblem returns why a file is not one of its user alone, and a hint, or "". The
// mode of a file of root, such as one that is mounted into a container, is not the user's to
// change.
func privacyProblem(path string, info fs.FileInfo) (problem, hint string) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ""
	}
	mode := info.Mode().Perm()
	switch {
	case int(stat.Uid) == os.Geteuid() && mode&0o077 != 0:
		return fmt.Sprintf("other users can read or write it (mode %04o)", mode), "chmod 600 " + path
	case int(stat.Uid) == os.Geteuid():
		return "", ""
	case stat.Uid != 0:
		return fmt.Sprintf("it belongs to another user (uid %d)", stat.Uid), "make it a file of the user that runs the gateway"
	case mode&0o002 != 0:
		return fmt.Sprintf("all users of this machine can write it (mode %04o)", mode), "chmod 600 " + path
	}
	return "", ""
}
