// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"sync/atomic"
)

// Run runs the schedule of a seed. It returns the transcript, and nil if no rule is broken.
// After a failure with Stuck set a goroutine is left, and the program must exit.
func Run(seed uint64) (lines []string, failure *Failure) { return runOne(newRunner(), seed, true) }

// runOne runs one schedule. With explain it shrinks the schedule if it fails.
func runOne(r *runner, seed uint64, explain bool) (lines []string, failure *Failure) {
	var (
		text transcript
		done = make(chan struct{})
	)
	go func() { // ends with the schedule; waited for as long as its steps return
		defer close(done)
		defer r.idle.Store(true)
		r.seed.Store(seed)
		r.src.Random(seed, maxSteps)
		switch broken := r.run(&text); {
		case broken == nil:
		case explain:
			failure = r.explain(seed, broken)
		default:
			failure = &Failure{Seed: seed, Rule: broken.rule, Text: broken.text, Steps: broken.step, Transcript: text.all()}
		}
	}()
	if watch([]*runner{r}, done) != nil {
		return text.all(), stuck(seed, text.all())
	}
	return text.all(), failure
}

// pool runs many schedules concurrently.
type pool struct {
	first, n uint64
	explain  bool
	next     atomic.Uint64
	failed   atomic.Bool

	mu    sync.Mutex
	total Stats
	found *Failure
}

// Many runs n schedules, those of the seeds from first, with the given number of workers.
// It stops at the first failure and, with explain, shrinks it. After a failure with Stuck
// set a goroutine is left, and the program must exit.
func Many(first, n uint64, workers int, explain bool) (Stats, *Failure) {
	runners := make([]*runner, workers)
	for i := range runners {
		runners[i] = newRunner()
	}
	c := &pool{first: first, n: n, explain: explain}
	return c.run(runners)
}

func (c *pool) run(runners []*runner) (Stats, *Failure) {
	var wg sync.WaitGroup
	for _, r := range runners {
		wg.Go(func() { c.work(r) }) // ends with the schedules, or at a failure; waited for as long as its steps return
	}
	done := make(chan struct{})
	go func() { // ends with all of them
		defer close(done)
		wg.Wait()
	}()
	if r := watch(runners, done); r != nil {
		c.failed.Store(true)
		return c.stuck(r)
	}
	return c.total, c.found
}

// work runs schedules until none is left or one has failed.
func (c *pool) work(r *runner) {
	defer r.idle.Store(true)
	for !c.failed.Load() {
		i := c.next.Add(1) - 1
		if i >= c.n {
			break
		}
		r.seed.Store(c.first + i)
		r.src.Random(c.first+i, maxSteps)
		if broken := r.run(nil); broken != nil && !c.failed.Swap(true) {
			c.record(r, i, broken)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.add(&r.stats)
}

func (c *pool) record(r *runner, i uint64, broken *violation) {
	f := &Failure{Seed: c.first + i, Rule: broken.rule, Text: broken.text, Steps: broken.step}
	if c.explain {
		f = r.explain(c.first+i, broken)
	}
	f.Nth = i
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = f
}

// stuck reports a schedule that hangs. It is run again for its transcript. If that run
// fails in another way, the hang was in a run that shrank the failure.
func (c *pool) stuck(r *runner) (Stats, *Failure) {
	seed := r.seed.Load()
	f := stuck(seed, nil)
	if c.explain {
		again := newRunner()
		again.sabotage = r.sabotage
		if _, told := runOne(again, seed, false); told != nil {
			f = told
		}
	}
	f.Nth = seed - c.first
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total, f
}
