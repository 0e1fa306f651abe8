// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

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

// ServeHTTP serves the MCP endpoint, whatever the URL's path is. It returns when
// the response is over; what it has begun may still run, and is known to Shutdown.
//
// Config.WriteTimeout bounds what it writes. Over HTTP/2 it bounds a stream, and a
// connection of which nothing is read is for the http.Server to end, by its
// HTTP2.WriteByteTimeout: without that Shutdown may wait for such a client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.newResponse(w, r)
	defer s.recycle(p)
	defer p.end()
	// A preflight of a foreign host goes on, and is refused like anything else.
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

// enter serves a request of somebody who may call.
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

// post serves a POST. Nothing is answered before the whole body is there, and the
// body is parsed once: what is checked, what is routed by and what is forwarded
// are the same spans of the same bytes (I40, I42).
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
	if mcp.IsBatch(body) {
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

// isModern decides the era of one message: modern is what says so anywhere, and
// what names a revision that is not a legacy one. A message that says nothing is
// one of 2025-03-26, which had no header for it (2026-07-28, basic/versioning,
// "Backward Compatibility"; basic/transports/streamable-http, "Protocol Version
// Header").
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

// answer carries the exchange on the response of the request that began it, and
// decides its form. It returns when the exchange is over, or when the client is
// gone: what that means is said by gone.
func (s *Server) answer(p *response, r *http.Request, x *session.Exchange, gone func()) {
	s.answerWith(p, r, x, gone, func(c *session.Consumer) session.State {
		return p.writeStream(c, streamOptions{keepAlive: s.cfg.KeepAlive, gone: r.Context().Done()})
	})
}

// respond is answer where a stream is carried in some way. The response carries the
// exchange already.
func (s *Server) answerWith(p *response, r *http.Request, x *session.Exchange, gone func(), carry func(*session.Consumer) session.State) {
	c := &p.consumer
	defer c.Detach()
	switch s.awaitForm(p, x, r.Context().Done()) {
	case session.Undecided:
		p.aborted = true // nobody is there to be told, and net/http would say 200
	case session.JSON:
		p.aborted = !p.writeObject(r, c)
	case session.SSE:
		p.beginStream()
		p.aborted = !isInOrder(carry(c))
	}
	if p.aborted {
		gone()
	}
}

// awaitForm waits until the form of the answer is clear. It returns Undecided
// when the client is gone before that.
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
