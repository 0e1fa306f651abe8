// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"slices"
	"time"
)

// tick is the unit of times of the system, which it has for all programs (USER_HZ).
const tick = 10 * time.Millisecond

// programBegan returns how long after its own start the leader of a group started a program:
// its first process that is no shell, or the first of that shell. It returns zero without
// one.
func programBegan(leader int) time.Duration {
	var group []stat
	for s := range allStats {
		if s.group == leader {
			group = append(group, s)
		}
	}
	slices.SortFunc(group, func(a, b stat) int { return cmp.Compare(a.began, b.began) })
	first := func(parent int) int { return slices.IndexFunc(group, func(s stat) bool { return s.parent == parent }) }
	begun := slices.IndexFunc(group, func(s stat) bool { return s.pid == leader })
	program := first(leader)
	if begun < 0 || program < 0 {
		return 0
	}
	for isShell(group[program].name) {
		next := first(group[program].pid)
		if next < 0 {
			break
		}
		program = next
	}
	return time.Duration(group[program].began-group[begun].began) * tick
}
