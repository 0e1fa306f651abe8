// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// entrant takes part in rounds: who is called, and by whom.
type entrant struct {
	name    string
	process *proc.Process // whose use is counted; nil for nobody's
	callers []load.Caller
	close   func()
}

// newEntrant makes an entrant of clients that open makes, given their numbers.
func newEntrant(ctx context.Context, name string, p *proc.Process, open func(i int) (*load.Client, error)) (*entrant, error) {
	e := &entrant{name: name, process: p}
	var made []*load.Client
	e.close = func() {
		for _, c := range made {
			c.Close(context.WithoutCancel(ctx))
		}
	}
	for i := range clients {
		c, err := open(i)
		if err != nil {
			e.close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		made = append(made, c)
		e.callers = append(e.callers, c)
	}
	return e, nil
}

// sample is what one round gave of one entrant.
type sample struct {
	rate          float64     // calls in a second, of all clients
	counted       bool        // that there is a process; without one there is no CPU and no memory
	cpu           float64     // CPU seconds of the process for 1000 calls
	times         load.Result // of one client alone, or of all where none was
	alone         bool
	allocs, bytes float64 // allocated for a call
	peak          float64 // most memory that was resident, MiB
	progress      float64 // notifications for a call
	errors        float64
	first         error // the first of them
}

// at is the time, in microseconds, that a share of the calls took at most.
func (s sample) at(q float64) float64 { return float64(s.times.Quantile(q).Nanoseconds()) / 1e3 }

// amount is how much is measured: so many calls of all clients, for what a call costs,
// and of one client alone, for how long it takes.
type amount struct{ many, one int }

// over is what each of n rounds has of it.
func (a amount) over(n int) amount {
	part := amount{many: max(clients, a.many/n)}
	if a.one > 0 {
		part.one = max(1, a.one/n)
	}
	return part
}

// field is what is measured in turns: it starts processes in a rig, and makes the
// entrants that call them.
type field func(ctx context.Context, g *rig) ([]*entrant, error)

// perStart is how many rounds are measured with each start. What a machine does besides
// comes and goes within seconds: what is compared has to be neighbours in time.
const perStart = 6

// measure measures a field so often, each time with processes that are started for it,
// and each time so much. Where a process happens to get its memory makes its calls cheaper
// or dearer for as long as it lives; rounds with the same ones would all find the same,
// and tell it as if it were the program's.
func (b *bench) measure(ctx context.Context, open field, starts int, a amount) (map[string][]sample, error) {
	samples := make(map[string][]sample)
	for i := range starts {
		err := b.start(ctx, open, func(entrants []*entrant) error { return rounds(ctx, entrants, i, a, samples) })
		if err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// start opens a field, and ends all that it has when use returns.
func (b *bench) start(ctx context.Context, open field, use func([]*entrant) error) (err error) {
	g, err := newRig(b.program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	entrants, err := open(ctx, g)
	defer leave(entrants)
	if err != nil {
		return err
	}
	return use(entrants)
}

// rounds measures entrants in turns, so much in all rounds, and adds to the samples. The
// first of a round is another each time, and so is that of each start.
func rounds(ctx context.Context, entrants []*entrant, start int, a amount, samples map[string][]sample) error {
	for _, e := range entrants {
		if r := load.Run(ctx, e.callers, a.many/5+len(e.callers)); r.Errors > 0 {
			return fmt.Errorf("%s: %d of the first %d calls: %w", e.name, r.Errors, r.Errors+r.Calls, r.First)
		}
	}
	for i := range perStart {
		for j := range entrants {
			e := entrants[(start+i+j)%len(entrants)]
			s, err := e.measure(ctx, a.over(perStart))
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			samples[e.name] = append(samples[e.name], s)
		}
	}
	return ctx.Err()
}

// measure is one round of one entrant.
func (e *entrant) measure(ctx context.Context, a amount) (sample, error) {
	before, err := e.before(ctx)
	if err != nil {
		return sample{}, err
	}
	many := load.Run(ctx, e.callers, a.many)
	after, err := e.after(ctx)
	if err != nil {
		return sample{}, err
	}
	one := many
	if a.one > 0 {
		one = load.Run(ctx, e.callers[:1], a.one)
	}
	if many.Calls == 0 || one.Calls == 0 {
		return sample{}, firstOf(many.First, one.First, ctx.Err())
	}
	calls := float64(many.Calls)
	return sample{
		rate:     many.PerSecond(),
		counted:  e.process != nil,
		cpu:      (after.CPU - before.CPU).Seconds() * 1000 / calls,
		times:    one,
		alone:    a.one > 0,
		allocs:   (after.Mallocs - before.Mallocs) / calls,
		bytes:    (after.Bytes - before.Bytes) / calls,
		peak:     float64(after.Peak) / (1 << 20),
		progress: float64(many.Progress) / calls,
		errors:   float64(many.Errors + one.Errors),
		first:    firstOf(many.First, one.First),
	}, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// reading is what a process has used and allocated so far.
type reading struct {
	proc.Usage
	proc.Runtime
}

// before reads what the process has used before a run, and begins its peak anew. What it
// costs to ask the process itself is taken off what it allocates in the run: it is asked
// twice, and the second time tells the cost of the first.
func (e *entrant) before(ctx context.Context) (reading, error) {
	var r reading
	if e.process == nil {
		return r, nil
	}
	once, err := e.ask(ctx)
	if err != nil {
		return r, err
	}
	if r.Runtime, err = e.ask(ctx); err != nil {
		return r, err
	}
	r.Mallocs += r.Mallocs - once.Mallocs
	r.Bytes += r.Bytes - once.Bytes
	if err := e.process.ResetPeak(); err != nil {
		return r, err
	}
	r.Usage, err = e.process.Usage()
	return r, err
}

// after reads what the process has used after a run: first what it need not be asked
// for, since it uses a processor to answer.
func (e *entrant) after(ctx context.Context) (reading, error) {
	var r reading
	if e.process == nil {
		return r, nil
	}
	var err error
	if r.Usage, err = e.process.Usage(); err != nil {
		return r, err
	}
	r.Runtime, err = e.ask(ctx)
	return r, err
}

// ask asks the process what it has allocated.
func (e *entrant) ask(ctx context.Context) (proc.Runtime, error) {
	at, err := metricsOf(e.process)
	if err != nil {
		return proc.Runtime{}, err
	}
	return proc.ReadRuntime(ctx, at)
}

// put puts down the values of an entrant; in the short form without times.
func (b *bench) put(prefix string, samples []sample) {
	values := map[string]func(sample) float64{
		"rate":   func(s sample) float64 { return s.rate },
		"errors": func(s sample) float64 { return s.errors }, "progress": func(s sample) float64 { return s.progress },
	}
	if len(samples) > 0 && samples[0].counted {
		values["cpu"] = cpuOf
		values["allocs"] = func(s sample) float64 { return s.allocs }
		values["bytes"] = func(s sample) float64 { return s.bytes }
		values["peak"] = func(s sample) float64 { return s.peak }
	}
	for name, value := range values {
		b.found.Set(prefix+"/"+name, stats.Each(samples, value))
	}
	if b.short {
		return
	}
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p999": 0.999} {
		b.found.Set(prefix+"/"+name, quantile(samples, q))
	}
}

// quantile is the time that a share of the calls of all rounds took at most, in
// microseconds, beside the least and the most that it was in one round: of a round
// alone the slowest are a few calls.
func quantile(samples []sample, q float64) stats.Summary {
	s := stats.Each(samples, func(s sample) float64 { return s.at(q) })
	if s.Rounds > 0 {
		s.Median = pool(samples).at(q)
	}
	return s
}

// pool has the times of all samples.
func pool(samples []sample) sample {
	runs := make([]load.Result, len(samples))
	for i, s := range samples {
		runs[i] = s.times
	}
	return sample{times: load.Pool(runs...)}
}

func cpuOf(s sample) float64 { return s.cpu }

// compare puts down what an entrant is against the yardstick and the direct way, in the
// same rounds; times only of one client alone, and not in the short form.
func (b *bench) compare(prefix string, samples, proxy, direct []sample) {
	b.found.Set(prefix+"/cpu-rp", stats.Ratio(samples, proxy, cpuOf))
	b.found.Set(prefix+"/rate-rp", stats.Ratio(samples, proxy, func(s sample) float64 { return s.rate }))
	if b.short || len(samples) == 0 || !samples[0].alone {
		return
	}
	b.found.Set(prefix+"/added-p50", added(samples, direct, 0.5))
	for name, q := range map[string]float64{"added-p50-rp": 0.5, "added-p99-rp": 0.99} {
		b.found.Set(prefix+"/"+name, addedRatio(samples, proxy, direct, q))
	}
}

// added is what was added to the direct way at a quantile, as [quantile] has it.
func added(samples, direct []sample, q float64) stats.Summary {
	n := min(len(samples), len(direct))
	values := make([]float64, n)
	for i := range n {
		values[i] = samples[i].at(q) - direct[i].at(q)
	}
	s := stats.Of(values...)
	if n > 0 {
		s.Median = pool(samples).at(q) - pool(direct).at(q)
	}
	return s
}

// addedRatio is what was added against what the yardstick added. It has no rounds where
// that added nothing.
func addedRatio(samples, proxy, direct []sample, q float64) stats.Summary {
	ours, theirs := added(samples, direct, q), added(proxy, direct, q)
	if ours.Rounds == 0 || theirs.Median <= 0 {
		return stats.Summary{}
	}
	ratio := ours.Median / theirs.Median
	s := stats.Summary{Median: ratio, Least: ratio, Most: ratio, Rounds: ours.Rounds}
	for i := range min(len(samples), len(proxy), len(direct)) {
		if above := proxy[i].at(q) - direct[i].at(q); above > 0 {
			one := (samples[i].at(q) - direct[i].at(q)) / above
			s.Least, s.Most = min(s.Least, one), max(s.Most, one)
		}
	}
	return s
}

// beyond is what an entrant allocated for a call beyond another, in the same rounds.
func beyond(samples, other []sample) stats.Summary {
	values := make([]float64, min(len(samples), len(other)))
	for i := range values {
		values[i] = samples[i].allocs - other[i].allocs
	}
	return stats.Of(values...)
}
