// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// maxOwners bounds how many processes are named that share a port.
const maxOwners = 3

// portOwners names the processes that listen on the port of an address, if this user can
// see them. It names the program without arguments, which may contain secrets.
func portOwners(addr string) string {
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
		if len(names) < maxOwners && hasOneOf(process, sockets) {
			name, _ := os.ReadFile(filepath.Join(process, "comm")) // empty if the process has ended
			names = append(names, fmt.Sprintf("%s (%s)", filepath.Base(process), output.VisibleLine(string(bytes.TrimSpace(name)))))
		}
	}
	return strings.Join(names, ", ")
}

// listeners returns the sockets that listen on a port, in the form of links in /proc/PID/fd.
func listeners(port uint64) []string {
	// The columns of a line: 0 is the number, 1 the local address, 2 the remote address, 3
	// the state, and 9 the inode.
	const local, state, inode, listening = 1, 3, 9, "0A"
	end := fmt.Sprintf(":%04X", port)
	var sockets []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // a system without one of the files has no such listener
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > inode && f[state] == listening && strings.HasSuffix(f[local], end) {
				sockets = append(sockets, "socket:["+f[inode]+"]")
			}
		}
	}
	return sockets
}

func hasOneOf(process string, sockets []string) bool {
	files, _ := os.ReadDir(filepath.Join(process, "fd")) // fails for other users' processes
	for _, f := range files {
		to, err := os.Readlink(filepath.Join(process, "fd", f.Name()))
		if err == nil && slices.Contains(sockets, to) {
			return true
		}
	}
	return false
}
