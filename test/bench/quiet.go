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

// poll is the interval of the readings of a process that is expected to become idle.
const poll = 500 * time.Millisecond

// look reads the usage of a process, first from outside and then from inside, because
// asking the process takes a connection and some memory.
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

// until reads a process until ok accepts the reading, or the limit is over, and returns the
// last reading.
func until(ctx context.Context, p *proc.Process, limit time.Duration, ok func(reading) bool) (reading, error) {
	return watch(ctx, limit, func() (reading, error) { return look(ctx, p) }, ok)
}

// watch reads repeatedly until ok accepts the reading, or the limit is over, and returns
// the last reading.
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

// still is the number of equal readings in a row after which a process counts as idle.
const still = 6

// atRest waits until the numbers of goroutines and descriptors of a process have been
// constant for a while, which means that everything it started has ended.
func atRest(ctx context.Context, p *proc.Process) (reading, error) {
	return until(ctx, p, time.Minute, unchanged(func(r reading) [2]int { return [2]int{r.Goroutines, r.Descriptors} }))
}

// leftAlone waits until the number of descriptors and the memory of an unused process have
// been constant for a while, as seen from outside.
func leftAlone(ctx context.Context, p *proc.Process) (proc.Usage, error) {
	return watch(ctx, time.Minute, p.Usage, unchanged(func(u proc.Usage) [2]int { return [2]int{u.Descriptors, int(u.RSS)} }))
}

// unchanged reports whether the given part of the readings was constant for a while.
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

// cooled waits for a process to return unused memory to the system. The Go runtime collects
// garbage at least every other minute, and returns memory after that. The process is not
// called meanwhile. The short form judges no resident memory and does not wait.
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

// live returns the memory that a process really uses, in bytes: its heap just after a
// collection, and its stacks. Calls with large arguments, which are read whole, cause a
// collection. If they do not, live waits for the runtime's own, which comes every other
// minute.
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

// settled returns the live memory of a new process. Its first collections find less than
// it will always have.
func settled(ctx context.Context, p *proc.Process, era canned.Era) (float64, error) {
	if _, err := live(ctx, p, era); err != nil {
		return 0, err
	}
	return live(ctx, p, era)
}

const (
	// largeArgument makes much garbage in many calls, and little if a collection comes in
	// the middle of one.
	largeArgument = 64 << 10

	// callingFor is the maximum time in which calls are made to cause collections. After a
	// collection of a large heap there is much new garbage before the heap can be read.
	callingFor = 30 * time.Second

	// ownCollection is longer than the two minutes after which the runtime always collects.
	ownCollection = 150 * time.Second
)

// low is the minimum of memory seen after a collection. The zero value has no readings.
type low struct {
	begun       bool
	first, last int // collections
	bytes       float64
}

// add adds a reading.
func (l *low) add(r proc.Runtime) {
	if !l.begun {
		l.begun, l.first = true, r.Collections
	}
	l.last = r.Collections
	if now := r.Heap + r.Stacks; l.last > l.first && (l.bytes == 0 || now < l.bytes) {
		l.bytes = now
	}
}

// enough reports whether there were several collections, so that the minimum is close to
// the live memory.
func (l *low) enough() bool { return l.last >= l.first+3 }
