// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
)

// httpWire is a client on Streamable HTTP.
type httpWire struct {
	c      *transcriptClient
	client http.Client
	tasks  sync.WaitGroup

	session string
	get     context.CancelFunc // ends the standalone stream
	all     context.Context    // ends everything
}

func newHTTPWire(c *transcriptClient) *httpWire {
	tr := c.w.transport()
	tr.DisableCompression = true
	ctx, cancel := context.WithCancel(context.Background())
	h := &httpWire{c: c, client: http.Client{Transport: tr}, all: ctx}
	c.w.t.Cleanup(func() {
		cancel()
		h.tasks.Wait()
		tr.CloseIdleConnections()
	})
	return h
}

// newRequest makes a request with the headers that the era requires.
func (h *httpWire) newRequest(ctx context.Context, method string, body []byte) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", bytes.NewReader(body))
	if err != nil {
		h.c.w.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if h.c.w.isPrincipal(h.c.name) {
		r.Header.Set("Authorization", h.c.w.withTokens("Bearer value-of-"+strings.ToUpper(h.c.name)))
	}
	if h.session != "" {
		r.Header.Set("Mcp-Session-Id", h.session)
	}
	if v := h.c.in.version; h.session != "" && v >= "2025-06-18" || h.c.in.modern() {
		r.Header.Set("MCP-Protocol-Version", string(v))
	}
	return r
}

// mirror adds the headers of the modern era that repeat the body.
func mirror(h http.Header, x *exchange) {
	h.Set("Mcp-Method", x.method)
	switch x.method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", encodeHeader(x.params.text("name")))
	case "tasks/get", "tasks/update", "tasks/cancel":
		h.Set("Mcp-Name", encodeHeader(x.params.text("taskId")))
	case "resources/read":
		h.Set("Mcp-Name", encodeHeader(x.params.text("uri")))
	}
	for _, m := range x.opts.params {
		h.Set("Mcp-Param-"+m.name, encodeHeader(x.opts.params.text(m.name)))
	}
}

// encodeHeader: 2026-07-28, basic/transports/streamable-http, "Value Encoding".
func encodeHeader(s string) string {
	plain := s != "" && s == strings.TrimSpace(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func (h *httpWire) request(x *exchange, msg []byte) {
	ctx, cancel := context.WithCancel(h.all)
	x.stop = cancel
	r := h.newRequest(ctx, http.MethodPost, msg)
	if h.c.in.modern() {
		mirror(r.Header, x)
	}
	h.tasks.Go(func() { // ends with the answer or the context; the run waits for it
		defer cancel()
		h.exchange(r, x)
	})
	if x.method == "initialize" {
		synctest.Wait() // the session is in the header of the response
	}
}

// exchange sends a request and reads the response.
func (h *httpWire) exchange(r *http.Request, x *exchange) {
	res, err := h.client.Do(r)
	if err != nil {
		h.lost(x)
		return
	}
	defer res.Body.Close()
	if x.method == "initialize" {
		h.session = res.Header.Get("Mcp-Session-Id")
	}
	readMessages(res, &x.at, func(msg []byte) { h.c.receive(x, msg) })
	h.lost(x)
}

// resume reconnects for the rest of the stream of an exchange.
func (h *httpWire) resume(x *exchange) bool {
	if x == nil || x.at.last == "" {
		return false
	}
	ctx, cancel := context.WithCancel(h.all)
	x.stop = cancel
	h.c.unmark(x)
	r := h.newRequest(ctx, http.MethodGet, nil)
	r.Header.Set("Last-Event-ID", x.at.last)
	h.tasks.Go(func() { // ends with the stream or the context; the run waits for it
		defer cancel()
		h.exchange(r, x)
	})
	return true
}

// lost reports a stream that ended without a response, unless the client itself has
// ended it.
func (h *httpWire) lost(x *exchange) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	switch {
	case x.over || x.cancelled || h.all.Err() != nil:
	case x.at.retry != "" && x.label != listenLabel:
		x.at.retry = ""
		h.c.show(x.label, "paused")
	case len(x.watch) > 0, x.label == listenLabel && !h.c.in.modern() && !h.c.listening:
	case x.label == listenLabel && !h.c.in.modern():
		h.c.show(x.label, "end")
	default:
		h.c.show(x.label, "lost")
	}
}

// readMessages passes each message of a body to take, and records its position in the
// stream.
func readMessages(res *http.Response, at *streamPosition, take func(msg []byte)) {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(res.Body)
		if err == nil && len(body) > 0 {
			take(body)
		}
		return
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 64<<20)
	var data []string
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(text, " "))
		}
		if name, ok := strings.CutPrefix(line, "event:"); ok {
			at.name = strings.TrimPrefix(name, " ")
		}
		if id, ok := strings.CutPrefix(line, "id:"); ok {
			at.id = strings.TrimPrefix(id, " ")
		}
		if text, ok := strings.CutPrefix(line, "retry:"); ok {
			at.retry = strings.TrimPrefix(text, " ")
		}
		if line == "" && strings.Join(data, "") != "" { // otherwise it only gives the position
			take([]byte(strings.Join(data, "\n")))
		}
		if line == "" {
			data, at.last = nil, at.id
		}
	}
}

// streamPosition is how far a client has read a stream of events.
type streamPosition struct {
	id    string // of the event that is being read
	name  string // likewise
	last  string // of the last whole event
	retry string // in milliseconds, the last one sent
}

// note posts a message that has no response, other than its acceptance.
func (h *httpWire) note(msg []byte) {
	r := h.newRequest(h.all, http.MethodPost, msg)
	h.tasks.Go(func() { // ends with the answer; the run waits for it
		res, err := h.client.Do(r)
		if err != nil {
			return
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusAccepted {
			body, _ := io.ReadAll(res.Body)
			h.c.show("", "BREACH: "+res.Status+" "+string(body))
		}
	})
}

func (h *httpWire) drop(x *exchange) bool {
	if x == nil || x.stop == nil {
		return false
	}
	x.stop()
	return true
}

// listen opens the standalone stream of the session.
func (h *httpWire) listen() bool {
	ctx, cancel := context.WithCancel(h.all)
	x := &exchange{label: listenLabel, stop: cancel}
	h.c.add(x)
	h.get = func() {
		h.c.mark(x)
		x.stop()
	}
	r := h.newRequest(ctx, http.MethodGet, nil)
	h.tasks.Go(func() { h.exchange(r, x) }) // ends with the stream; the run waits for it
	return true
}

func (h *httpWire) unlisten() bool {
	if h.get == nil {
		return false
	}
	h.get()
	return true
}
