// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox"
)

const (
	// idleTimeout is how long a connection is kept without a request. It is
	// longer than the minute that usual proxies keep theirs, so that it is they
	// who close: a request that crosses a close is one that nobody knows of.
	idleTimeout = 2 * time.Minute

	// streamsPerConnection is how many requests there may be at a time on one connection
	// of HTTP/2. A proxy that has more opens another.
	streamsPerConnection = 250

	// largestFrame is the least that HTTP/2 allows. A connection keeps a buffer of the
	// largest one that it has read, whoever sent it.
	largestFrame = 16 << 10

	// lastWords is how long connections may take to end after the gateway has.
	lastWords = 2 * time.Second
)

// endpoint is the listener and what is served on it: the MCP endpoint, and how
// the gateway is. The methods of a nil endpoint do nothing.
type endpoint struct {
	url      string
	path     string
	listener net.Listener
	write    time.Duration // limits.write
	header   time.Duration // limits.headerRead
	server   *http.Server
	ended    chan error // what serving ended with
}

// listen opens the listener of a configuration whose defaults are filled in.
func listen(ctx context.Context, cfg *signalbox.Config) (*endpoint, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, explainListen(cfg.Listen, err)
	}
	return newEndpoint(l, cfg), nil
}

func newEndpoint(l net.Listener, cfg *signalbox.Config) *endpoint {
	return &endpoint{
		url:      "http://" + reachable(l.Addr(), cfg.Listen) + cfg.Path,
		path:     cfg.Path,
		listener: l,
		write:    cfg.Limits.Write,
		header:   cfg.Limits.HeaderRead,
		ended:    make(chan error, 1),
		server:   newServer(cfg),
	}
}

// newServer makes what reads requests: those of HTTP/1.1, and of HTTP/2 where a client
// begins with that, as proxies do that are told to. Nobody is asked to change over.
func newServer(cfg *signalbox.Config) *http.Server {
	var spoken http.Protocols
	spoken.SetHTTP1(true)
	spoken.SetUnencryptedHTTP2(true)
	return &http.Server{
		ReadHeaderTimeout: cfg.Limits.HeaderRead,
		ConnContext:       withInbound,
		// Beyond the limit the gateway says so; beyond twice that net/http hangs up.
		MaxHeaderBytes: int(2 * cfg.Limits.RequestHeaders),
		IdleTimeout:    idleTimeout,
		// No time limit on a whole request or answer: a call may take an hour,
		// and its stream is as long as that. The gateway bounds the parts.
		Protocols: &spoken,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConnection,
			MaxReadFrameSize:     largestFrame,
			// A deadline ends the stream on which nothing can be written, and this the
			// connection on which nothing can.
			WriteByteTimeout: max(0, cfg.Limits.Write),
		},
	}
}

// reachable returns an address at which a program on this machine reaches a
// listener: for one on all addresses, that is loopback.
func reachable(addr net.Addr, configured string) string {
	// What was configured is not repeated but what is listened on: a port 0 is the
	// one that was taken, and a name the address that it stood for.
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	host := "127.0.0.1"
	if strings.HasPrefix(configured, "[") { // no name for all addresses of both kinds has one
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// explainListen says what to do about an address that cannot be had.
func explainListen(addr string, err error) error {
	var cure string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		who := "another program"
		if named := holders(addr); named != "" {
			who = "process " + named
		}
		cure = who + " has the port; end it, or choose another with --listen, such as --listen 127.0.0.1:0 for a free one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		cure = "this machine does not have that address; --listen 127.0.0.1:7777 is reachable from here, 0.0.0.0 means all of them"
	case errors.Is(err, os.ErrPermission):
		cure = "ports below 1024 need rights; choose a higher one with --listen"
	default:
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	return fmt.Errorf("listen on %s: %s", addr, cure)
}

// serve begins to serve.
func (p *endpoint) serve(gw *signalbox.Gateway, logger *slog.Logger) {
	if p == nil {
		return
	}
	p.server.Handler = p.routes(gw, gw.SSE(), gw.Operations())
	p.server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	// Ends when close has closed the server, which waits for it.
	go func() { p.ended <- p.server.Serve(answerListener{p.listener, p.write, p.header}) }()
}

// ssePath is where clients connect that have the transport of 2024-11-05 only, as most
// servers of that revision had it.
const ssePath = "/sse"

// routes are the paths that there are. They are compared as they came: a clean
// form of another path is another path, and a redirect is no answer to a POST.
// Whoever took a wrong one is told the right one, as nearly always it is that
// which is missing in a client's URL.
func (p *endpoint) routes(mcp, sse, operations http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		closeAmbiguous(w, r)
		switch r.URL.Path {
		case p.path:
			mcp.ServeHTTP(w, r)
		case ssePath:
			sse.ServeHTTP(w, r)
		case "/healthz", "/readyz", "/metrics", statusPath:
			operations.ServeHTTP(w, r)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "nothing is here; the MCP endpoint is "+p.path+"\n") // whoever asked has gone
		}
	})
}

// failed delivers why serving ended by itself.
func (p *endpoint) failed() <-chan error {
	if p == nil {
		return nil
	}
	return p.ended
}

// close ends the connections, after the gateway has ended what it did on them,
// and returns when nothing is left.
func (p *endpoint) close(ctx context.Context) {
	if p == nil {
		return
	}
	defer p.listener.Close() // where the server never began to serve
	// The context that ended the command must not end the last words: they are
	// what the clients are told of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		_ = p.server.Close() // it has closed the listener; the rest is cut
	}
}
