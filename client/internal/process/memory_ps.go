// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// psMemory measures process groups with the command ps, for systems without /proc (POSIX.1-2024,
// ps). The zero value is ready.
type psMemory struct {
	mu     sync.Mutex
	at     time.Time
	groups map[int]int64
}

const (
	// psFor is for how long a measurement is used again: it starts a process.
	psFor = time.Second

	// psTime bounds a measurement.
	psTime = 2 * time.Second
)

// measure returns the resident memory of each process group, in bytes; nothing if ps fails.
func (m *psMemory) measure() map[int]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups != nil && time.Since(m.at) < psFor {
		return m.groups
	}
	ctx, cancel := context.WithTimeout(context.Background(), psTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/ps", "-A", "-o", "pgid=", "-o", "rss=")
	cmd.Env = []string{} // the format of numbers does not depend on the language
	out, err := cmd.Output()
	if err != nil {
		out = nil
	}
	m.groups, m.at = parsePS(string(out)), time.Now()
	return m.groups
}

// parsePS parses lines of a process group and a number of KiB.
func parsePS(out string) map[int]int64 {
	groups := make(map[int]int64)
	for line := range strings.Lines(out) {
		var group int
		var kib int64
		if n, err := fmt.Sscan(line, &group, &kib); n == 2 && err == nil {
			groups[group] += kib << 10
		}
	}
	return groups
}
