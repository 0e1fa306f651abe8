// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package faultyserver

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// SessionID is the id that a legacy [HTTP] assigns to its first session.
const SessionID = "faulty-session-1"

// HTTP is a server over Streamable HTTP. The zero value is a correct legacy server without
// sessions or a listening stream. On and the other fields must be set before the first
// request.
type HTTP struct {
	// Modern makes the server answer server/discover as a modern server does.
	Modern bool

	// Sessions makes the server assign a session id in the answer to initialize.
	Sessions bool

	// Capabilities is what the server declares; "" means {"tools":{}}.
	Capabilities string

	// On has the test's handlers, by the method of the message, or by "GET" and "DELETE"
	// for requests without a message.
	On map[string]func(x *Exchange)

	mu       sync.Mutex
	seen     []Seen
	sessions int
}

// Seen is one request that the server has received.
type Seen struct {
	Verb   string // the HTTP method
	Method string // of the message; "" for GET, DELETE and responses
	ID     string
	Body   string
	Header http.Header
}

// Seen returns the requests received so far, in order.
func (s *HTTP) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.seen...)
}

// Count returns how many messages of the method, or requests of the HTTP method, were
// received.
func (s *HTTP) Count(method string) int {
	n := 0
	for _, r := range s.Seen() {
		if r.Method == method || r.Method == "" && r.Verb == method {
			n++
		}
	}
	return n
}

// ServeHTTP implements [http.Handler].
func (s *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	x := &Exchange{W: w, R: r, server: s}
	key := r.Method
	if r.Method == http.MethodPost {
		if x.Msg, err = mcp.Parse(body, mcp.Limits{}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key = x.Msg.Method
	}
	s.note(Seen{Verb: r.Method, Method: x.Msg.Method, ID: x.Msg.ID.String(), Body: string(body), Header: r.Header.Clone()})
	if answer, ok := s.On[key]; ok {
		answer(x)
		return
	}
	s.polite(x)
}

func (s *HTTP) note(r Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r)
}

// polite answers as a correct server does.
func (s *HTTP) polite(x *Exchange) {
	switch {
	case x.R.Method == http.MethodGet:
		x.Status(http.StatusMethodNotAllowed, "", "")
	case x.R.Method == http.MethodDelete, x.Msg.Kind != mcp.KindRequest:
		x.W.WriteHeader(http.StatusAccepted)
	case x.Msg.Method == "server/discover" && s.Modern:
		x.Result(fmt.Sprintf(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":%s}`, s.capabilities()))
	case x.Msg.Method == "initialize" && !s.Modern:
		x.Initialize()
	case x.Msg.Method == "tools/call":
		x.Result(`{"content":[]}`)
	default:
		x.Error(-32601, "method not found")
	}
}

// capabilities returns the declared capabilities. By default the server has tools.
func (s *HTTP) capabilities() string {
	if s.Capabilities == "" {
		return `{"tools":{}}`
	}
	return s.Capabilities
}

func (s *HTTP) nextSession() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	return fmt.Sprintf("faulty-session-%d", s.sessions)
}

// Exchange is one request and its response.
type Exchange struct {
	W   http.ResponseWriter
	R   *http.Request
	Msg mcp.Message // of a POST

	server    *HTTP
	streaming bool
}

// Polite answers as the server would without the test's handler.
func (x *Exchange) Polite() { x.server.polite(x) }

// Initialize answers an initialize request.
func (x *Exchange) Initialize() {
	if x.server.Sessions {
		x.W.Header().Set("Mcp-Session-Id", x.server.nextSession())
	}
	v, _ := x.Msg.Params.Text(mcp.FieldProtocolVersion)
	x.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"zoo","version":"1"}}`, v, x.server.capabilities()))
}

// Result answers with a result as a JSON document.
func (x *Exchange) Result(result string) {
	x.Status(http.StatusOK, "application/json", string(jsonrpc.AppendResult(nil, x.Msg.ID, []byte(result))))
}

// Error answers with an error as a JSON document, with the status 200.
func (x *Exchange) Error(code int64, message string) {
	x.Status(http.StatusOK, "application/json", string(jsonrpc.AppendError(nil, x.Msg.ID, mcp.Errorf(code, "%s", message))))
}

// Status answers with the given status, content type and body.
func (x *Exchange) Status(status int, contentType, body string) {
	if contentType != "" {
		x.W.Header().Set("Content-Type", contentType)
	}
	x.W.WriteHeader(status)
	x.Raw(body)
}

// Event sends one event of a stream, and begins the stream if necessary. An empty id is
// omitted.
func (x *Exchange) Event(id, data string) {
	x.Begin()
	x.Raw(string(frame.AppendEvent(nil, id, []byte(data))))
}

// Response sends the response to the request as an event.
func (x *Exchange) Response(result string) {
	x.Event("", string(jsonrpc.AppendResult(nil, x.Msg.ID, []byte(result))))
}

// Begin sends the headers of a stream.
func (x *Exchange) Begin() {
	if x.streaming {
		return
	}
	x.streaming = true
	x.W.Header().Set("Content-Type", "text/event-stream")
	x.W.WriteHeader(http.StatusOK)
	x.flush()
}

// Raw writes text unmodified.
func (x *Exchange) Raw(text string) {
	if _, err := io.WriteString(x.W, text); err != nil {
		return // the client has disconnected, which the test notices
	}
	x.flush()
}

// flush sends what was written: a test waits for it at the other end.
func (x *Exchange) flush() {
	if f, ok := x.W.(http.Flusher); ok {
		f.Flush()
	}
}

// Hold waits until the client has disconnected.
func (x *Exchange) Hold() { <-x.R.Context().Done() }

// Abort breaks the connection.
func (x *Exchange) Abort() { panic(http.ErrAbortHandler) } //nolint:forbidigo // net/http's own way of breaking a connection
