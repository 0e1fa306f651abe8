// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Watch scans what a gateway writes while it is written: its log, and what it sends to its
// servers. Its methods may be called concurrently.
type Watch struct {
	*Set

	mu    sync.Mutex
	found []Leak
}

// Watch returns a watch for the secrets of the set.
func (s *Set) Watch() *Watch { return &Watch{Set: s} }

// NewWatch returns a watch without secrets. It reports what it has found as errors of the
// test, after all that the test cleans up later.
func NewWatch(t testing.TB) *Watch {
	w := new(Set).Watch()
	t.Cleanup(func() {
		for _, leak := range w.Leaks() {
			t.Error(leak)
		}
	})
	return w
}

// Leaks returns what was found: each secret once at each place.
func (w *Watch) Leaks() []Leak {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.found)
}

// Text scans a text.
func (w *Watch) Text(where, text string) { w.note(w.Scan(where, text)) }

// Files scans the files below a folder, or one file.
func (w *Watch) Files(t testing.TB, path string) {
	t.Helper()
	leaks, err := w.ScanFiles(path)
	if err != nil {
		t.Error(err)
	}
	w.note(leaks)
}

func (w *Watch) note(leaks []Leak) {
	if len(leaks) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, leak := range leaks {
		if !slices.ContainsFunc(w.found, func(l Leak) bool { return l.Secret == leak.Secret && l.Where == leak.Where }) {
			w.found = append(w.found, leak)
		}
	}
}

// Handler returns a handler that scans the records of every level, as text, and passes those
// to next that it is enabled for. next may be nil.
func (w *Watch) Handler(next slog.Handler) slog.Handler {
	if next == nil {
		next = slog.DiscardHandler
	}
	text := slog.NewTextHandler(writerFunc(func(p []byte) { w.Text("log", string(p)) }), &slog.HandlerOptions{Level: slog.LevelDebug - 8})
	return handler{text, next}
}

// handler calls two handlers.
type handler struct{ text, next slog.Handler }

func (handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	_ = h.text.Handle(ctx, r) // the writer returns no error
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.text.WithAttrs(attrs), h.next.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.text.WithGroup(name), h.next.WithGroup(name)}
}

// writerFunc is a writer that takes everything.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// Writer returns a writer that scans what it gets as one text. It must not be used
// concurrently.
func (w *Watch) Writer(where string) io.Writer {
	var last []byte // the end of what was written before, which may be the begin of a secret
	return writerFunc(func(p []byte) {
		last = append(last, p...)
		w.Text(where, string(last))
		last = append(last[:0], last[max(0, len(last)-w.longest()+1):]...)
	})
}

// Sent returns a connection that writes to c, and scans all that is written to it.
func (w *Watch) Sent(where string, c *memnet.Conn) *Conn {
	return &Conn{Conn: c, to: w.Writer(where)}
}

// Conn is a connection that scans what is written to it.
type Conn struct {
	*memnet.Conn

	mu sync.Mutex
	to io.Writer
}

// Write writes p.
func (c *Conn) Write(p []byte) (int, error) { return c.sent(p, c.Conn.Write) }

// TryWrite writes as much of p as is possible without blocking.
func (c *Conn) TryWrite(p []byte) (int, error) { return c.sent(p, c.Conn.TryWrite) }

func (c *Conn) sent(p []byte, write func([]byte) (int, error)) (int, error) {
	n, err := write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.to.Write(p[:n]) // returns no error
	return n, err
}

// Token is the token that Authorized sends.
const Token = "canary-9d41f07c2b86e35a-of-a-client-without-auth" //nolint:gosec // no credential of anything

// Authorized returns a handler that gives Token to requests without a credential, as a client
// does that sends its token to a gateway that does not ask for one.
func Authorized(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+Token)
		}
		h.ServeHTTP(rw, r)
	})
}
