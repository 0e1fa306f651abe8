// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// gateway is the gateway between its links, over all its restarts. Two gateways are
// replicas of one: only the name of their host distinguishes them.
type gateway struct {
	w       *world
	host    string
	version mcp.Version // the backend's revision as configured for a bridge, or "" to probe
	cfg     server.Config
	buffer  int
	foreign bool // its requests are made by net/http

	front, pipe, back *link // to it over HTTP, to it as a process, and from it

	site    *process // nil while it is down
	life    int      // guarded by world.mu
	core    core
	rests   *resting // the last core if its backend rests; guarded by world.mu
	tr      transport
	crashed int
	shut    int
	late    time.Time // when its last shutdown cut requests in flight; guarded by world.mu
}

// core is an implementation of a gateway.
type core interface {
	http.Handler
	ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error
	Close() error
	Shutdown(ctx context.Context) error
	account(w *world) // checks that nothing is left
}

// bridge is a server over a client: the two lines of the README.
type bridge struct {
	*server.Server

	client *client.Client
}

func (b *bridge) Close() error { return errors.Join(b.Server.Close(), b.client.Close()) }

func (b *bridge) Shutdown(ctx context.Context) error {
	return errors.Join(b.Server.Shutdown(ctx), b.client.Shutdown(ctx))
}

func (b *bridge) account(w *world) {
	if s := b.Stats(); s.InFlight != 0 || s.Sessions != 0 || s.Panics != 0 {
		w.wrong("the gateway has ended and has %d in flight, %d sessions, %d panics", s.InFlight, s.Sessions, s.Panics)
	}
	if s := b.client.Stats(); s.Serving != 0 {
		w.wrong("the gateway's client has ended and serves %d", s.Serving)
	}
}

// product is the gateway that users run.
type product struct{ *signalbox.Gateway }

func (p product) account(w *world) {
	if s := p.Status(); s.InFlight != 0 || s.Sessions != 0 {
		w.wrong("the gateway has ended and has %d in flight, %d sessions", s.InFlight, s.Sessions)
	}
}

func (g *gateway) start() {
	g.w.mu.Lock()
	g.life++
	g.w.mu.Unlock()
	g.tr = g.back.transport(g.foreign)
	if g.w.whole {
		box, err := signalbox.New(config.Config{
			Version:    "1",
			Servers:    []config.Backend{{Name: "b", URL: "http://backend.test/mcp"}},
			StreamLife: g.cfg.StreamLife,
			Auth:       g.w.auth(),
			State:      stateOf(g.cfg.StateKeys),
			Limits:     config.Limits{InputWait: inputWait},
		}, signalbox.Options{Transport: g.tr, Logger: g.cfg.Logger})
		if err != nil {
			g.w.wrong("the gateway does not start: %v", err)
			return
		}
		g.core = product{box}
	} else if g.w.idle.after > 0 {
		g.core = newResting(g)
	} else {
		c := g.dial()
		g.core = &bridge{server.New(c, g.cfg), c}
	}
	g.site = open(g.w.authorized(g.core), g.core.Close)
	g.site.serveHTTP(g.front, g.buffer)
	g.site.servePipes(g.pipe, g.buffer, g.core.ServeStdio)
}

// dial returns the client of a bridge.
func (g *gateway) dial() *client.Client {
	cfg := client.Config{Name: "b", Logger: g.cfg.Logger, Transport: g.tr, Version: g.version, RestSessions: g.w.idle.sessions}
	if g.w.backend.piped {
		return client.NewPipe(g.back.openPipe, cfg)
	}
	return client.NewHTTP("http://backend.test/mcp", cfg)
}

// links returns the links that end at the gateway.
func (g *gateway) links() []*link { return []*link{g.front, g.back, g.pipe} }

// crash ends the gateway as kill -9 does, as seen from both sides.
func (g *gateway) crash() {
	if g.site == nil {
		return
	}
	g.crashed++
	g.back.reset()
	g.site.kill()
	g.tr.CloseIdleConnections()
	g.core.account(g.w)
	g.site = nil
}

// shutdown shuts the gateway down, and checks that nothing is left of it.
func (g *gateway) shutdown(within time.Duration) {
	if g.site == nil {
		return
	}
	g.w.mu.Lock()
	g.late = time.Now().Add(within)
	g.w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.w.ctx), within)
	defer cancel()
	_ = g.core.Shutdown(ctx) // cutting some requests is not an error
	end, stop := context.WithTimeout(context.WithoutCancel(g.w.ctx), 30*time.Second)
	defer stop()
	g.site.leave(end)
	g.tr.CloseIdleConnections()
	g.core.account(g.w)
	g.site = nil
}
