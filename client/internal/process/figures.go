// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// startsTime is for how long starts are counted.
const startsTime = time.Hour

// maxStarts bounds the starts that are counted.
const maxStarts = 10_000

// children are the running children of a Launcher. The zero value is ready.
type children struct {
	mu      sync.Mutex
	running map[*Child]struct{}
	starts  []time.Time // within startsTime, oldest first
	ends    []time.Time // of those that ended unexpectedly, likewise
}

func (s *children) add(c *Child, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = make(map[*Child]struct{})
	}
	s.running[c] = struct{}{}
	s.starts = append(recent(s.starts, now, startsTime), now)
	s.starts = s.starts[max(0, len(s.starts)-maxStarts):]
}

// died records the end of a child that the gateway did not cause.
func (s *children) died(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(recent(s.ends, now, startsTime), now)
	s.ends = s.ends[max(0, len(s.ends)-maxStarts):]
}

func (s *children) remove(c *Child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, c)
}

// recent drops times that are as long ago as d, or longer. The oldest time is the first.
func recent(times []time.Time, now time.Time, d time.Duration) []time.Time {
	i := slices.IndexFunc(times, func(at time.Time) bool { return now.Sub(at) < d })
	if i < 0 {
		return nil
	}
	return times[i:]
}

func (s *children) all() []*Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.running))
}

// Figures describe the children of a Launcher.
type Figures struct {
	Groups  []int // the process groups of those that run
	Started int   // how many were started within the last hour
	Ended   int   // how many ended within the last hour, and were not ended by the gateway
}

// Figures returns the present figures.
func (l *Launcher) Figures() Figures {
	var f Figures
	for _, c := range l.children.all() {
		f.Groups = append(f.Groups, c.cmd.Process.Pid)
	}
	l.children.mu.Lock()
	defer l.children.mu.Unlock()
	now := time.Now()
	f.Started, f.Ended = len(recent(l.children.starts, now, startsTime)), len(recent(l.children.ends, now, startsTime))
	return f
}

// memoryTick is the time between two measurements of the memory of a child.
const memoryTick = 5 * time.Second

// watchMemory kills the child when it and what it has started use more memory than they
// may. It returns when the child has ended.
func (c *Child) watchMemory() {
	l := c.launcher
	ticker := time.NewTicker(cmp.Or(l.memoryTick, memoryTick))
	defer ticker.Stop()
	for {
		select {
		case <-c.exited:
			return
		case <-ticker.C:
		}
		used := GroupMemory()[c.cmd.Process.Pid]
		if used <= l.cmd.Memory {
			continue
		}
		why := &failure{code.ChildMemory, fmt.Sprintf("its process was killed, because it used %d MiB of memory and may use %d MiB (memory)", used>>20, l.cmd.Memory>>20)}
		c.Log.LogAttrs(context.Background(), slog.LevelWarn, "backend process killed", slog.String("code", why.code), slog.String("reason", why.text))
		c.killed.Store(why)
		killGroup(c.cmd.Process.Pid)
		return
	}
}
