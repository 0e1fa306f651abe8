// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// MeasuresMemory reports whether GroupMemory works on this system.
const MeasuresMemory = true

// GroupMemory returns the resident memory of each process group, in bytes. Memory that
// processes share is counted in each of them.
func GroupMemory() map[int]int64 {
	groups := make(map[int]int64)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return groups
	}
	page := int64(os.Getpagesize())
	for _, e := range entries {
		if name := e.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if group, pages, ok := parseStat(raw); ok {
			groups[group] += pages * page
		}
	}
	return groups
}

// parseStat returns the process group and the resident pages of a process (proc(5),
// /proc/pid/stat). The second field is a name in parentheses, which may contain spaces
// and parentheses.
func parseStat(raw []byte) (group int, pages int64, ok bool) {
	const groupField, pagesField = 5 - 3, 24 - 3 // counted from the one after the name
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= pagesField {
		return 0, 0, false
	}
	group, err := strconv.Atoi(string(fields[groupField]))
	pages, perr := strconv.ParseInt(string(fields[pagesField]), 10, 64)
	return group, pages, err == nil && perr == nil
}
