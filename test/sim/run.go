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

// Stats says what schedules were about.
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

// add adds what another worker has done.
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

// String is a table: how much a schedule is, and which faults there were.
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
		{s.Gones, "streams given up before their clients came back"},
		{s.Purged, "messages given up for want of room"},
		{s.Parkings, "requests parked"},
		{s.Claims, "parked requests claimed"},
		{s.Evictions, "sessions that gave way to others"},
		{s.Asked, "questions asked"},
		{s.Withdrawn, "questions taken back from clients that had them"},
		{s.Misled, "parked requests asked for at another replica"},
		{s.HandedOn, "states of backends taken by another replica"},
	} {
		fmt.Fprintf(&b, "%12d  %s\n", of.n, of.what)
	}
	for f := range FaultKinds {
		fmt.Fprintf(&b, "%12d  %s\n", s.Faults[f], f)
	}
	return b.String()
}

// Failure is a schedule in which a rule was broken.
type Failure struct {
	Seed       uint64
	Nth        uint64 // how many schedules had gone well
	Rule, Text string
	Steps      int      // of the schedule as it was found
	Transcript []string // of the smallest that breaks the same rule
	Stuck      bool     // a step never came back: the transcript is of the schedule as it was found
}

// String is the report: what is broken, how it comes to that, and how to see it
// again.
func (f *Failure) String() string {
	return fmt.Sprintf("%s is broken: %s\n\n%s\n\nseed %d, found in %d steps; again:\n\n  go run ./test/sim/... -seed %d\n",
		f.Rule, f.Text, strings.Join(f.Transcript, "\n"), f.Seed, f.Steps, f.Seed)
}

// props are what all schedules of a worker share, and none changes.
type props struct {
	padding []byte
	uris    [len(keys)]mcp.Object
	tasks   [len(keys)]mcp.Object
}

func newProps() *props {
	p := &props{padding: padding()}
	for i, key := range keys {
		p.uris[i], _ = mcp.ParseObject([]byte(`{"uri":` + strconv.Quote(key) + `}`))
		p.tasks[i], _ = mcp.ParseObject([]byte(`{"taskId":` + strconv.Quote(key) + `}`))
	}
	return p
}

// runner runs one schedule after the other.
type runner struct {
	src   choice.Source
	props *props
	stats Stats
	spare *world

	seed atomic.Uint64 // of the schedule that runs
	beat atomic.Uint64 // moves with each step: a watch sees by it that they come back
	idle atomic.Bool   // there is nothing more to run

	sabotage func(*world) // is called after each step; nil in all runs but those of tests
}

func newRunner() *runner { return &runner{props: newProps()} }

// run runs the schedule that the source has, and returns what it breaks.
func (r *runner) run(lines *transcript) *breach {
	r.beat.Add(1)
	w := &world{src: &r.src, now: epoch(), lines: lines, stats: &r.stats, props: r.props, beat: &r.beat, sabotage: r.sabotage}
	if r.spare != nil {
		w.marks = r.spare.marks[:0]
	}
	r.spare = w
	w.marks = append(w.marks, origin{})
	w.whole()
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
	return w.broken
}

// whole is a run from its beginning to its end. A machine that panics has broken
// a rule too.
func (w *world) whole() {
	defer func() {
		if p := recover(); p != nil {
			w.fail("I29", "panic: %v\n%s", p, debug.Stack())
		}
	}()
	w.src.Step()
	w.setUp()
	for w.broken == nil && w.src.Step() {
		w.step()
		w.hold()
	}
	for _, last := range []func(){w.settle, w.delivered, w.clear} {
		if w.broken == nil {
			last()
		}
	}
}

// mostSteps is more than any set-up asks for.
const mostSteps = 1 << 20

// shrinkTries bounds the work on making a failure small.
const shrinkTries = 20_000

// explain makes the schedule that has just failed smaller.
func (r *runner) explain(seed uint64, broken *breach) *Failure {
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
