// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
)

// poll is how often a process is looked at that is to come to rest.
const poll = 500 * time.Millisecond

// look reads what a process uses, from outside and then from inside: to be asked takes
// a connection and some memory.
func look(ctx context.Context, p *proc.Process) (reading, error) {
	var r reading
	at, err := metricsOf(p)
	if err != nil {
		return r, err
	}
	if r.Usage, err = p.Usage(); err != nil {
		return r, err
	}
	r.Runtime, err = proc.ReadRuntime(ctx, at)
	return r, err
}

// until looks at a process until it is as it should be, or a time is over, and
// returns what it saw last.
func until(ctx context.Context, p *proc.Process, limit time.Duration, ok func(reading) bool) (reading, error) {
	return watch(ctx, limit, func() (reading, error) { return look(ctx, p) }, ok)
}

// watch reads something over and over until it is as it should be, or a time is over,
// and returns what it read last.
func watch[T any](ctx context.Context, limit time.Duration, read func() (T, error), ok func(T) bool) (T, error) {
	end := time.Now().Add(limit)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		r, err := read()
		if err != nil || ok(r) || time.Now().After(end) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-ticker.C:
		}
	}
}

// still is how many readings one after the other have to be the same for a process to
// be at rest.
const still = 6

// atRest waits until a process has had the same number of goroutines and descriptors
// for a while: until what it has begun has ended, that is.
func atRest(ctx context.Context, p *proc.Process) (reading, error) {
	return until(ctx, p, time.Minute, unchanged(func(r reading) [2]int { return [2]int{r.Goroutines, r.Descriptors} }))
}

// leftAlone waits until a process that nobody asks for anything has had the same number
// of descriptors and the same memory for a while, as seen from outside.
func leftAlone(ctx context.Context, p *proc.Process) (proc.Usage, error) {
	return watch(ctx, time.Minute, p.Usage, unchanged(func(u proc.Usage) [2]int { return [2]int{u.Descriptors, int(u.RSS)} }))
}

// unchanged reports whether what matters of readings was the same for a while.
func unchanged[T any, M comparable](what func(T) M) func(T) bool {
	same, last := 0, *new(M)
	return func(r T) bool {
		if now := what(r); now == last {
			same++
		} else {
			same, last = 0, now
		}
		return same >= still
	}
}

// cooled waits for a process to give back to the system what it does not use: at the
// latest every other minute the Go runtime collects its garbage, and returns the memory
// thereafter. Nobody asks it for anything meanwhile. In the short form, which judges no
// resident memory, nobody waits.
func (b *bench) cooled(ctx context.Context, p *proc.Process) (reading, error) {
	limit := time.Duration(min(1, b.scale) * float64(ownCollection))
	if b.short {
		limit = 0
	}
	if _, err := watch(ctx, limit, p.Usage, func(proc.Usage) bool { return false }); err != nil {
		return reading{}, err
	}
	return look(ctx, p)
}

// live is how much memory a process really uses, in bytes: its heap, as it is just
// after a collection, and its stacks. Calls with large arguments, which are read whole,
// bring a collection about; where they have not, the runtime's own is waited for, which
// comes every other minute.
func live(ctx context.Context, p *proc.Process, era canned.Era) (float64, error) {
	const tool = "text_100"
	call := load.Call{Method: "tools/call", Name: toolAt(0, tool), Params: `"arguments":{"text":"` + strings.Repeat("x", largeArgument) + `"}`}
	c, err := load.NewClient(ctx, target(p, era, ""), call, judgeText(tool))
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	var seen low
	begun := time.Now()
	for time.Since(begun) < callingFor && !seen.enough() {
		if _, err := c.Call(ctx); err != nil {
			return 0, err
		}
		r, err := look(ctx, p)
		if err != nil {
			return 0, err
		}
		seen.add(r.Runtime)
	}
	_, err = until(ctx, p, ownCollection, func(r reading) bool {
		seen.add(r.Runtime)
		return seen.bytes > 0
	})
	if err == nil && seen.bytes == 0 {
		err = errors.New("no garbage was collected")
	}
	return seen.bytes, err
}

// settled is what is live in a process that is young: its first collections find less
// than it will always have.
func settled(ctx context.Context, p *proc.Process, era canned.Era) (float64, error) {
	if _, err := live(ctx, p, era); err != nil {
		return 0, err
	}
	return live(ctx, p, era)
}

const (
	// largeArgument makes much garbage in many calls, and is little where a collection
	// comes in the middle of one.
	largeArgument = 64 << 10

	// callingFor is how long calls are made, at most, to bring collections about. After
	// one of a large heap there is much garbage again before it can be looked at.
	callingFor = 30 * time.Second

	// ownCollection is longer than the two minutes after which the runtime collects
	// in any case.
	ownCollection = 150 * time.Second
)

// low is the least memory that was seen after a collection. The zero value has seen
// nothing.
type low struct {
	begun       bool
	first, last int // collections
	bytes       float64
}

// add adds what was seen.
func (l *low) add(r proc.Runtime) {
	if !l.begun {
		l.begun, l.first = true, r.Collections
	}
	l.last = r.Collections
	if now := r.Heap + r.Stacks; l.last > l.first && (l.bytes == 0 || now < l.bytes) {
		l.bytes = now
	}
}

// enough reports whether there were several collections, so that the least is near
// what is live.
func (l *low) enough() bool { return l.last >= l.first+3 }
