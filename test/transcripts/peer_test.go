// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// peer is the process of a backend, in one life: a real server in front of its Handler,
// on a network or on pipes of memory.
type peer struct {
	server *server.Server
	http   *http.Server
	net    *memnet.Listener

	mu     sync.Mutex
	killed bool
	ends   []func() // each breaks a connection
	tasks  sync.WaitGroup
}

// start starts another life.
func (b *backend) start() {
	life := &instance{}
	if b.w.pair.out.transport != "process" {
		life.peer = b.newPeer(life)
	}
	b.set(func() { b.current = life })
}

func (b *backend) newPeer(life *instance) *peer {
	p := &peer{server: server.New(b.serveIn(life), server.Config{AllowedHosts: []string{"*"}, Authenticate: userOf}), net: memnet.Listen()}
	if kind := b.w.pair.out.transport; kind == "http" || kind == "sse" {
		p.http = &http.Server{Handler: b.lockable(b.front(p.server)), ErrorLog: log.New(io.Discard, "", 0)}
		p.connect(func() { _ = p.net.Close() }, func() { _ = p.http.Serve(p.net) })
	}
	return p
}

// front is the HTTP handler in front of the server: a legacy server rejects the later
// revision.
func (b *backend) front(s *server.Server) http.Handler {
	switch {
	case b.wire != nil:
		return b.wire
	case b.w.pair.out.era == "modern":
		return s
	case b.w.pair.out.transport == "sse":
		return oldest(s)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := mcp.Version(r.Header.Get("Mcp-Protocol-Version")); v.Era() == mcp.EraModern {
			http.Error(w, "Bad Request: Unsupported protocol version", http.StatusBadRequest)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// oldest is a server that has only the transport HTTP with SSE, at the path that a
// client tries first: it rejects POSTs there, except those to the endpoint of its
// stream.
func oldest(s *server.Server) http.Handler {
	sse := s.SSE()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.URL.RawQuery == "" {
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		sse.ServeHTTP(w, r)
	})
}

// die ends a life as kill -9 does: connections break without a message.
func (b *backend) die() {
	life := b.life()
	life.dead.Store(true)
	if life.peer != nil {
		life.peer.kill()
	}
}

func (p *peer) kill() {
	for _, end := range p.connections() {
		end()
	}
	if p.http != nil {
		_ = p.http.Close()
	}
	_ = p.server.Close()
	p.tasks.Wait()
}

// connections returns functions that break the connections, and allows no more of them.
func (p *peer) connections() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	ends := p.ends
	p.ends = nil
	return ends
}

// connect registers a connection, and calls serve for it in a goroutine unless nil. It
// reports false if the life is over.
func (p *peer) connect(end, serve func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return false
	}
	p.ends = append(p.ends, end)
	if serve != nil {
		p.tasks.Go(serve) // ends with the connection; kill waits for it
	}
	return true
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// dial connects to the backend's network.
func (b *backend) dial(ctx context.Context) (net.Conn, error) {
	life := b.life()
	if life.dead.Load() {
		return nil, errRefused
	}
	c, err := life.peer.net.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if !life.peer.connect(c.Reset, nil) {
		c.Reset()
		return nil, errRefused
	}
	return b.w.watch.Sent("backend "+b.name, c), nil
}

// openPipe starts the backend's process on a pipe.
func (b *backend) openPipe(ctx context.Context) (io.ReadWriteCloser, error) {
	peer := b.life().peer
	near, far := memnet.Pipe(1 << 20)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	kill := func() {
		near.Reset()
		cancel()
	}
	alive := peer.connect(kill, func() {
		defer cancel()
		if b.wire != nil {
			b.wire.servePipe(far)
		} else {
			_ = peer.server.ServeStdio(ctx, far, far)
		}
		_ = far.Close()
	})
	if !alive {
		kill()
		return nil, errRefused
	}
	return b.w.watch.Sent("backend "+b.name, near), nil
}

// handler returns the backend as the gateway uses it.
func (b *backend) handler() mcp.Handler {
	cfg := client.Config{Name: b.name, Transport: b.w.outside}
	var c *client.Client
	switch out := b.w.pair.out; out.transport {
	case "process":
		return b.serveIn(b.life())
	case "http", "sse": // the client detects which
		c = client.NewHTTP("http://"+b.name+"/mcp", cfg)
	default:
		if out.era == "legacy" && b.wire == nil {
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
