// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"html"
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
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// idleTimeout is how long a connection is kept open without a request. It is longer
	// than the minute of usual proxies, so that the proxy closes it: if the gateway
	// closes while a request is arriving, it is unknown whether the request was received.
	idleTimeout = 2 * time.Minute

	// streamsPerConnection is the number of concurrent requests on one HTTP/2 connection.
	// A proxy with more opens another connection.
	streamsPerConnection = 250

	// largestFrame is the smallest value that HTTP/2 allows. A connection keeps a buffer
	// of the size of the largest frame that it has received.
	largestFrame = 16 << 10

	// closeTimeout bounds how long connections take to end after the gateway.
	closeTimeout = 2 * time.Second
)

// endpoint is the HTTP server of the gateway: the MCP endpoint and its operations
// (health, status, metrics). The methods of a nil endpoint do nothing.
type endpoint struct {
	url      string
	path     string
	listener net.Listener
	tls      *certificates // nil without TLS
	write    time.Duration // limits.write
	header   time.Duration // limits.headerRead
	server   *http.Server
	ended    chan error // receives the error of Serve
	life     *lifetime  // counts the clients
}

// listen opens the listener. cfg has its defaults filled in.
func listen(ctx context.Context, cfg *config.Config) (*endpoint, error) {
	var secured *certificates
	if cfg.TLS != nil {
		var err error
		if secured, err = newCertificates(cfg.TLS); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, explainListen(cfg.Listen, err)
	}
	p := newEndpoint(l, cfg)
	p.secure(secured, cfg)
	return p, nil
}

// CanListen returns an error if a gateway with a configuration could not listen now.
func CanListen(ctx context.Context, cfg *config.Config) error {
	p, err := listen(ctx, cfg)
	if err == nil {
		p.close(ctx)
	}
	return err
}

// newEndpoint returns the endpoint at a listener. It serves HTTP/1.1, and HTTP/2 to clients
// that begin with it, as proxies can be configured to. No client is asked to upgrade.
func newEndpoint(l net.Listener, cfg *config.Config) *endpoint {
	var spoken http.Protocols
	spoken.SetHTTP1(true)
	spoken.SetUnencryptedHTTP2(true)
	return &endpoint{
		url:      "http://" + reachable(l.Addr(), cfg.Listen) + cfg.Path,
		path:     cfg.Path,
		listener: l,
		write:    cfg.Limits.Write,
		header:   cfg.Limits.HeaderRead,
		ended:    make(chan error, 1),
		server: &http.Server{
			ReadHeaderTimeout: cfg.Limits.HeaderRead,
			ConnContext:       withInbound,
			// Above the limit the gateway responds with an error; above twice that net/http does.
			MaxHeaderBytes: int(2 * cfg.Limits.RequestHeaders),
			IdleTimeout:    idleTimeout,
			// No timeout for a whole request or response: a call may take an hour, and its
			// stream is as long. The gateway limits the parts.
			Protocols: &spoken,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: streamsPerConnection,
				MaxReadFrameSize:     largestFrame,
				// A write deadline ends a stream that the client does not read; this ends
				// the connection.
				WriteByteTimeout: max(0, cfg.Limits.Write),
			},
		},
	}
}

// secure makes the endpoint serve HTTPS. Without certificates it does nothing.
func (p *endpoint) secure(c *certificates, cfg *config.Config) {
	if c == nil {
		return
	}
	p.tls, p.url = c, "https://"+reachable(p.listener.Addr(), cfg.Listen)+cfg.Path
}

// reachable returns an address at which programs on this machine reach the listener: for
// a listener on all addresses, loopback.
func reachable(addr net.Addr, configured string) string {
	// The listener's address and not the configured one: port 0 has been replaced by the
	// actual port, and a name by its address.
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	host := "127.0.0.1"
	if strings.HasPrefix(configured, "[") { // no other configured form means IPv6 only
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// portTakenError is the error of a port that is in use.
type portTakenError struct{ error }

// explainListen returns the error of listening on addr, with what to do about it.
func explainListen(addr string, err error) error {
	var cure string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		owner := "another program"
		if named := portOwners(addr); named != "" {
			owner = "process " + named
		}
		cure = "the port is in use by " + owner + "; stop it, or choose another port with --listen, such as --listen 127.0.0.1:0 for a free one [" + code.PortTaken + "]"
		return portTakenError{fmt.Errorf("listen on %s: %s", addr, cure)}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		cure = "this machine does not have that address; use --listen 127.0.0.1:7777 for local programs only, or 0.0.0.0 for all addresses"
	case errors.Is(err, os.ErrPermission):
		cure = "permission denied; ports below 1024 need privileges, so choose a higher one with --listen"
	default:
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	return fmt.Errorf("listen on %s: %s", addr, cure)
}

// serve starts serving gw.
func (p *endpoint) serve(gw *signalbox.Gateway, logger *slog.Logger) {
	if p == nil {
		return
	}
	p.tls.useLog(logger)
	p.server.Handler = withMetadata(gw, p.routes(p.life.count(gw), p.life.count(gw.SSE()), gw.Operations()))
	if p.tls != nil {
		p.server.Handler = withState(p.server.Handler)
	}
	p.server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	// Ends when close has closed the server; close waits for it.
	go func() { p.ended <- p.server.Serve(responseListener{p.listener, p.tls, p.write, p.header}) }()
}

// withMetadata serves the metadata of the endpoint, and the pages of sign-ins, beside other paths.
func withMetadata(gw *signalbox.Gateway, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") && gw.IsMetadata(r.URL.Path) {
			closeAmbiguous(w, r)
			gw.ServeMetadata(w, r)
			return
		}
		if gw.IsSignIn(r.URL.Path) {
			closeAmbiguous(w, r)
			gw.ServeSignIn(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// ssePath is the path for clients that have only the transport of 2024-11-05 (HTTP+SSE).
// Most servers of that revision used it.
const ssePath = "/sse"

// routes returns the handler of all paths. Paths are compared unmodified: a cleaned path is
// a different one, and a redirect is no response to a POST. The response to any other path
// names the endpoint, as a wrong path in the client's URL is the usual reason.
func (p *endpoint) routes(main, sse, operations http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		closeAmbiguous(w, r)
		switch r.URL.Path {
		case p.path:
			main.ServeHTTP(w, r)
		case ssePath:
			sse.ServeHTTP(w, r)
		case "/healthz", "/readyz", "/metrics", control.StatusPath:
			operations.ServeHTTP(w, r)
		default:
			if name, ok := profiles.In(r.URL.Path, p.path); ok {
				profiles.Handler(main, name).ServeHTTP(w, r)
			} else if name, ok := profiles.In(r.URL.Path, ssePath); ok {
				profiles.Handler(sse, name).ServeHTTP(w, r)
			} else {
				p.serveOther(w, r)
			}
		}
	})
}

// serveOther responds to a request for a path at which nothing is served. Users enter the URL
// without a path into clients and browsers: a client reads JSON-RPC, and a browser HTML.
func (p *endpoint) serveOther(w http.ResponseWriter, r *http.Request) {
	media, status := "text/plain; charset=utf-8", http.StatusNotFound
	body := "nothing is here; the MCP endpoint is " + p.path + "\n"
	switch {
	case r.URL.Path != "/":
	case r.Method == http.MethodPost:
		media = "application/json"
		body = string(jsonrpc.AppendError(nil, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "nothing is here; the MCP endpoint is %s: add it to the URL", p.path)))
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html"):
		media, status = "text/html; charset=utf-8", http.StatusOK
		body = strings.ReplaceAll(rootPage, "{endpoint}", html.EscapeString(p.path))
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // fails only if the client has left
}

// rootPage is what a browser shows at /.
const rootPage = `<!doctype html>
<html lang="en">
<title>Signalbox</title>
<h1>Signalbox</h1>
<p>One MCP endpoint in front of many MCP servers.</p>
<p>The endpoint is <code>{endpoint}</code> at this host: enter the URL with that path into an MCP client.</p>
<p>In a terminal, <code>signalbox status</code> shows the state of this gateway.</p>
</html>
`

// failed delivers the error with which serving ended by itself.
func (p *endpoint) failed() <-chan error {
	if p == nil {
		return nil
	}
	return p.ended
}

// close closes the connections, after the gateway has ended its work on them, and
// returns when all are closed.
func (p *endpoint) close(ctx context.Context) {
	if p == nil {
		return
	}
	defer p.listener.Close() // in case the server never started serving
	// Independent of ctx, which may be canceled already: the clients still receive the
	// last messages.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		_ = p.server.Close() // the listener is closed; close the connections
	}
}
