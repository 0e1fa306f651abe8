// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxHolders bounds how many processes are named that share a port.
const maxHolders = 3

// holders names the processes that listen on the port of an address, as far as this user
// may see them. It names programs and no arguments, which may hold secrets.
func holders(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	sockets := listeners(n)
	if len(sockets) == 0 {
		return ""
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return ""
	}
	var names []string
	for _, process := range processes {
		if len(names) < maxHolders && hasOneOf(process, sockets) {
			name, _ := os.ReadFile(filepath.Join(process, "comm")) // a process that has ended has no name
			names = append(names, fmt.Sprintf("%s (%s)", filepath.Base(process), visibleLine(string(bytes.TrimSpace(name)))))
		}
	}
	return strings.Join(names, ", ")
}

// listeners returns the sockets that listen on a port, as links to them are written.
func listeners(port uint64) []string {
	// The fields of a line: the number, the local address, the remote one, the state, ...,
	// and the tenth is the inode.
	const local, state, inode, listening = 1, 3, 9, "0A"
	end := fmt.Sprintf(":%04X", port)
	var sockets []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // a system without one of the two has no such listener
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > inode && f[state] == listening && strings.HasSuffix(f[local], end) {
				sockets = append(sockets, "socket:["+f[inode]+"]")
			}
		}
	}
	return sockets
}

// hasOneOf reports whether a process has one of the sockets open.
func hasOneOf(process string, sockets []string) bool {
	files, _ := os.ReadDir(filepath.Join(process, "fd")) // another user's are not shown
	for _, f := range files {
		to, err := os.Readlink(filepath.Join(process, "fd", f.Name()))
		if err == nil && slices.Contains(sockets, to) {
			return true
		}
	}
	return false
}
