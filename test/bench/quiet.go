// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
)

// poll is how often a process is looked at that is to come to rest.
const poll = 500 * time.Millisecond

// look reads what a process uses, from outside and from inside.
func look(ctx context.Context, p *proc.Process) (reading, error) {
	var r reading
	at, err := metricsOf(p)
	if err != nil {
		return r, err
	}
	if r.Runtime, err = proc.ReadRuntime(ctx, at); err != nil {
		return r, err
	}
	r.Usage, err = p.Usage()
	return r, err
}

// until looks at a process until it is as it should be, or a time is over, and
// returns what it saw last.
func until(ctx context.Context, p *proc.Process, limit time.Duration, ok func(reading) bool) (reading, error) {
	end := time.Now().Add(limit)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		r, err := look(ctx, p)
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

// atRest waits until a process has had the same number of goroutines and descriptors
// for a while: until what it has begun has ended, that is.
func atRest(ctx context.Context, p *proc.Process) (reading, error) {
	const still = 6
	same, last := 0, reading{}
	return until(ctx, p, time.Minute, func(r reading) bool {
		if r.Goroutines == last.Goroutines && r.Descriptors == last.Descriptors {
			same++
		} else {
			same = 0
		}
		last = r
		return same >= still
	})
}

// cooled waits for a process to give back to the system what it does not use: at the
// latest every other minute the Go runtime collects its garbage, and returns the memory
// thereafter. In the short form, which judges no resident memory, nobody waits.
func (b *bench) cooled(ctx context.Context, p *proc.Process) (reading, error) {
	limit := 150 * time.Second
	if b.short {
		limit = 0
	}
	return until(ctx, p, limit, func(reading) bool { return false })
}

// live is how much memory a process really uses, in bytes: its heap, as it is just
// after a collection, and its stacks. The process is made to collect by calls with
// large answers, and the least that is seen on the way is what counts.
func live(ctx context.Context, p *proc.Process, era canned.Era) (float64, error) {
	const tool, collections, tries = "text_1048576", 3, 400
	c, err := load.NewClient(ctx, target(p, era, ""), load.ToolCall(toolAt(0, tool), false), judgeText(tool))
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	at, err := metricsOf(p)
	if err != nil {
		return 0, err
	}
	var least float64
	first := -1
	for range tries {
		if _, err := c.Call(ctx); err != nil {
			return 0, err
		}
		r, err := proc.ReadRuntime(ctx, at)
		if err != nil {
			return 0, err
		}
		if first < 0 {
			first = r.Collections
		}
		if now := r.Heap + r.Stacks; r.Collections > first && (least == 0 || now < least) {
			least = now
		}
		if r.Collections >= first+collections {
			return least, nil
		}
	}
	if least == 0 {
		return 0, fmt.Errorf("no garbage was collected in %d calls", tries)
	}
	return least, nil
}
