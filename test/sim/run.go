// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// Stats counts what happened in schedules.
type Stats struct {
	Schedules uint64
	Steps     uint64
	Messages  uint64
	Requests  uint64
	Sessions  uint64
	Resumes   uint64
	Gones     uint64
	Parkings  uint64
	Claims    uint64
	Evictions uint64
	Asked     uint64
	Withdrawn uint64
	Purged    uint64
	Misled    uint64
	HandedOn  uint64
	Faults    [FaultKinds]uint64
}

// add adds the counts of another worker.
func (s *Stats) add(o *Stats) {
	s.Schedules += o.Schedules
	s.Steps += o.Steps
	s.Messages += o.Messages
	s.Requests += o.Requests
	s.Sessions += o.Sessions
	s.Resumes += o.Resumes
	s.Gones += o.Gones
	s.Parkings += o.Parkings
	s.Claims += o.Claims
	s.Evictions += o.Evictions
	s.Asked += o.Asked
	s.Withdrawn += o.Withdrawn
	s.Purged += o.Purged
	s.Misled += o.Misled
	s.HandedOn += o.HandedOn
	for i, n := range o.Faults {
		s.Faults[i] += n
	}
}

// String returns a table of averages per schedule, and of the faults.
func (s *Stats) String() string {
	var b strings.Builder
	per := func(n uint64) float64 { return float64(n) / float64(max(s.Schedules, 1)) }
	fmt.Fprintf(&b, "%d schedules; in each, on average: %.0f steps, %.1f sessions, %.1f requests, %.0f messages\n",
		s.Schedules, per(s.Steps), per(s.Sessions), per(s.Requests), per(s.Messages))
	for _, of := range []struct {
		n    uint64
		what string
	}{
		{s.Resumes, "streams resumed"},
		{s.Gones, "streams dropped before their clients resumed"},
		{s.Purged, "messages dropped to stay within a limit"},
		{s.Parkings, "requests parked"},
		{s.Claims, "parked requests resumed"},
		{s.Evictions, "sessions evicted for others"},
		{s.Asked, "questions asked"},
		{s.Withdrawn, "questions withdrawn from clients that had them"},
		{s.Misled, "parked requests retried at another replica"},
		{s.HandedOn, "states of backends accepted by another replica"},
	} {
		fmt.Fprintf(&b, "%12d  %s\n", of.n, of.what)
	}
	for f := range FaultKinds {
		fmt.Fprintf(&b, "%12d  %s\n", s.Faults[f], f)
	}
	return b.String()
}

// Failure is a schedule that broke a rule.
type Failure struct {
	Seed       uint64
	Nth        uint64 // schedules that passed before it
	Rule, Text string
	Steps      int      // of the schedule as it was found
	Transcript []string // of the smallest schedule that breaks the same rule
	Stuck      bool     // a step never returned: the transcript is of the schedule as it was found
}

// String returns the report: the broken rule, the transcript, and the command that repeats
// it.
func (f *Failure) String() string {
	return fmt.Sprintf("%s is broken: %s\n\n%s\n\nseed %d, found in %d steps; again:\n\n  go run ./test/sim/... -seed %d\n",
		f.Rule, f.Text, strings.Join(f.Transcript, "\n"), f.Seed, f.Steps, f.Seed)
}

// fixtures are constants that all schedules of a worker share.
type fixtures struct {
	padding []byte
	uris    [len(keys)]mcp.Object
	tasks   [len(keys)]mcp.Object
}

func newFixtures() *fixtures {
	p := &fixtures{padding: padding()}
	for i, key := range keys {
		p.uris[i], _ = mcp.ParseObject([]byte(`{"uri":` + strconv.Quote(key) + `}`))
		p.tasks[i], _ = mcp.ParseObject([]byte(`{"taskId":` + strconv.Quote(key) + `}`))
	}
	return p
}

// runner runs schedules, one after the other.
type runner struct {
	src      choice.Source
	fixtures *fixtures
	stats    Stats
	spare    *world

	seed      atomic.Uint64 // of the current schedule
	heartbeat atomic.Uint64 // incremented with each step, for watch
	idle      atomic.Bool   // no schedule is left

	sabotage func(*world) // called after each step; nil except in tests
}

func newRunner() *runner { return &runner{fixtures: newFixtures()} }

// run runs the schedule of the source, and returns the rule that it breaks, or nil.
func (r *runner) run(lines *transcript) *violation {
	r.heartbeat.Add(1)
	w := &world{src: &r.src, now: epoch(), lines: lines, stats: &r.stats, fixtures: r.fixtures, heartbeat: &r.heartbeat, sabotage: r.sabotage}
	if r.spare != nil {
		w.marks = r.spare.marks[:0]
	}
	r.spare = w
	w.marks = append(w.marks, origin{})
	w.runSchedule()
	r.stats.Schedules++
	r.stats.Steps += uint64(r.src.Steps())
	r.stats.Messages += uint64(len(w.marks))
	r.stats.Requests += uint64(len(w.requests) + w.before.requests)
	r.stats.Sessions += uint64(w.nextSess)
	r.stats.Resumes += w.resumes
	r.stats.Gones += w.gones
	r.stats.Parkings += w.parkings
	r.stats.Claims += w.claims
	r.stats.Evictions += w.evictions
	r.stats.Asked += w.asked
	r.stats.Withdrawn += w.withdrawn
	r.stats.Purged += w.counts.Purged.Load()
	return w.violation
}

// runSchedule performs a run from beginning to end. A panic counts as a broken rule.
func (w *world) runSchedule() {
	defer func() {
		if p := recover(); p != nil {
			w.fail("I29", "panic: %v\n%s", p, debug.Stack())
		}
	}()
	w.src.Step()
	w.setUp()
	for w.violation == nil && w.src.Step() {
		w.step()
		w.afterStep()
	}
	for _, last := range []func(){w.quiesce, w.checkDelivered, w.tearDown} {
		if w.violation == nil {
			last()
		}
	}
}

// maxSteps is more than any setup uses.
const maxSteps = 1 << 20

// shrinkTries limits the work of shrinking a failure.
const shrinkTries = 20_000

// explain shrinks the schedule that has just failed.
func (r *runner) explain(seed uint64, broken *violation) *Failure {
	f := &Failure{Seed: seed, Steps: r.src.Steps()}
	small := choice.Shrink(r.src.Schedule(), shrinkTries, func(s choice.Schedule) bool {
		r.src.Again(s)
		again := r.run(nil)
		return again != nil && again.rule == broken.rule
	})
	r.src.Again(small)
	var lines transcript
	if again := r.run(&lines); again != nil {
		broken = again
	}
	f.Transcript = lines.all()
	f.Rule, f.Text = broken.rule, broken.text
	return f
}
