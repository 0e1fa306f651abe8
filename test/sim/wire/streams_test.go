// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// streams serves the sessions of a legacy backend over HTTP. It may refuse to open streams
// for a while, without losing messages.
type streams struct {
	w *world

	mu     sync.Mutex
	life   context.Context // of the open streams
	cut    context.CancelFunc
	status int // of the refusals
	until  time.Time
	left   time.Duration   // for which streams may still be refused
	polls  map[string]bool // the streams that have sent a retry time once
}

// passing are statuses of a temporary refusal. 200 is a stream that ends without an event.
var passing = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
	http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	http.StatusOK, http.StatusOK,
}

// mostRefusals limits the total time of refusals. With the longest wait of a client it is
// less than the retention of streams.
const mostRefusals = 4 * time.Minute

func newStreams(w *world) *streams {
	s := &streams{w: w, left: mostRefusals, polls: make(map[string]bool)}
	s.life, s.cut = context.WithCancel(w.ctx)
	return s
}

// refuseStreams breaks the streams of sessions, and refuses to open them for a while.
func (w *world) refuseStreams() {
	s := w.choose
	status, d := passing[s.Intn(len(passing))], []time.Duration{time.Second, 10 * time.Second, 45 * time.Second, 100 * time.Second}[s.Intn(4)]
	if w.backend.streams.refuse(status, d) {
		w.countAction("refused streams")
		w.note("the streams of the backend break, and are refused with %d for %v", status, d)
	}
}

func (s *streams) refuse(status int, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d > s.left {
		return false
	}
	s.left -= d
	s.status, s.until = status, time.Now().Add(d)
	s.cut()
	s.life, s.cut = context.WithCancel(s.w.ctx)
	return true
}

// look returns the context of a stream opened now, or the status of its refusal.
func (s *streams) look() (life context.Context, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.life, s.status
	}
	return s.life, 0
}

// serve serves a request of a session.
func (s *streams) serve(w http.ResponseWriter, r *http.Request, h http.Handler) {
	life, status := s.look()
	if r.Method == http.MethodGet && status != 0 {
		s.answer(w, r, status)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &stream{ResponseWriter: w}
	stop := context.AfterFunc(life, func() { //nolint:contextcheck // the streams' context is not that of a request
		if out.hasID.Load() {
			out.isCut.Store(true)
			cancel()
		}
	})
	defer stop()
	h.ServeHTTP(out, r.WithContext(ctx))
	if out.isCut.Load() {
		panic(http.ErrAbortHandler) // closes the connection
	}
}

func (s *streams) answer(w http.ResponseWriter, r *http.Request, status int) {
	s.w.countAction(fmt.Sprintf("GET refused with %d", status))
	s.w.note("backend: GET after %q: %d", r.Header.Get("Last-Event-Id"), status)
	if status != http.StatusOK {
		http.Error(w, "Conflict: Only one SSE stream is allowed per session", status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(status)
	if s.asksFirst(r) {
		fmt.Fprint(w, "retry: 1000\n\n")
	}
}

// asksFirst reports whether the client of a stream must be sent a retry time: once, or each
// time if it may not have arrived.
func (s *streams) asksFirst(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("Mcp-Session-Id") + " " + r.Header.Get("Last-Event-Id")
	told := s.polls[key]
	s.polls[key] = true
	return !told || s.w.anyHarmed()
}

// anyHarmed reports whether a connection to the backend has broken.
func (w *world) anyHarmed() bool {
	for _, g := range w.gateways {
		if g.back.isHarmed() {
			return true
		}
	}
	return false
}

func (l *link) isHarmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.harmed > 0
}

// stream is a response that may be cut once its client can resume.
type stream struct {
	http.ResponseWriter

	wrote bool // an id, which may not have been sent
	hasID atomic.Bool
	isCut atomic.Bool
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p)
	s.wrote = s.wrote || bytes.HasPrefix(p, []byte("id: ")) || bytes.Contains(p, []byte("\nid: "))
	return n, err
}

// FlushError lets net/http flush.
func (s *stream) FlushError() error {
	err := http.NewResponseController(s.ResponseWriter).Flush()
	if s.wrote && s.Header().Get("Content-Type") == "text/event-stream" {
		s.hasID.Store(true)
	}
	return err
}

// Unwrap lets net/http find the deadlines.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// judgeLossLocked checks that a result that the backend still has is not lost, as long as
// the backend only refuses streams for a while.
func (r *record) judgeLossLocked() {
	j := r.w.jobs[r.mark]
	if j == nil || r.ended != "error" || r.code != mcp.CodeBackendFailed || r.outcome != string(mcp.Unknown) {
		return
	}
	if r.w.backend.life > 1 || r.stoppable || !r.cancelled.IsZero() ||
		r.sentTo(lostBackend) || r.sentTo(slowBackend) || r.sentTo(hasCrashed) || r.sentTo(wasShut) {
		return
	}
	if r.client[0] == 'o' && (r.sentTo(lostClients) || r.isReadSlowlyLocked()) {
		return // its own client has lost it, or read so slowly that the gateway gave up
	}
	r.wrongLocked("its result was lost, and the backend has it: %s", r.said)
}
