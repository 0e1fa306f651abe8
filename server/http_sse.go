// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// SSE returns the endpoint of HTTP with SSE, the transport of 2024-11-05, which later
// revisions deprecate (2024-11-05, basic/transports, "HTTP with SSE"). A GET opens the
// one stream of a connection. The first event on it names the URL for POSTs, which is on
// the same path. The endpoint ignores the path of the URL, has the limits and checks of
// the MCP endpoint, and serves only the legacy era.
func (s *Server) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, func(p *response, from sender) *refusal {
			switch r.Method {
			case http.MethodGet:
				return s.sseOpen(p, r, from)
			case http.MethodPost:
				return s.ssePost(p, r, from)
			default: // there is no session to delete: a connection ends when it is closed
				return refuse(http.StatusMethodNotAllowed, "method %s is not allowed", escape(r.Method)).withHeader("Allow", "GET, POST")
			}
		})
	})
}

// sseMessages is the query parameter that names the connection of a POST. It is not a
// credential: each POST is authenticated.
const sseMessages = "sessionId"

// errUnused ends a connection without any message.
var errUnused = errors.New("no message was received on the connection (limits.sessionUninitialized)")

// sseOpen serves one connection, which is a pipe over HTTP: messages arrive by POST, and
// are sent on this response. It returns when the client disconnects or the server ends
// it.
func (s *Server) sseOpen(p *response, r *http.Request, from sender) *refusal {
	if len(r.Header.Values("Accept")) > 0 {
		if no := s.checkAcceptStream(r); no != nil {
			return no
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	entry := &inflight{kind: kindPipe, stop: cancel, profile: from.profile}
	if s.quiet.Load() || !s.inflight.add(entry) {
		return refuseDraining(mcp.ID{})
	}
	defer s.inflight.remove(entry)
	if !s.hasProfile(from.profile) { // removed after the request was admitted
		return &refusal{hidden: true}
	}
	conn := &sseConn{sender: from, lines: make(chan line), done: ctx.Done()}
	if conn.expiry = atExpiry(from.identity, func() { cancel(errExpired) }); conn.expiry != nil {
		conn.until = from.identity.Expires
	}
	defer stopTimer(conn.expiry)
	id, no := s.sseConns.add(conn, &s.cfg.Limits)
	if no != nil {
		return no
	}
	defer s.sseConns.remove(id)
	unused := time.AfterFunc(s.cfg.Limits.SessionUninitialized, func() {
		if !conn.used.Load() {
			cancel(errUnused)
		}
	})
	defer unused.Stop()

	p.beginStream()
	path := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/") // with two slashes it would name a host
	p.write(frame.AppendEndpoint(nil, path+"?"+sseMessages+"="+id))
	p.flush()
	c := s.newLineConn(newPipeWriter(&sseWriter{p: p}, cancel), from)
	c.remote, c.sse = r.RemoteAddr, true
	served := make(chan struct{})
	go func() { // ends with ctx, which a disconnect ends; waited for below
		defer close(served)
		_ = c.loop(ctx, conn.lines) // no peer to report the error to
		c.finish(ctx)
		p.setDeadline(time.Now().Add(finishGrace)) // as on a pipe: a slow client must not delay the end of the server
		c.writer.close()
	}()
	beat := time.NewTicker(s.cfg.KeepAlive)
	defer beat.Stop()
	c.writer.run(beat.C, func() error { // detects a client that has disappeared
		p.writeComment()
		return p.err
	})
	<-served
	return nil
}

// ssePost accepts one message of a connection. The answer is sent on the connection.
func (s *Server) ssePost(p *response, r *http.Request, from sender) *refusal {
	if no := s.check(r, (*Server).checkContentType, (*Server).checkEncoding, (*Server).checkLength); no != nil {
		return no
	}
	id := r.URL.Query().Get(sseMessages)
	if id == "" {
		return refuse(http.StatusBadRequest, "%s is missing; open a connection with GET, and POST to the URL in its first event", sseMessages)
	}
	conn, kind := s.sseConns.find(id, from)
	if conn == nil {
		no := refuse(http.StatusNotFound, "connection not found; open a new one with GET").withEvent(kind, "")
		no.event.Session = scopeKey(id)
		return no
	}
	body, no := s.readBody(p, r)
	if no != nil {
		return no
	}
	conn.used.Store(true)
	conn.prolong(from.identity)
	defer conn.waiting.Add(-1)
	if most := s.cfg.Limits.InFlightPerSession; conn.waiting.Add(1) > int64(most) {
		return refuseTooMany(mcp.ID{}, most, "messages of a connection that wait for its client to read", "inFlightPerSession")
	}
	select {
	case conn.lines <- line{data: body, identity: from.identity}:
		p.writeAccepted()
		return nil
	case <-conn.done:
		return refuse(http.StatusNotFound, "connection not found; open a new one with GET")
	case <-r.Context().Done():
		p.aborted = true // the client is gone
		return nil
	}
}

// sseConn is a connection as POSTs see it.
type sseConn struct {
	sender
	lines   chan line // received by the loop of the connection
	done    <-chan struct{}
	used    atomic.Bool  // a message was POSTed
	waiting atomic.Int64 // POSTs with a message that the loop has not received

	expiry *time.Timer // ends the connection with the credentials of its sender; may be nil
	mu     sync.Mutex
	until  time.Time // of the expiry
}

// prolong keeps the connection until the credentials of a POST end, if these end later than
// all earlier ones, or never.
func (c *sseConn) prolong(identity *mcp.Identity) {
	if c.expiry == nil || identity == nil {
		return
	}
	until := identity.Expires
	if until.IsZero() {
		until = time.Now().Add(never)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.until) {
		c.until = until
		c.expiry.Reset(time.Until(until))
	}
}

// sseWriter converts the lines of a pipeWriter to events.
type sseWriter struct {
	p       *response
	midLine bool // in the middle of a line
}

// Write writes lines, or a part of one, and flushes complete lines.
func (w *sseWriter) Write(b []byte) (int, error) {
	if !w.midLine && len(b) > 0 {
		w.p.write([]byte("event: message\ndata: "))
	}
	w.p.write(b)
	if w.midLine = len(b) > 0 && b[len(b)-1] != '\n'; !w.midLine {
		w.p.write([]byte("\n"))
		w.p.flush()
	}
	return len(b), w.p.err
}

// sseConns are the open connections of HTTP with SSE, by the id in their URLs. The zero
// value is ready.
type sseConns struct {
	mu    sync.Mutex
	open  map[string]*sseConn
	count map[string]int // by principal
}

// add adds a connection within the limits of sessions: each connection counts as one.
func (l *sseConns) add(c *sseConn, limits *Limits) (id string, no *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.open) >= limits.Sessions:
		return "", refuseTooMany(mcp.ID{}, limits.Sessions, "sessions", "sessions")
	case c.principal != "" && l.count[c.principal] >= limits.SessionsPerPrincipal:
		return "", refuseTooMany(mcp.ID{}, limits.SessionsPerPrincipal, "sessions of one principal", "sessionsPerPrincipal")
	}
	if l.open == nil {
		l.open, l.count = make(map[string]*sseConn), make(map[string]int)
	}
	id = newSessionID()
	l.open[id] = c
	l.count[c.principal]++
	return id, nil
}

func (l *sseConns) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[id]
	delete(l.open, id)
	if l.count[c.principal]--; l.count[c.principal] == 0 {
		delete(l.count, c.principal)
	}
}

func (l *sseConns) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// find returns the connection with the id if it belongs to the sender. Otherwise the
// kind is for the operator only.
func (l *sseConns) find(id string, from sender) (*sseConn, EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[id]
	switch {
	case c == nil:
		return nil, UnknownSession
	case !c.owns(from):
		return nil, ForeignSession
	default:
		return c, ""
	}
}
