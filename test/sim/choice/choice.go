// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package choice makes the decisions of a simulation, and remembers them, so that
// a run that failed can be repeated and made smaller.
//
// A run is a sequence of steps, and each step makes a few choices. The whole of
// them is the [Schedule]. It is kept in steps, so that one can be left out
// without another meaning for the choices of all that follow.
package choice

// Schedule is what was chosen, step by step.
type Schedule [][]uint32

// Source makes choices: at random from a seed, or again as a schedule has them.
// It belongs to one goroutine. The zero value has no steps.
type Source struct {
	state  uint64
	most   int      // steps of a random run
	replay Schedule // nil in a random run
	again  bool
	left   []uint32 // of the step that is repeated
	steps  int
	flat   []uint32 // what was chosen
	begins []int    // where in flat each step begins
}

// Random starts a run of so many steps, whose choices the seed decides. The room of
// an earlier run is used again.
func (s *Source) Random(seed uint64, steps int) {
	*s = Source{state: mix(seed), most: steps, flat: s.flat[:0], begins: s.begins[:0]}
}

// Again starts a run that chooses as the schedule has it. Where that has nothing,
// because it was made smaller, the choice is 0.
func (s *Source) Again(of Schedule) {
	*s = Source{replay: of, again: true, most: len(of), flat: s.flat[:0], begins: s.begins[:0]}
}

// Limit sets how many steps a random run has. One that is repeated has the steps
// of its schedule.
func (s *Source) Limit(steps int) {
	if !s.again {
		s.most = steps
	}
}

// Step begins the next step. It reports false when there is none.
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

// Intn chooses a number from 0 to n-1. By convention 0 is the plainest choice:
// what is made smaller tends towards it.
func (s *Source) Intn(n int) int {
	if n <= 1 {
		return 0
	}
	v := s.next() % uint32(n)
	s.flat = append(s.flat, v)
	return int(v)
}

// OneIn chooses yes once in n times. The plain choice is no.
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

// Schedule returns what was chosen until now.
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
