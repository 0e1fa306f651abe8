// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"os"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/process"
)

// ProcessStats are figures of the processes of a Client. Each process counts together
// with all that it has started.
type ProcessStats struct {
	Open    int   // that run
	Started int   // that were started within the last hour
	Ended   int   // that ended within the last hour, and that the Client did not end
	Memory  int64 // their resident memory in bytes; -1 if it cannot be measured on this system

	// Last is where the time of the latest start went. It is zero before the first process
	// was ready.
	Last StartTimes
}

// StartTimes are parts of the time that a process took to be ready.
type StartTimes struct {
	// Install is the time of a package manager, such as npx, until it began the server's own
	// program. It is zero for another program, or if it is not known, which it is on Linux.
	Install time.Duration

	Program   time.Duration // from then until the first output
	Handshake time.Duration // from then until the process was ready
}

// startTimes returns the times of the latest start.
func (c *Client) startTimes() StartTimes {
	o := c.setup.Opened.Load()
	if o == nil || o.Responded.IsZero() {
		return StartTimes{}
	}
	t := StartTimes{Handshake: max(0, o.Ready.Sub(o.Responded))}
	if !o.Began.IsZero() {
		t.Install = min(o.Began.Sub(o.Start), o.Responded.Sub(o.Start))
	}
	t.Program = o.Responded.Sub(o.Start) - t.Install
	return t
}

// MeasureProcesses returns the figures of each client, all of the same moment. It takes
// a few milliseconds.
func MeasureProcesses(clients []*Client) []ProcessStats {
	stats := make([]ProcessStats, len(clients))
	var groups map[int]int64 // nil until it is needed
	for i, c := range clients {
		if c == nil || c.pipes == nil || c.pipes.launcher == nil {
			continue
		}
		f := c.pipes.launcher.Figures()
		s := &stats[i]
		s.Open, s.Started, s.Ended, s.Last = len(f.Groups), f.Started, f.Ended, c.startTimes()
		if !process.MeasuresMemory {
			s.Memory = -1
			continue
		}
		if groups == nil && s.Open > 0 {
			groups = process.GroupMemory()
		}
		for _, group := range f.Groups {
			s.Memory += groups[group]
		}
	}
	return stats
}

// Environ returns the variables of a program that is started with Command.Env: the few of this
// process that every program needs, and the given ones.
func Environ(env []string) []string { return process.Environment(os.Environ(), env) }

// MeasuresMemory reports whether the memory of processes can be measured on this system.
func MeasuresMemory() bool { return process.MeasuresMemory }
