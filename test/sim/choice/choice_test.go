// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package choice_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// draw makes the choices of a run with the given bounds for each step.
func draw(s *choice.Source, bounds ...int) []int {
	var got []int
	for s.Step() {
		for _, n := range bounds {
			got = append(got, s.Intn(n))
		}
	}
	return got
}

func TestSeedDeterminesChoices(t *testing.T) {
	var a, b choice.Source
	a.Random(7, 50)
	b.Random(7, 50)
	first := draw(&a, 3, 1000, 2)
	if diff := cmp.Diff(draw(&b, 3, 1000, 2), first); diff != "" {
		t.Errorf("the same seed chose otherwise (-got +want):\n%s", diff)
	}
	b.Random(8, 50)
	if cmp.Equal(draw(&b, 3, 1000, 2), first) {
		t.Error("another seed chose the same")
	}
}

func TestChoicesStayWithinTheirBounds(t *testing.T) {
	var s choice.Source
	s.Random(1, 2000)
	seen := [5]int{}
	for s.Step() {
		seen[s.Intn(5)]++
		if v := s.Intn(1); v != 0 {
			t.Fatalf("Intn(1) = %d", v)
		}
	}
	for v, n := range seen {
		if n < 250 {
			t.Errorf("%d was chosen %d times of 2000 in five", v, n)
		}
	}
}

func TestAgainRepeatsSchedule(t *testing.T) {
	var s choice.Source
	s.Random(7, 9)
	want := draw(&s, 3, 1000)
	schedule := s.Schedule()
	s.Again(schedule)
	if diff := cmp.Diff(draw(&s, 3, 1000), want); diff != "" {
		t.Errorf("repeated (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(s.Schedule(), schedule); diff != "" {
		t.Errorf("the schedule of a repetition (-got +want):\n%s", diff)
	}
}

func TestMissingChoicesAreZero(t *testing.T) {
	var s choice.Source
	s.Again(choice.Schedule{{2}, {}, {7, 9}})
	s.Limit(100) // of random runs only
	if diff := cmp.Diff(draw(&s, 5, 5), []int{2, 0, 0, 0, 2, 4}); diff != "" {
		t.Errorf("choices (-got +want):\n%s", diff)
	}
	if s.Steps() != 3 {
		t.Errorf("%d steps, want 3", s.Steps())
	}
}

func TestLimitEndsARandomRun(t *testing.T) {
	var s choice.Source
	s.Random(1, 1)
	s.Step()
	s.Limit(3)
	for s.Step() {
		s.OneIn(2)
	}
	if s.Steps() != 3 {
		t.Errorf("%d steps, want 3", s.Steps())
	}
}

// A failure that needs two steps, in order, and one choice of at least 5 in the second
// shrinks to exactly that.
func TestShrinkFindsWhatMatters(t *testing.T) {
	fails := func(s choice.Schedule) bool {
		var r choice.Source
		r.Again(s)
		r.Step()
		state := 0
		for r.Step() {
			switch op, arg := r.Intn(10), r.Intn(100); {
			case op == 3:
				state = 1
			case op == 4 && arg >= 5 && state == 1:
				return true
			}
		}
		return false
	}
	found := 0
	for seed := range uint64(50) {
		var s choice.Source
		s.Random(seed, 200)
		for s.Step() {
			s.Intn(10)
			s.Intn(100)
		}
		if !fails(s.Schedule()) {
			continue
		}
		found++
		got := choice.Shrink(s.Schedule(), 5000, fails)
		if diff := cmp.Diff(got, choice.Schedule{nil, {3}, {4, 5}}, cmp.Transformer("trim", trim)); diff != "" {
			t.Errorf("seed %d, smallest (-got +want):\n%s", seed, diff)
		}
	}
	if found < 40 {
		t.Errorf("only %d of 50 seeds fail", found)
	}
}

// trim drops trailing zeros of a step, which have no effect.
func trim(step []uint32) []uint32 {
	for len(step) > 0 && step[len(step)-1] == 0 {
		step = step[:len(step)-1]
	}
	if len(step) == 0 {
		return []uint32{}
	}
	return slices.Clip(step)
}

func TestShrinkStopsInTime(t *testing.T) {
	var s choice.Source
	s.Random(1, 500)
	draw(&s, 100, 100)
	tried := 0
	choice.Shrink(s.Schedule(), 20, func(choice.Schedule) bool { tried++; return false })
	if tried != 20 {
		t.Errorf("%d tries, want 20", tried)
	}
}
