// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The headers of the transport.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
	paramPrefix   = "Mcp-Param-"

	lastEventHeader = "Last-Event-Id"
)

// ServeHTTP serves the MCP endpoint, whatever the path of the URL is. It returns when the
// response is complete. Requests that it started may still run, and Shutdown waits for
// them.
//
// Config.WriteTimeout bounds each write. Over HTTP/2 it bounds a stream. A connection
// that the client does not read from must be closed by the http.Server, with
// HTTP2.WriteByteTimeout; without it Shutdown may wait for such a client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.newResponse(w, r)
	defer s.recycle(p)
	defer p.end()
	// A preflight for a foreign host goes on, and is refused like any other request.
	if s.allowOrigin(w.Header(), r) && isPreflight(r) && s.isOurHost(r) {
		answerPreflight(w, r)
		return
	}
	principal, no := s.admit(r, entryChecks())
	if no == nil {
		no = s.serveMethod(p, r, principal)
	}
	if no != nil {
		s.refuse(p, r, no, principal)
	}
}

// serveMethod serves a request that has passed the checks.
func (s *Server) serveMethod(p *response, r *http.Request, principal string) *refusal {
	switch r.Method {
	case http.MethodPost:
		return s.post(p, r, principal)
	case http.MethodGet:
		return s.legacyGet(p, r, principal)
	default:
		return s.legacyDelete(p, r, principal)
	}
}

// post serves a POST. It reads the whole body before it answers, and parses it once:
// checks, routing and forwarding use the same spans of the same bytes (I40, I42).
func (s *Server) post(p *response, r *http.Request, principal string) *refusal {
	for _, check := range postChecks() {
		if no := check(s, r); no != nil {
			return no
		}
	}
	body, no := s.readBody(p, r)
	if no != nil {
		return no
	}
	if jsonrpc.IsBatch(body) {
		return s.legacyBatch(p, r, principal, body)
	}
	m, err := mcp.Parse(body, s.cfg.Limits.message())
	if err != nil {
		return refuseParse(m.ID, err)
	}
	if isModern(&m, r.Header) {
		return s.modernPost(p, r, principal, &m)
	}
	return s.legacyPost(p, r, principal, &m)
}

// isModern decides the era of one message. A message is modern if it carries anything of
// the modern metadata, or names a revision that is not a legacy one. A message with no
// indication is one of 2025-03-26, which had no header for it (2026-07-28,
// basic/versioning, "Backward Compatibility"; basic/transports/streamable-http, "Protocol
// Version Header").
func isModern(m *mcp.Message, h http.Header) bool {
	version := h.Get(versionHeader)
	switch {
	case m.Params.Has(mcp.MetaVersion):
		return true
	case h.Get(sessionHeader) != "", m.Method == "initialize":
		return false
	case version == "":
		return h.Get(methodHeader) != "" || isModernLine(m)
	default:
		return mcp.Version(version).Era() != mcp.EraLegacy
	}
}

// answer writes the exchange to the response of the request that began it, as JSON or as
// an event stream. It returns when the exchange has ended or the client is gone. In the
// second case it calls gone, which decides what a disconnect means.
func (s *Server) answer(p *response, r *http.Request, x *session.Exchange, gone func()) {
	s.answerWith(p, r, x, gone, func(c *session.Consumer) session.State {
		return p.writeStream(c, streamOptions{keepAlive: s.cfg.KeepAlive, gone: r.Context().Done()})
	})
}

// answerWith is answer with the given function to write a stream. The response must be
// attached to the exchange.
func (s *Server) answerWith(p *response, r *http.Request, x *session.Exchange, gone func(), write func(*session.Consumer) session.State) {
	c := &p.consumer
	defer c.Detach()
	switch s.awaitForm(p, x, r.Context().Done()) {
	case session.Undecided:
		p.aborted = true // the client is gone, and net/http would write 200
	case session.JSON:
		p.aborted = !p.writeObject(r, c)
	case session.SSE:
		p.beginStream()
		p.aborted = !isInOrder(write(c))
	}
	if p.aborted {
		gone()
	}
}

// awaitForm waits until it is known whether the answer is JSON or a stream. It returns
// Undecided if the client disconnects first.
func (s *Server) awaitForm(p *response, x *session.Exchange, gone <-chan struct{}) session.Form {
	if form := x.Form(false); form != session.Undecided {
		return form
	}
	grace := p.graceFor(s.cfg.Grace)
	defer grace.Stop()
	for {
		force := false
		select {
		case <-p.consumer.Wake():
		case <-grace.C:
			force = true
		case <-gone:
			return session.Undecided
		}
		if form := x.Form(force); form != session.Undecided {
			return form
		}
	}
}
