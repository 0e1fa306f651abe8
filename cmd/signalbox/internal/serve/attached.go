// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
)

// serveAttached serves a client of the command attach: after the upgrade the connection
// has the lines of stdio.
func (s *service) serveAttached(w http.ResponseWriter, r *http.Request) {
	if !s.gateway.Ready() {
		http.Error(w, "the gateway is shutting down", http.StatusServiceUnavailable)
		return
	}
	own := version.Program()
	if r.Header.Get(control.VersionHeader) != own {
		s.life.outdate()
	}
	if !s.life.enter() {
		http.Error(w, "the gateway is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer s.life.leave()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	head := fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %d\r\n%s: %s\r\n",
		control.UpgradeProtocol, control.ProcessHeader, os.Getpid(), control.VersionHeader, own)
	if s.flags.background {
		head += control.BackgroundHeader + ": 1\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return // the client has left
	}
	// The context of the request ends with what the client sends, and the gateway still answers.
	ctx := context.WithoutCancel(r.Context())
	if err := s.gateway.ServeLocal(ctx, buffered.Reader, conn); err != nil {
		s.log.DebugContext(ctx, "an attached client has left", slog.Any("error", err))
	}
}

// serveAttachedAt is serveAttached for a client of one profile.
func (s *service) serveAttachedAt(w http.ResponseWriter, r *http.Request) {
	name, status := r.PathValue("profile"), s.gateway.Status()
	if err := profiles.Narrow(&status, name); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	profiles.Handler(http.HandlerFunc(s.serveAttached), name).ServeHTTP(w, r)
}

// lifetime decides when an unused gateway ends. A nil lifetime is for ever.
type lifetime struct {
	idle  time.Duration // how long the gateway is kept without clients
	busy  func() bool   // there are sessions or requests of clients that are not counted
	ended chan struct{} // closed when the gateway has to end
	left  chan struct{} // capacity 1; a client has left

	mu       sync.Mutex
	clients  int
	last     time.Time // when there was a client
	outdated bool      // a client of another version has come: no time without clients
	over     bool
}

func newLifetime(idle time.Duration, busy func() bool) *lifetime {
	return &lifetime{idle: idle, busy: busy, ended: make(chan struct{}), left: make(chan struct{}, 1), last: time.Now()}
}

// lifeChecks is how many times in its idle time a gateway looks for clients.
const lifeChecks = 20

// run ends with ctx, or when the gateway has to end.
func (l *lifetime) run(ctx context.Context) {
	tick := time.NewTicker(max(l.idle/lifeChecks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.left:
		}
		busy := l.busy()
		if l.isOver(busy) {
			close(l.ended)
			return
		}
	}
}

func (l *lifetime) isOver(busy bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy || l.clients > 0 {
		l.last = time.Now()
		return false
	}
	l.over = l.outdated || time.Since(l.last) >= l.idle
	return l.over
}

// end delivers that the gateway has to end.
func (l *lifetime) end() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.ended
}

// enter counts a client. It reports false if the gateway is about to end.
func (l *lifetime) enter() bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.clients++
	return true
}

func (l *lifetime) leave() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.clients--
	l.last = time.Now()
	l.mu.Unlock()
	select {
	case l.left <- struct{}{}:
	default: // run looks anyway
	}
}

// outdate makes the gateway end when its last client has left, so that the next client
// starts its own version.
func (l *lifetime) outdate() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outdated = true
}

// count counts the requests of next as clients.
func (l *lifetime) count(next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.enter() { // otherwise the gateway refuses the request
			defer l.leave()
		}
		next.ServeHTTP(w, r)
	})
}
