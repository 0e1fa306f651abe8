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

// entrant takes part in rounds: callers, and the process that they call.
type entrant struct {
	name    string
	process *proc.Process // its usage is counted; nil if none is
	callers []load.Caller
	close   func()
}

// newEntrant makes an entrant with clients from open, which gets their numbers.
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

// sample is the result of one round of one entrant.
type sample struct {
	rate          float64     // calls per second, of all clients
	counted       bool        // there is a process; without one there is no CPU and no memory
	cpu           float64     // CPU seconds of the process per 1000 calls
	times         load.Result // of one client alone, or of all if none ran alone
	alone         bool
	calls         int     // of all clients, and of one client alone
	allocs, bytes float64 // allocated per call, in all rounds of the start
	peak          float64 // peak resident memory, MiB
	progress      float64 // notifications per call
	errors        float64
	first         error // the first of them
}

// at returns the quantile q of the call times, in microseconds.
func (s sample) at(q float64) float64 { return float64(s.times.Quantile(q).Nanoseconds()) / 1e3 }

// amount is the amount of work: many calls of all clients, for the cost of a call, and one
// calls of one client alone, for its duration.
type amount struct{ many, one int }

// over returns the part of each of n rounds.
func (a amount) over(n int) amount {
	part := amount{many: max(clients, a.many/n)}
	if a.one > 0 {
		part.one = max(1, a.one/n)
	}
	return part
}

// field starts processes in a rig and makes the entrants that call them. They are measured
// in turns.
type field func(ctx context.Context, g *rig) ([]*entrant, error)

// perStart is the number of rounds per start. Other load on the machine comes and goes
// within seconds, so compared values must be close in time.
const perStart = 6

// measure measures a field starts times, each time with new processes and the amount a. The
// memory layout of a process affects the cost of its calls for as long as it lives; rounds
// with the same processes would all have the same bias.
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

// start opens a field and ends everything in it when use returns.
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

// rounds measures entrants in turns, a in all rounds together, and adds to the samples. The
// first entrant differs from round to round and from start to start.
func rounds(ctx context.Context, entrants []*entrant, start int, a amount, samples map[string][]sample) error {
	for _, e := range entrants {
		if r := load.Run(ctx, e.callers, a.many/5+len(e.callers)); r.Errors > 0 {
			return fmt.Errorf("%s: %d of the first %d calls: %w", e.name, r.Errors, r.Errors+r.Calls, r.First)
		}
	}
	begun := make(map[string]proc.Runtime)
	for _, e := range entrants {
		var err error
		if begun[e.name], err = e.begin(ctx); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	for i := range perStart {
		for j := range entrants {
			e := entrants[(start+i+j)%len(entrants)]
			s, err := e.round(ctx, a.over(perStart))
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			samples[e.name] = append(samples[e.name], s)
		}
	}
	for _, e := range entrants {
		all := samples[e.name]
		if err := e.end(ctx, begun[e.name], all[len(all)-perStart:]); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return ctx.Err()
}

// measure runs one round of one entrant alone.
func (e *entrant) measure(ctx context.Context, a amount) (sample, error) {
	begun, err := e.begin(ctx)
	if err != nil {
		return sample{}, err
	}
	s, err := e.round(ctx, a)
	if err != nil {
		return sample{}, err
	}
	one := []sample{s}
	err = e.end(ctx, begun, one)
	return one[0], err
}

// begin reads the allocations of the process before some rounds. The cost of asking the
// process itself is subtracted: it is asked twice, and the second answer contains the cost of
// the first.
func (e *entrant) begin(ctx context.Context) (proc.Runtime, error) {
	if e.process == nil {
		return proc.Runtime{}, nil
	}
	once, err := e.ask(ctx)
	if err != nil {
		return once, err
	}
	r, err := e.ask(ctx)
	r.Mallocs += r.Mallocs - once.Mallocs
	r.Bytes += r.Bytes - once.Bytes
	return r, err
}

// end sets the allocations per call of the rounds since begin. They are counted over all
// rounds together: the runtime counts by the page, and the cost of asking varies.
func (e *entrant) end(ctx context.Context, begun proc.Runtime, of []sample) error {
	if e.process == nil {
		return nil
	}
	r, err := e.ask(ctx)
	if err != nil {
		return err
	}
	calls := 0
	for i := range of {
		calls += of[i].calls
	}
	for i := range of {
		of[i].allocs = (r.Mallocs - begun.Mallocs) / float64(calls)
		of[i].bytes = (r.Bytes - begun.Bytes) / float64(calls)
	}
	return nil
}

// round runs one round of one entrant, and counts no allocations.
func (e *entrant) round(ctx context.Context, a amount) (sample, error) {
	before, err := e.before()
	if err != nil {
		return sample{}, err
	}
	many := load.Run(ctx, e.callers, a.many)
	after, err := e.usage()
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
	total := many.Calls
	if a.one > 0 {
		total += one.Calls
	}
	return sample{
		rate:     many.PerSecond(),
		counted:  e.process != nil,
		cpu:      (after.CPU - before.CPU).Seconds() * 1000 / float64(many.Calls),
		times:    one,
		alone:    a.one > 0,
		calls:    total,
		peak:     float64(after.Peak) / (1 << 20),
		progress: float64(many.Progress) / float64(many.Calls),
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

// reading is the usage and the allocations of a process so far.
type reading struct {
	proc.Usage
	proc.Runtime
}

// before resets the peak of the process and reads its usage.
func (e *entrant) before() (proc.Usage, error) {
	if e.process == nil {
		return proc.Usage{}, nil
	}
	if err := e.process.ResetPeak(); err != nil {
		return proc.Usage{}, err
	}
	return e.usage()
}

// usage reads the usage of the process.
func (e *entrant) usage() (proc.Usage, error) {
	if e.process == nil {
		return proc.Usage{}, nil
	}
	return e.process.Usage()
}

// ask asks the process for its allocations.
func (e *entrant) ask(ctx context.Context) (proc.Runtime, error) {
	at, err := metricsOf(e.process)
	if err != nil {
		return proc.Runtime{}, err
	}
	return proc.ReadRuntime(ctx, at)
}

// put stores the values of an entrant, in the short form without times.
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

// quantile returns the quantile q of the call times of all rounds, in microseconds, with
// its minimum and maximum over single rounds. In a single round only a few calls are slow.
func quantile(samples []sample, q float64) stats.Summary {
	s := stats.Each(samples, func(s sample) float64 { return s.at(q) })
	if s.Rounds > 0 {
		s.Median = pool(samples).at(q)
	}
	return s
}

// pool returns the times of all samples.
func pool(samples []sample) sample {
	runs := make([]load.Result, len(samples))
	for i, s := range samples {
		runs[i] = s.times
	}
	return sample{times: load.Pool(runs...)}
}

func cpuOf(s sample) float64 { return s.cpu }

// compare stores the ratios of an entrant to the yardstick and to the direct way in the
// same rounds. Times are those of one client alone, and are omitted in the short form.
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

// added returns the time added to the direct way at a quantile, like [quantile].
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

// addedRatio returns the added time divided by that of the yardstick. It has no rounds if
// the yardstick added nothing.
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

// beyond returns the allocations per call beyond those of another entrant in the same
// rounds.
func beyond(samples, other []sample) stats.Summary {
	values := make([]float64, min(len(samples), len(other)))
	for i := range values {
		values[i] = samples[i].allocs - other[i].allocs
	}
	return stats.Of(values...)
}
