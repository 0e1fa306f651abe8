// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package choice makes and records the decisions of a simulation, so that a failed run can
// be repeated and shrunk.
//
// A run is a sequence of steps, and each makes a few choices. A [Schedule] records the
// choices per step, so that one step can be removed without changing the choices of those
// after it.
package choice

// Schedule holds the choices of a run, step by step.
type Schedule [][]uint32

// Source makes choices: at random from a seed, or replayed from a schedule. It belongs to
// one goroutine. The zero value has no steps.
type Source struct {
	state  uint64
	most   int      // limit on the steps of a random run
	replay Schedule // nil in a random run
	again  bool
	left   []uint32 // choices of the replayed step
	steps  int
	flat   []uint32 // all choices
	begins []int    // the index in flat of each step
}

// Random starts a random run with that many steps. It reuses the memory of the previous
// run.
func (s *Source) Random(seed uint64, steps int) {
	*s = Source{state: mix(seed), most: steps, flat: s.flat[:0], begins: s.begins[:0]}
}

// Again starts a run that replays a schedule. A choice that the schedule lacks, because it
// was shrunk, is 0.
func (s *Source) Again(of Schedule) {
	*s = Source{replay: of, again: true, most: len(of), flat: s.flat[:0], begins: s.begins[:0]}
}

// Limit sets how many steps a random run has. A replay has the steps of its schedule.
func (s *Source) Limit(steps int) {
	if !s.again {
		s.most = steps
	}
}

// Step begins the next step. It reports false at the end of the run.
func (s *Source) Step() bool {
	if s.steps >= s.most {
		return false
	}
	if s.again {
		s.left = s.replay[s.steps]
	}
	s.steps++
	s.begins = append(s.begins, len(s.flat))
	return true
}

// Steps returns how many steps have begun.
func (s *Source) Steps() int { return s.steps }

// Intn chooses a number from 0 to n-1. By convention 0 is the simplest choice, towards
// which schedules shrink.
func (s *Source) Intn(n int) int {
	if n <= 1 {
		return 0
	}
	v := s.next() % uint32(n)
	s.flat = append(s.flat, v)
	return int(v)
}

// OneIn chooses true in one of n cases. The simplest choice is false.
func (s *Source) OneIn(n int) bool { return s.Intn(n) == n-1 && n > 1 }

func (s *Source) next() uint32 {
	if !s.again {
		s.state += golden
		return uint32(mix(s.state) >> 32)
	}
	if len(s.left) == 0 {
		return 0
	}
	v := s.left[0]
	s.left = s.left[1:]
	return v
}

// golden is the step of the SplitMix64 generator (Steele, Lea and Flood, 2014).
const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Schedule returns the choices so far.
func (s *Source) Schedule() Schedule {
	out := make(Schedule, len(s.begins))
	for i, from := range s.begins {
		to := len(s.flat)
		if i+1 < len(s.begins) {
			to = s.begins[i+1]
		}
		out[i] = append([]uint32(nil), s.flat[from:to]...)
	}
	return out
}
