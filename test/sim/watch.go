// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"sync"
	"time"
)

// A machine that never returns cannot be stopped, only seen from outside: its
// schedule is reported, and the program ends.
//
// What is counted is looks, and not time. On a computer that stands still for a
// while nobody looks either.
const (
	lookEvery = 100 * time.Millisecond
	mostLooks = 100
)

// watch waits until all is done. It returns the first runner whose step does not
// come back, and nil where there was none.
func watch(runners []*runner, done <-chan struct{}) *runner {
	seen, looks := make([]uint64, len(runners)), make([]int, len(runners))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-tick.C:
		}
		for i, r := range runners {
			if beat := r.beat.Load(); beat != seen[i] {
				seen[i], looks[i] = beat, 0
			}
			if looks[i]++; looks[i] > mostLooks && !r.idle.Load() {
				return r
			}
		}
	}
}

// stuck is the failure of a schedule whose last step does not come back.
func stuck(seed uint64, lines []string) *Failure {
	return &Failure{
		Seed: seed, Rule: "I28", Text: "it does not come to rest: the step behind this does not come back",
		Transcript: lines, Stuck: true,
	}
}

// transcript is what a schedule says of itself. It is read while that still runs
// where a step does not come back.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (t *transcript) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// all returns the lines until now.
func (t *transcript) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}
