// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// stat is what the system knows of a process.
type stat struct {
	pid, parent, group int
	name               string
	began              int64 // ticks after the start of the system
	pages              int64 // resident
	ended              bool  // and its parent has not waited for it
}

// allStats calls yield for each process, until it returns false.
func allStats(yield func(stat) bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		if name := e.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if s, ok := parseStat(raw); ok && !yield(s) {
			return
		}
	}
}

// parseStat parses the file /proc/pid/stat (proc(5)). The second field is a name in
// parentheses, which may contain spaces and parentheses.
func parseStat(raw []byte) (stat, bool) {
	const parent, group, began, pages, known = 4 - 3, 5 - 3, 22 - 3, 24 - 3, 25 - 3 // counted from the one after the name
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return stat{}, false
	}
	fields := bytes.Fields(raw[end+1:])
	if len(fields) < known {
		return stat{}, false
	}
	valid := true
	number := func(text []byte) int64 {
		n, err := strconv.ParseInt(string(text), 10, 64)
		valid = valid && err == nil
		return n
	}
	return stat{
		pid: int(number(bytes.TrimSpace(raw[:open]))), parent: int(number(fields[parent])), group: int(number(fields[group])),
		ended: fields[0][0] == 'Z' || fields[0][0] == 'X', name: string(raw[open+1 : end]), began: number(fields[began]), pages: number(fields[pages]),
	}, valid
}
