// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/sim/choice"
	"github.com/signalbox-mcp/signalbox/mcp"
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
}

// String is the report: what is broken, how it comes to that, and how to see it
// again.
func (f *Failure) String() string {
	return fmt.Sprintf("%s is broken: %s\n\n%s\n\nseed %d, found in %d steps; again:\n\n  go run ./internal/sim/... -seed %d\n",
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

	sabotage func(*world) // is called after each step; nil in all runs but those of tests
}

func newRunner() *runner { return &runner{props: newProps()} }

// run runs the schedule that the source has, and returns what it breaks.
func (r *runner) run(lines *[]string) *breach {
	w := &world{src: &r.src, now: epoch(), lines: lines, stats: &r.stats, props: r.props}
	if r.spare != nil {
		w.marks = r.spare.marks[:0]
	}
	r.spare = w
	w.marks = append(w.marks, origin{})
	w.whole(r.sabotage)
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
func (w *world) whole(sabotage func(*world)) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("I29", "panic: %v\n%s", p, debug.Stack())
		}
	}()
	w.src.Step()
	w.setUp()
	for w.broken == nil && w.src.Step() {
		w.step()
		w.invariants()
		if sabotage != nil {
			sabotage(w)
		}
	}
	for _, last := range []func(){w.settle, w.delivered, w.clear} {
		if w.broken == nil {
			last()
		}
	}
}

// mostSteps is more than any set-up asks for.
const mostSteps = 1 << 20

// Run runs the schedule of a seed. It returns nil where no rule is broken, and
// the transcript in any case.
func Run(seed uint64) (transcript []string, failure *Failure) {
	r := newRunner()
	r.src.Random(seed, mostSteps)
	broken := r.run(&transcript)
	if broken == nil {
		return transcript, nil
	}
	return transcript, r.explain(seed, broken)
}

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
	if again := r.run(&f.Transcript); again != nil {
		broken = again
	}
	f.Rule, f.Text = broken.rule, broken.text
	return f
}

// Many runs n schedules, those of the seeds from first on, with so many workers. It
// stops at the first failure that it meets, and explains it if it is to.
func Many(first, n uint64, workers int, explain bool) (Stats, *Failure) {
	var (
		total  Stats
		found  *Failure
		mu     sync.Mutex // guards total and found
		wg     sync.WaitGroup
		next   atomic.Uint64
		failed atomic.Bool
	)
	work := func() {
		r := newRunner()
		for !failed.Load() {
			i := next.Add(1) - 1
			if i >= n {
				break
			}
			r.src.Random(first+i, mostSteps)
			if broken := r.run(nil); broken != nil && !failed.Swap(true) {
				f := &Failure{Seed: first + i, Rule: broken.rule, Text: broken.text, Steps: broken.step}
				if explain {
					f = r.explain(first+i, broken)
				}
				f.Nth = i
				mu.Lock()
				found = f
				mu.Unlock()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		total.add(&r.stats)
	}
	for range workers {
		wg.Go(work) // ends with the schedules, or at a failure; waited for below
	}
	wg.Wait()
	return total, found
}
