// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// gateway stands between the two lines, over all its lives.
type gateway struct {
	w       *world
	version mcp.Version // that it is told of the backend, or "" to find out
	cfg     server.Config
	buffer  int

	site    *site // nil while it is dead
	client  *client.Client
	tr      *http.Transport
	crashed int
	shut    int
}

func (g *gateway) start() {
	g.tr = g.w.back.transport()
	g.client = client.NewHTTP("http://backend.test/mcp", client.Config{Name: "b", Transport: g.tr, Version: g.version})
	s := server.New(g.client, g.cfg)
	g.site = open(g.w.front, s, s, g.buffer)
}

// crash ends the gateway as kill -9 does, as seen from both sides.
func (g *gateway) crash() {
	if g.site == nil {
		return
	}
	g.crashed++
	g.w.front.crash()
	for _, c := range g.w.back.connections() {
		c.breaks()
		c.Reset()
	}
	g.site.kill(g.w.front)
	_ = g.client.Close()
	g.tr.CloseIdleConnections()
	g.site = nil
}

// shutdown ends the gateway in order, and wants nothing to be left of it.
func (g *gateway) shutdown(within time.Duration) {
	if g.site == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.w.ctx), within)
	defer cancel()
	_ = g.site.server.Shutdown(ctx) // that some were cut is not wrong
	end, stop := context.WithTimeout(context.WithoutCancel(g.w.ctx), 30*time.Second)
	defer stop()
	_ = g.client.Shutdown(end)
	g.w.front.close()
	if err := g.site.http.Shutdown(end); err != nil {
		_ = g.site.http.Close()
	}
	<-g.site.served
	g.tr.CloseIdleConnections()
	g.account()
	g.site = nil
}

// account wants the counters of what has ended to be zero.
func (g *gateway) account() {
	if s := g.site.server.Stats(); s.InFlight != 0 || s.Sessions != 0 || s.Panics != 0 {
		g.w.wrong("the gateway has ended and has %d in flight, %d sessions, %d panics", s.InFlight, s.Sessions, s.Panics)
	}
	if s := g.client.Stats(); s.Serving != 0 {
		g.w.wrong("the gateway's client has ended and serves %d", s.Serving)
	}
}
