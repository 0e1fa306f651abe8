// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/issuer"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// The rates of requests in a second, and the connections that they are divided among.
const (
	floodRate, floodConns = 10_000, 16
	callRate, callConns   = 200, 4
)

// flood is what others send while one caller calls.
type flood struct {
	name    string
	rate    int
	expires time.Duration // of the tokens, from now
	seconds int
}

// floods returns all floods. Both kinds of tokens have random key ids. An expired one is refused
// before its key is looked for, and is the same work otherwise.
func floods() []flood {
	return []flood{
		{"nothing", 0, 0, 20},
		{"expired tokens", floodRate, -time.Hour, 20},
		{"tokens that a key could be fetched for", floodRate, 24 * time.Hour, 60},
	}
}

// floodSample is what was measured during one flood.
type floodSample struct {
	times   []time.Duration // of calls, sorted
	rate    float64         // of refused requests
	fetches int
	errors  int
}

func (s *floodSample) quantile(q float64) float64 {
	return float64(s.times[min(len(s.times)-1, int(q*float64(len(s.times))))].Microseconds())
}

// measureFlood measures the calls of a caller with a valid token, and how often the gateway fetches
// the keys of the provider, while others send 10,000 tokens in a second.
func (b *bench) measureFlood(ctx context.Context, g *rig) error {
	samples := make([][]*floodSample, len(floods()))
	for range b.starts {
		at, err := g.openFlood(ctx)
		if err != nil {
			return err
		}
		for i, f := range floods() {
			s, err := at.sample(ctx, f.rate, f.expires, time.Duration(b.share(f.seconds))*time.Second)
			if err != nil {
				return errors.Join(err, at.end())
			}
			samples[i] = append(samples[i], s)
		}
		if err := at.end(); err != nil {
			return err
		}
	}
	t := b.table("flood", "Tokens with random key ids",
		fmt.Sprintf("%d calls of 100 bytes in a second by a caller with a JWT, each from the time at which it is due, while others send tokens of the same provider with random key ids for 20 s, and 60 s where keys could be fetched. Medians of the starts.", callRate),
		"others send", "refused/s", "p50 us", "p99 us", "fetches of keys")
	for i, f := range floods() {
		each := func(value func(*floodSample) float64) stats.Summary { return stats.Each(samples[i], value) }
		p99 := func(s *floodSample) float64 { return s.quantile(0.99) }
		fetches := each(func(s *floodSample) float64 { return float64(s.fetches) })
		prefix := "flood/" + f.name + "/calls/"
		b.found.Set(prefix+"p99", each(p99))
		b.found.Set(prefix+"fetches", fetches)
		b.found.Set(prefix+"errors", each(func(s *floodSample) float64 { return float64(s.errors) }))
		if i == len(samples)-1 {
			ratio := stats.Ratio(samples[i], samples[i-1], p99)
			b.found.Set(prefix+"p99-expired", ratio)
			t.Remark("The p99 is %s times that with expired tokens, %s to %s.", marks.Number(ratio.Median), marks.Number(ratio.Least), marks.Number(ratio.Most))
		}
		t.Add(f.name, marks.Number(each(func(s *floodSample) float64 { return s.rate }).Median),
			marks.Number(each(func(s *floodSample) float64 { return s.quantile(0.5) }).Median), marks.Number(each(p99).Median), marks.Number(fetches.Median))
	}
	return nil
}

// flooded is a gateway that trusts an issuer, with a backend and a caller.
type flooded struct {
	g       *rig
	issuer  *issuer.Server
	callers []*load.Client
	target  load.Target
	stop    []func() error
}

// floodAudience is the audience of the tokens.
const floodAudience = "bench"

func (g *rig) openFlood(ctx context.Context) (at *flooded, err error) {
	at = &flooded{g: g}
	defer func() {
		if err != nil {
			err = errors.Join(err, at.end())
		}
	}()
	l, err := listenLocal(ctx)
	if err != nil {
		return at, err
	}
	at.issuer, err = issuer.Serve(l)
	if err != nil {
		return at, errors.Join(err, l.Close())
	}
	at.stop = append(at.stop, at.issuer.Close)
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return at, err
	}
	at.stop = append(at.stop, func() error { return g.end(backend) })
	setup := canned.Setup{Era: canned.Modern, Tools: 1}
	c := overHTTP(backend.Address, 1, setup)
	c.PublicURL = "https://bench.example"
	c.Auth = &authConfig{Issuers: []issuerConfig{{Name: "bench", Issuer: at.issuer.URL, Audience: []string{floodAudience}}}}
	p, err := g.launch(ctx, c)
	if err != nil {
		return at, err
	}
	at.stop = append(at.stop, func() error { return g.end(p) })
	valid, err := at.issuer.Token(floodAudience, 24*time.Hour)
	if err != nil {
		return at, err
	}
	at.target = load.Target{URL: p.Address, Era: canned.Modern, Token: valid}
	if err := firstList(ctx, at.target, setup.Tools); err != nil {
		return at, err
	}
	const tool = "text_100"
	for range callConns {
		caller, err := load.NewClient(ctx, at.target, load.ToolCall(toolAt(0, tool), false), judgeText(tool))
		if err != nil {
			return at, err
		}
		at.callers = append(at.callers, caller)
	}
	return at, nil
}

func (at *flooded) end() error {
	for _, c := range at.callers {
		c.Leave()
	}
	var errs []error
	for _, stop := range slices.Backward(at.stop) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// sample calls for d, while others send tokens at a rate.
func (at *flooded) sample(ctx context.Context, rate int, expires, d time.Duration) (*floodSample, error) {
	senders, err := at.senders(ctx, rate, expires)
	if err != nil {
		return nil, err
	}
	before := at.issuer.Fetches()
	begin := time.Now()
	until := begin.Add(d)
	s := new(floodSample)
	var mu sync.Mutex // guards s and refused
	var wg sync.WaitGroup
	refused := 0
	for i, one := range senders {
		wg.Go(func() { // ends at until, or with ctx
			defer one.Close()
			n, failed := 0, 0
			paceAll(ctx, i, len(senders), rate, begin, until, func(time.Time) {
				if one.Refused(ctx) != nil {
					failed++
					return
				}
				n++
			})
			mu.Lock()
			defer mu.Unlock()
			refused += n
			s.errors += failed
		})
	}
	for i, one := range at.callers {
		wg.Go(func() { // as above
			var times []time.Duration
			failed := 0
			paceAll(ctx, i, len(at.callers), callRate, begin, until, func(due time.Time) {
				if _, err := one.Call(ctx); err != nil {
					failed++
					return
				}
				times = append(times, time.Since(due))
			})
			mu.Lock()
			defer mu.Unlock()
			s.times = append(s.times, times...)
			s.errors += failed
		})
	}
	wg.Wait()
	slices.Sort(s.times)
	s.rate, s.fetches = float64(refused)/time.Since(begin).Seconds(), at.issuer.Fetches()-before
	if len(s.times) == 0 {
		return nil, errors.Join(errors.New("no call was answered"), ctx.Err())
	}
	return s, ctx.Err()
}

// senders returns the connections of a flood.
func (at *flooded) senders(ctx context.Context, rate int, expires time.Duration) (all []*load.Sender, err error) {
	if rate == 0 {
		return nil, nil
	}
	token, err := at.issuer.Token(floodAudience, expires)
	if err != nil {
		return nil, err
	}
	for range floodConns {
		one, err := load.NewSender(ctx, at.target, token)
		if err != nil {
			for _, other := range all {
				other.Close()
			}
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// paceAll calls f at the times of one of n that share a rate. One that is late calls at once, and
// has the time at which it was due.
func paceAll(ctx context.Context, i, n, rate int, begin, until time.Time, f func(due time.Time)) {
	interval := time.Duration(n) * time.Second / time.Duration(rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := begin.Add(time.Duration(i) * interval / time.Duration(n)); due.Before(until) && time.Now().Before(until); due = due.Add(interval) {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
			f(due)
		case <-ctx.Done():
			return
		}
	}
}
