// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

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
	s.serve(w, r, func(p *response, from sender) *refusal {
		switch r.Method {
		case http.MethodPost:
			return s.post(p, r, from)
		case http.MethodGet:
			return s.legacyGet(p, r, from)
		default: // DELETE, as the checks allow no other
			return s.legacyDelete(p, r, from)
		}
	})
}

// serve makes the checks of every request to an endpoint, and calls respond if they pass.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, respond func(p *response, from sender) *refusal) {
	p := s.newResponse(w, r)
	defer p.end()
	// A preflight for another host is refused by the checks below, like any other request.
	if s.allowOrigin(w.Header(), r) && isPreflight(r) && s.isOurHost(r) {
		answerPreflight(w, r)
		return
	}
	// The origin is checked before the content, so that a foreign page learns nothing about
	// the endpoint.
	from, no := s.admit(r, (*Server).checkHeaders, (*Server).checkHost, (*Server).checkOrigin, (*Server).checkMethod, (*Server).checkQuery)
	if no == nil {
		no = respond(p, from)
	}
	if no != nil {
		s.refuse(p, r, no, from)
	}
}

// post serves a POST. It reads the whole body before it answers, and parses it once:
// checks, routing and forwarding use the same spans of the same bytes (I40, I42).
func (s *Server) post(p *response, r *http.Request, from sender) *refusal {
	if no := s.check(r, (*Server).checkContentType, (*Server).checkEncoding, (*Server).checkAcceptBoth, (*Server).checkLength); no != nil {
		return no
	}
	body, no := s.readBody(p, r)
	if no != nil {
		return no
	}
	if jsonrpc.IsBatch(body) {
		return s.legacyBatch(p, r, from, body)
	}
	m, err := mcp.Parse(body, s.cfg.Limits.message())
	if err != nil {
		return refuseParse(m.ID, err)
	}
	if isModern(&m, r.Header) {
		return s.modernPost(p, r, from, &m)
	}
	return s.legacyPost(p, r, from, &m)
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

// attach attaches a consumer to an exchange, for the response to the request that began
// it. This happens before the Handler starts and before the form of the response is
// known: messages determine the form, and an arriving result finds a consumer however
// early it is offered.
func attach(r *http.Request, x *session.Exchange) *session.Consumer {
	c := x.Stream().Attach(make(chan struct{}, 1))
	c.AcceptResultStreams(r.Context().Done())
	return c
}

// answer writes the exchange to the response of the request that began it, as JSON or as
// an event stream. It returns when the exchange has ended or the client is gone; in the
// second case the response is aborted. sess is that of a legacy client, which may resume
// the stream, or nil. The caller detaches the consumer.
func (s *Server) answer(p *response, r *http.Request, ir *inflightRequest, sess *session.Session, x *session.Exchange, c *session.Consumer) {
	p.denied = &ir.denied
	gone := r.Context().Done()
	switch s.awaitForm(x, c, gone) {
	case session.Undecided:
		p.aborted = true // the client is gone, and net/http would write 200
	case session.JSON:
		p.aborted = !p.writeObject(r, c)
	case session.SSE:
		p.beginStream()
		p.aborted = !isInOrder(s.writeStream(p, sess, c, gone))
	}
}

// awaitForm waits until it is known whether the answer is JSON or a stream. It returns
// Undecided if the client disconnects first.
func (s *Server) awaitForm(x *session.Exchange, c *session.Consumer, gone <-chan struct{}) session.Form {
	if form := x.Form(false); form != session.Undecided {
		return form
	}
	grace, ok := s.graces.Get().(*time.Timer)
	if ok {
		grace.Reset(s.cfg.Grace)
	} else {
		grace = time.NewTimer(s.cfg.Grace)
	}
	defer s.graces.Put(grace)
	defer grace.Stop()
	for {
		force := false
		select {
		case <-c.Wake():
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

const (
	// bodyGrace is how long a body of any size may take.
	bodyGrace = 10 * time.Second
	// bodyRate is the least number of bytes per second beyond that: a tenth of the
	// slowest line still in use.
	bodyRate = 1 << 10
	// firstRead is the buffer for a body without an announced length.
	firstRead = 4 << 10
	// believed is the largest announced length for which a buffer is allocated at once.
	believed = 16 * firstRead
)

// beginnings are buffers for bodies with a larger announced length, until that much has
// been received.
//
//nolint:gochecknoglobals // a pool is shared by nature
var beginnings = sync.Pool{New: func() any { return new([believed]byte) }}

var errBodyTooLong = errors.New("body exceeds the limit")

// readBody reads the whole body, because net/http may lose a response that is begun
// before that. The two errors that the client can correct have their own messages; the
// others rarely reach it.
func (s *Server) readBody(p *response, r *http.Request) ([]byte, *refusal) {
	pace := bodyPace{rc: &p.rc, start: time.Now()}
	body, err := readAll(r.Body, r.ContentLength, s.cfg.Limits.RequestBody, &pace)
	switch {
	case err == nil:
		r.Body.Close() // it has been read, and net/http need not look for more
		return body, nil
	case errors.Is(err, errBodyTooLong):
		return nil, s.refuseLength()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body arrived too slowly: less than %s per second", bytesText(bodyRate))
	default:
		return nil, refuse(http.StatusBadRequest, "the body ended too early")
	}
}

// readAll reads up to limit bytes. It allocates an announced length only as data arrives:
// a thousand connections that announce the limit and send nothing must not cost a
// thousand times the limit.
func readAll(r io.Reader, length, limit int64, pace *bodyPace) ([]byte, error) {
	if length > believed {
		return readLong(r, length, limit, pace)
	}
	size := int64(firstRead)
	if length >= 0 {
		size = length + 1 // one more, to detect the end
	}
	return readOn(r, make([]byte, 0, size), length, limit, pace)
}

// readLong allocates the announced length after the first part has been received.
func readLong(r io.Reader, length, limit int64, pace *bodyPace) ([]byte, error) {
	lent, _ := beginnings.Get().(*[believed]byte)
	defer beginnings.Put(lent)
	for n := 0; n < len(lent); {
		pace.expect(n)
		m, err := r.Read(lent[n:])
		if n += m; err != nil {
			return nil, err // io.EOF, too, is too early here
		}
	}
	return readOn(r, append(make([]byte, 0, length+1), lent[:]...), length, limit, pace)
}

// readOn appends the rest to buf.
func readOn(r io.Reader, buf []byte, length, limit int64, pace *bodyPace) ([]byte, error) {
	for {
		pace.expect(len(buf))
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, errBodyTooLong
		case errors.Is(err, io.EOF) && int64(len(buf)) < length:
			return nil, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) == cap(buf):
			buf = slices.Grow(buf, len(buf))
		}
	}
}

// bodyPace moves the read deadline of the connection so that a body at the minimum rate
// is never cut. net/http resets the deadline once the body is read.
type bodyPace struct {
	rc    *http.ResponseController
	start time.Time
}

// expect sets the deadline of the next read after n bytes.
func (p *bodyPace) expect(n int) {
	earned := bodyGrace + time.Duration(n)*time.Second/bodyRate
	// A writer without deadlines, as in a test, has the whole body in memory.
	_ = p.rc.SetReadDeadline(p.start.Add(earned))
}
