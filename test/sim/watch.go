// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"sync"
	"time"
)

// A step that never returns cannot be stopped, only observed from outside: its schedule is
// reported, and the program exits.
//
// The limit counts polls, not time, so that a suspended machine does not look like a hang.
const (
	pollInterval = 100 * time.Millisecond
	maxPolls     = 100
)

// watch waits until done is closed, and returns nil. It returns early with the first runner
// that hangs in a step.
func watch(runners []*runner, done <-chan struct{}) *runner {
	seen, looks := make([]uint64, len(runners)), make([]int, len(runners))
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-tick.C:
		}
		for i, r := range runners {
			if beat := r.heartbeat.Load(); beat != seen[i] {
				seen[i], looks[i] = beat, 0
			}
			if looks[i]++; looks[i] > maxPolls && !r.idle.Load() {
				return r
			}
		}
	}
}

// stuck returns the failure of a schedule that hangs in its last step.
func stuck(seed uint64, lines []string) *Failure {
	return &Failure{
		Seed: seed, Rule: "I28", Text: "the schedule hangs: the step after this one does not return",
		Transcript: lines, Stuck: true,
	}
}

// transcript holds the lines of a schedule. It may be read while the schedule runs.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (t *transcript) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// all returns the lines so far.
func (t *transcript) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}
