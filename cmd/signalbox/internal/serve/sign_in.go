// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
)

// signInPages is the listener for the pages of sign-ins where there is no endpoint on HTTP. It is
// on loopback, and lives as long as a sign-in does.
type signInPages struct {
	handler http.Handler // set before the first call of open
	log     *slog.Logger

	mu     sync.Mutex
	users  int
	server *http.Server
	base   string
	wg     sync.WaitGroup
}

// open returns the base of the URLs of the pages, and opens the listener for the first sign-in.
func (p *signInPages) open() (base string, release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 {
		var lc net.ListenConfig
		l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		p.base = "http://" + l.Addr().String()
		server := &http.Server{
			Handler: p.handler, ReadHeaderTimeout: closeTimeout, ReadTimeout: idleTimeout, IdleTimeout: idleTimeout,
			ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		}
		p.server = server
		p.wg.Go(func() { _ = server.Serve(l) }) // ends with the last release; close waits for it
	}
	p.users++
	return p.base, sync.OnceFunc(p.release), nil
}

func (p *signInPages) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	if p.users > 0 {
		return
	}
	server := p.server
	p.wg.Go(func() { // the last page is still being written; ends within closeTimeout
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	})
}

// close waits until the listener is closed, which it is after the gateway has ended.
func (p *signInPages) close() { p.wg.Wait() }

// base returns the base of the URLs of the endpoint, without its path.
func (p *endpoint) base() string { return strings.TrimSuffix(p.url, p.path) }
