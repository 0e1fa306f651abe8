// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package choice

import "slices"

// Shrink searches for a smaller schedule that still fails, with at most most tries. It
// removes steps, many at a time at first (Zeller and Hildebrandt, 2002), and then
// simplifies single choices. It keeps the first step, which sets up the run.
func Shrink(s Schedule, most int, fails func(Schedule) bool) Schedule {
	k := &shrinker{best: s, left: most, fails: fails}
	for size := -1; size != k.size() && k.left > 0; {
		size = k.size()
		k.steps()
		k.choices()
	}
	return k.best
}

type shrinker struct {
	best  Schedule
	left  int
	fails func(Schedule) bool
}

// size decreases with every simplification of a schedule.
func (k *shrinker) size() int {
	n := 0
	for _, step := range k.best {
		n += 1 << 16
		for _, v := range step {
			n += 1 + int(v)
		}
	}
	return n
}

func (k *shrinker) try(s Schedule) bool {
	if k.left <= 0 {
		return false
	}
	k.left--
	if !k.fails(s) {
		return false
	}
	k.best = s
	return true
}

// steps removes sequences of steps, from the end to the beginning.
func (k *shrinker) steps() {
	for n := max(1, (len(k.best)-1)/2); n >= 1; n /= 2 {
		for at := len(k.best) - n; at >= 1; at -= n {
			if at+n <= len(k.best) {
				k.try(slices.Concat(k.best[:at], k.best[at+n:]))
			}
		}
	}
}

// choices simplifies each step as a whole, or else each of its choices.
func (k *shrinker) choices() {
	for i := range slices.Backward(k.best) {
		if len(k.best[i]) == 0 || k.try(k.with(i, nil)) {
			continue
		}
		for j := len(k.best[i]) - 1; j >= 0 && j < len(k.best[i]); j-- {
			k.plainer(i, j)
		}
	}
}

func (k *shrinker) plainer(i, j int) {
	for _, v := range []uint32{0, k.best[i][j] / 2, k.best[i][j] - 1} {
		if k.best[i][j] == 0 {
			return
		}
		step := slices.Clone(k.best[i])
		step[j] = v
		if k.try(k.with(i, step)) {
			return
		}
	}
}

func (k *shrinker) with(i int, step []uint32) Schedule {
	s := slices.Clone(k.best)
	s[i] = step
	return s
}
