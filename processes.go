// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"runtime"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
)

// manyCopies is the number of processes of one server from which on they are a problem.
const manyCopies = 4

// manyEnds is the number of processes of one server that have ended unexpectedly within an hour
// from which on they are a problem.
const manyEnds = 5

// processes returns the figures of the processes of each backend.
func (v *view) processes() []client.ProcessStats {
	clients := make([]*client.Client, len(v.backends))
	for i, b := range v.backends {
		clients[i] = b.client
	}
	return client.MeasureProcesses(clients)
}

func (s *BackendStatus) setProcesses(p *client.ProcessStats) {
	s.Processes, s.Starts = p.Open, p.Started
	if p.Open > 0 {
		s.Memory = p.Memory
	}
	if p.Last != (client.StartTimes{}) {
		s.LastStart = &ProcessStart{millis(p.Last.Install), millis(p.Last.Program), millis(p.Last.Handshake)}
	}
}

// processProblems returns what is wrong with the processes.
func (v *view) processProblems(processes []client.ProcessStats) (problems []string) {
	for i := range processes {
		p, b := &processes[i], v.backends[i]
		if b.srv.Memory > 0 && !client.MeasuresMemory() {
			problems = append(problems, fmt.Sprintf("backend %q: memory has no effect: the memory of processes is not measured on %s", b.Name(), runtime.GOOS))
		}
		if n := p.Open; n >= manyCopies && !b.srv.Share {
			problems = append(problems, fmt.Sprintf("backend %q: %d processes of it run, one for each client; if it keeps nothing for its clients, share: true lets them use one [%s]",
				b.Name(), n, code.ChildCopies))
		}
		// The reason why a backend is down has how its process ended.
		if n := p.Ended; n >= manyEnds && v.offered[i].State != backend.Down {
			problems = append(problems, fmt.Sprintf("backend %q: its process has ended unexpectedly %d times within the last hour; 'signalbox logs %s' has what it wrote before [%s]",
				b.Name(), n, b.Name(), code.ChildRestarts))
		}
	}
	return problems
}

// childMemory returns a value for each backend that is not in this process. It is zero
// where memory is not measured.
func (g *Gateway) childMemory() []metrics.Value {
	v := g.view.Load()
	var values []metrics.Value
	for i, p := range v.processes() {
		if b := v.backends[i]; b.client != nil {
			values = append(values, metrics.Value{Number: max(p.Memory, 0), Key: "backend", Label: b.Name()})
		}
	}
	return values
}
