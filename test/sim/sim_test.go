// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is how many schedules the unit tests run; the Makefile runs many more.
const quick = 300

// C5- 2026-07-28 basic/patterns/cancellation: "Both parties MUST handle these race
// conditions gracefully"
func TestSchedulesGoWell(t *testing.T) {
	stats, failure := sim.Many(1, quick, 2, true)
	if failure != nil {
		t.Fatal(failure)
	}
	if stats.Schedules != quick || stats.Steps < 100*quick || stats.Messages < 10*quick {
		t.Errorf("too little happens:\n%s", &stats)
	}
}

// Every fault that there is must happen, or a rule is not put to the test.
func TestFaultsHappen(t *testing.T) {
	stats, failure := sim.Many(1_000_000, quick, 2, true)
	if failure != nil {
		t.Fatal(failure)
	}
	for f := range sim.FaultKinds {
		if stats.Faults[f] == 0 && f != sim.OldCursor { // which takes a few thousand schedules
			t.Errorf("in %d schedules there was no %s", quick, f)
		}
	}
	for what, n := range map[string]uint64{
		"stream resumed": stats.Resumes, "stream given up": stats.Gones, "message given up": stats.Purged,
		"request parked": stats.Parkings, "parked request claimed": stats.Claims,
		"session evicted": stats.Evictions, "question taken back": stats.Withdrawn,
	} {
		if n < quick/20 {
			t.Errorf("in %d schedules, %d times a %s", quick, n, what)
		}
	}
	for what, n := range map[string]uint64{
		"parked request asked for at another replica": stats.Misled, "state of a backend taken by another replica": stats.HandedOn,
	} {
		if n < quick/60 { // every other schedule has one replica, and few clients are modern
			t.Errorf("in %d schedules, %d times a %s", quick, n, what)
		}
	}
}

func TestASeedIsItsTranscript(t *testing.T) {
	first, failure := sim.Run(7)
	if failure != nil {
		t.Fatal(failure)
	}
	second, _ := sim.Run(7)
	if a, b := strings.Join(first, "\n"), strings.Join(second, "\n"); a != b || a == "" {
		t.Errorf("seed 7 gave\n%s\nand then\n%s", a, b)
	}
}

// Schedules that the model once judged wrongly. As long as the choices are as they
// were, each is the one that showed it.
func TestModelWasWrong(t *testing.T) {
	for seed, what := range map[uint64]string{
		277_372: "a log message finds room where an older message was given up in the same step",
	} {
		if _, failure := sim.Run(seed); failure != nil {
			t.Errorf("%s: %v", what, failure)
		}
	}
}
