// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/memnet"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// peer is the process of a backend, in one life: a real server in front of its
// Handler, on a network or on pipes of memory.
type peer struct {
	server *server.Server
	http   *http.Server
	net    *memnet.Listener

	mu    sync.Mutex
	ends  []func() // what breaks the connections
	tasks sync.WaitGroup
}

// start begins another life.
func (b *backend) start() {
	life := &incarnation{}
	b.set(func() { b.current = life })
	if b.w.pair.out.transport == "process" {
		return
	}
	p := &peer{server: server.New(b.serveIn(life), server.Config{AllowedHosts: []string{"*"}}), net: memnet.Listen()}
	life.peer = p
	if b.w.pair.out.transport == "http" {
		p.http = &http.Server{Handler: b.front(p.server), ErrorLog: log.New(io.Discard, "", 0)}
		p.tasks.Go(func() { _ = p.http.Serve(p.net) }) // ends with kill
	}
}

// front is what an HTTP client meets first: a server of the legacy era knows
// nothing of the later revision and says so.
func (b *backend) front(h http.Handler) http.Handler {
	if b.w.pair.out.era == "modern" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := mcp.Version(r.Header.Get("Mcp-Protocol-Version")); v.Era() == mcp.EraModern {
			http.Error(w, "Bad Request: Unsupported protocol version", http.StatusBadRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// die ends a life as kill -9 does: connections break, nothing is said.
func (b *backend) die() {
	life := b.life()
	life.dead.Store(true)
	if life.peer != nil {
		life.peer.kill()
	}
}

func (p *peer) kill() {
	_ = p.net.Close()
	for _, end := range p.connections() {
		end()
	}
	if p.http != nil {
		_ = p.http.Close()
	}
	_ = p.server.Close()
	p.tasks.Wait()
}

func (p *peer) connections() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	ends := p.ends
	p.ends = nil
	return ends
}

func (p *peer) onKill(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, f)
}

var errRefused = errors.New("connection refused")

// dial connects to the backend's network.
func (b *backend) dial(ctx context.Context) (net.Conn, error) {
	life := b.life()
	if life.dead.Load() {
		return nil, errRefused
	}
	c, err := life.peer.net.Dial(ctx)
	if err == nil {
		life.peer.onKill(c.Reset)
	}
	return c, err
}

// openPipe starts the backend's process on a pipe.
func (b *backend) openPipe(ctx context.Context) (io.ReadWriteCloser, error) {
	life := b.life()
	if life.dead.Load() {
		return nil, errRefused
	}
	near, far := memnet.Pipe(1 << 20)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	life.peer.onKill(func() {
		near.Reset()
		cancel()
	})
	life.peer.tasks.Go(func() { // ends with the pipe; kill waits for it
		defer cancel()
		_ = life.peer.server.ServeStdio(ctx, far, far)
		_ = far.Close()
	})
	return near, nil
}

// handler is the backend as the gateway gets it.
func (b *backend) handler() mcp.Handler {
	cfg := client.Config{Name: b.name, Transport: b.w.outside}
	var c *client.Client
	switch out := b.w.pair.out; {
	case out.transport == "process":
		return b.serveIn(b.life())
	case out.transport == "http":
		c = client.NewHTTP("http://"+b.name+"/mcp", cfg)
	default:
		if out.era == "legacy" {
			cfg.Version = mcp.LatestLegacy
		}
		c = client.NewPipe(b.openPipe, cfg)
	}
	b.w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.w.t.Errorf("closing the client of %s: %v", b.name, err)
		}
	})
	return c
}
