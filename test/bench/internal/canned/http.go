// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// Server is the backend over HTTP. It may be used concurrently.
type Server struct {
	log      *slog.Logger
	offers   sync.Map // the query of a URL to its *offer
	library  library
	sessions atomic.Uint64
	refused  atomic.Uint64
	buffers  sync.Pool
}

// NewServer makes a Server that logs unexpected requests.
func NewServer(log *slog.Logger) *Server {
	return &Server{log: log, buffers: sync.Pool{New: func() any { return new([]byte) }}}
}

// Refused returns the number of unexpected requests.
func (s *Server) Refused() uint64 { return s.refused.Load() }

// maxBody bounds a request. No request of a bench is as long.
const maxBody = 16 << 20

// ServeHTTP answers one request of either era.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, err := s.offer(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, r, "the URL of a backend", err)
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r, o)
	case http.MethodGet:
		s.hold(w, r, nil)
	case http.MethodDelete:
		w.WriteHeader(http.StatusOK)
	default:
		s.refuse(w, r, "the method of a request", errScan)
	}
}

// offer returns the offer of a query, which is made on first use.
func (s *Server) offer(query string) (*offer, error) {
	if o, ok := s.offers.Load(query); ok {
		return o.(*offer), nil
	}
	setup, err := ParseSetup(query)
	if err != nil {
		return nil, err
	}
	o, _ := s.offers.LoadOrStore(query, newOffer(setup, &s.library))
	return o.(*offer), nil
}

// refuse sends an error to the client and the log.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, what string, err error) {
	s.refused.Add(1)
	s.log.ErrorContext(r.Context(), "refused", slog.String("what", what), slog.Any("error", err))
	http.Error(w, fmt.Sprintf("canned: %s: %v", what, err), http.StatusBadRequest)
}

func (s *Server) post(w http.ResponseWriter, r *http.Request, o *offer) {
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	// Read the whole body before responding: a proxy in front may cut off an early response.
	if err := readBody(buf, r); err != nil {
		s.refuse(w, r, "reading", err)
		return
	}
	m, err := scan(*buf)
	if err != nil {
		s.refuse(w, r, "scanning", err)
		return
	}
	if m.id == nil { // a notification
		w.WriteHeader(http.StatusAccepted)
		return
	}
	modern := r.Header.Get("Mcp-Protocol-Version") == ModernVersion
	if modern && o.setup.Era != Legacy && string(m.method) == "subscriptions/listen" {
		s.hold(w, r, acknowledge(m.id))
		return
	}
	s.answer(w, o, &m, modern)
}

// readBody reads a body into a reusable buffer.
func readBody(buf *[]byte, r *http.Request) error {
	n := r.ContentLength
	if n < 0 || n > maxBody {
		return fmt.Errorf("body of %d bytes", n)
	}
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	*buf = (*buf)[:n]
	_, err := io.ReadFull(r.Body, *buf)
	return err
}

// answer writes the response to a message.
func (s *Server) answer(w http.ResponseWriter, o *offer, m *message, modern bool) {
	a, ok := o.find(m)
	h := w.Header()
	status := http.StatusOK
	switch {
	case ok && string(m.method) == "initialize":
		h.Set("Mcp-Session-Id", fmt.Sprintf("canned-%016x", s.sessions.Add(1)))
	case !ok:
		status = s.refusal(o, m, modern)
	case a.stream:
		writeStream(w, a, m, modern)
		return
	}
	tail := a.tail(modern)
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(envelope) + len(m.id) + len(tail))}
	w.WriteHeader(status)
	// A write fails only if the client has disconnected.
	_, _ = io.WriteString(w, envelope)
	_, _ = w.Write(m.id)
	_, _ = w.Write(tail) //nolint:gosec // JSON, not a page
}

// refusal returns the status of a request without a response. Only the handshake of an
// unsupported era is expected, and lists that were not declared.
func (s *Server) refusal(o *offer, m *message, modern bool) int {
	switch method := string(m.method); method {
	case "initialize", "server/discover", "resources/list", "resources/templates/list", "prompts/list":
	default:
		s.refused.Add(1)
		s.log.Error("no response", slog.String("method", method), slog.String("name", string(m.name)))
	}
	if modern && o.setup.Era != Legacy {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// writeStream writes a response as events, each immediately, like servers that report
// progress.
func writeStream(w http.ResponseWriter, a *answer, m *message, modern bool) {
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	flusher, _ := w.(http.Flusher)
	var b []byte
	if m.token != nil {
		for i := range a.events {
			b = appendProgress(append(b[:0], "data: "...), m.token, i+1, a.events)
			_, _ = w.Write(append(b, "\n\n"...)) //nolint:gosec // as above
			flusher.Flush()
		}
	}
	b = append(append(append(b[:0], "data: "...), envelope...), m.id...)
	b = append(append(b, a.tail(modern)...), "\n\n"...)
	_, _ = w.Write(b) //nolint:gosec // as above
}

// appendProgress appends the notification of a step.
func appendProgress(b, token []byte, step, of int) []byte {
	b = append(b, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...)
	b = append(append(b, token...), `,"progress":`...)
	b = append(strconv.AppendInt(b, int64(step), 10), `,"total":`...)
	return append(strconv.AppendInt(b, int64(of), 10), `}}`...)
}

// acknowledge returns the first event of a listen.
func acknowledge(id []byte) []byte {
	return fmt.Appendf(nil, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{`+
		`"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`+"\n\n", id)
}

// hold keeps an idle stream open until its client disconnects.
func (s *Server) hold(w http.ResponseWriter, r *http.Request, first []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	if first == nil {
		first = []byte(": open\n\n")
	}
	if _, err := w.Write(first); err != nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	<-r.Context().Done()
}
