// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// leftProcesses returns the processes of this user that earlier gateways of a file have left,
// by the variable that a gateway sets for all that it starts.
func leftProcesses(file string) []leftProcess {
	mark := []byte(source.FileID(file))
	parents := make(map[int]int) // of the marked processes
	names := make(map[int]string)
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, folder := range folders {
		id, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || id == os.Getpid() || !isMarked(folder, mark) {
			continue
		}
		name, parent, ok := statOf(folder)
		if ok {
			parents[id], names[id] = parent, name
		}
	}
	var left []leftProcess
	for id := range parents {
		top := id
		for parents[parents[top]] != 0 {
			top = parents[top]
		}
		if !isGateway(parents[top]) {
			left = append(left, leftProcess{id, names[id]})
		}
	}
	slices.SortFunc(left, func(a, b leftProcess) int { return a.id - b.id })
	return left
}

// isMarked reports whether a process has the mark of a file in its environment. That of other
// users cannot be read.
func isMarked(folder string, mark []byte) bool {
	environ, err := os.ReadFile(filepath.Join(folder, "environ"))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(source.InsideVariable+"=")); ok {
			return bytes.Contains(value, mark)
		}
	}
	return false
}

// statOf returns the name and the parent of a process that has not ended.
func statOf(folder string) (name string, parent int, ok bool) {
	text, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return "", 0, false
	}
	// The name is in parentheses, and may have some itself.
	_, after, _ := strings.Cut(string(text), "(")
	end := strings.LastIndexByte(after, ')')
	if end < 0 {
		return "", 0, false
	}
	fields := strings.Fields(after[end+1:])
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return after[:end], parent, err == nil
}

// isGateway reports whether a process runs this program, in any version.
func isGateway(id int) bool {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id))
	if err != nil {
		return false
	}
	target = strings.TrimSuffix(target, " (deleted)") // replaced by another version
	own, err := os.Readlink("/proc/self/exe")
	return filepath.Base(target) == "signalbox" || err == nil && target == own
}
