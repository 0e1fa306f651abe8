// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Status is what a Gateway is doing, for people.
type Status struct {
	Backends []BackendStatus
	Problems []string // what is not offered as it was meant, and why
	Sessions int      // legacy sessions of clients on HTTP
	InFlight int      // requests and streams
}

// BackendStatus is one backend. The counts are what the backend lists, before
// the operator's rules.
type BackendStatus struct {
	Name      string
	State     string // starting, live, stale, down
	Reason    string // why it is not live
	Version   mcp.Version
	Tools     int
	Resources int
	Templates int
	Prompts   int
	Since     time.Time // when the lists were fetched
}

// Status returns what is known now. It waits for nothing.
func (g *Gateway) Status() Status {
	v := g.view.Load()
	stats := g.server.Stats()
	s := Status{Sessions: stats.Sessions, InFlight: stats.InFlight}
	for _, u := range v.units {
		o := u.Offer()
		s.Backends = append(s.Backends, BackendStatus{
			Name:      u.Name(),
			State:     o.State.String(),
			Reason:    o.Reason,
			Version:   o.Server.Version,
			Tools:     len(o.Lists[catalog.Tools].Items),
			Resources: len(o.Lists[catalog.Resources].Items),
			Templates: len(o.Lists[catalog.Templates].Items),
			Prompts:   len(o.Lists[catalog.Prompts].Items),
			Since:     o.At,
		})
	}
	for _, p := range v.catalog.Problems() {
		s.Problems = append(s.Problems, p.String())
	}
	return s
}

// Ready reports whether new traffic may come: until Drain, Shutdown or Close is
// called.
func (g *Gateway) Ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed && !g.draining
}
