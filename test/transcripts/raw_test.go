// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// stdioWire is a client on a pair of pipes.
type stdioWire struct {
	c    *transcriptClient
	conn *memnet.Conn
}

// pipe returns the pipe. The gateway starts to serve it with the first line.
func (s *stdioWire) pipe() *memnet.Conn {
	if s.conn == nil {
		s.conn = s.c.w.servePipe(func(line []byte) { s.c.receive(nil, line) }, s.ended)
	}
	return s.conn
}

func (s *stdioWire) ended() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.listening && !s.c.in.modern() {
		s.c.show(listenLabel, "end")
	}
}

func (s *stdioWire) request(_ *exchange, msg []byte) { s.note(msg) }

func (s *stdioWire) note(msg []byte) {
	if _, err := s.pipe().Write(append(msg, '\n')); err != nil {
		s.c.show("", "BREACH: "+err.Error())
	}
}

func (s *stdioWire) listen() bool        { return true } // a pipe always listens
func (s *stdioWire) unlisten() bool      { return false }
func (s *stdioWire) drop(*exchange) bool { return false }

func (s *stdioWire) resume(*exchange) bool { return false }

// servePipe makes the gateway serve a pipe and passes its lines to take.
func (w *world) servePipe(take func([]byte), ended func()) *memnet.Conn {
	near, far := memnet.Pipe(1 << 20)
	ctx, cancel := context.WithCancel(signalbox.WithProfile(context.Background(), w.d.modes.profile))
	var tasks sync.WaitGroup
	tasks.Go(func() { // ends with the pipe or the gateway
		_ = w.gateway.ServeStdio(ctx, far, far)
		_ = far.Close()
	})
	tasks.Go(func() { // ends with the pipe
		lines := bufio.NewScanner(near)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			take(append([]byte(nil), lines.Bytes()...))
		}
		if ctx.Err() == nil {
			ended()
		}
	})
	w.t.Cleanup(func() {
		cancel()
		_ = near.Close()
		tasks.Wait()
	})
	return near
}

// rawPipe is a client with its exact lines in the transcript. Each name is a pipe of
// its own: stdio>, stdio b>.
type rawPipe struct {
	w    *world
	conn *memnet.Conn
}

func (w *world) rawPipe(name string) *rawPipe {
	if p, ok := w.pipes[name]; ok {
		return p
	}
	source := strings.TrimSpace("stdio " + name)
	p := &rawPipe{w: w}
	p.conn = w.servePipe(
		func(line []byte) { w.show(2, source, "", compactLine(string(line))) },
		func() { w.show(2, source, "", "end") })
	w.pipes[name] = p
	return p
}

// do writes a line: stdio> {"jsonrpc":"2.0","id":1,"method":"ping"}. The line "stdio>
// close" ends the client's input.
func (p *rawPipe) do(line string) bool {
	if line == "close" {
		return p.conn.CloseWrite() == nil
	}
	_, err := io.WriteString(p.conn, expand(line)+"\n")
	return err == nil
}

// rawHTTP is a client with its exact requests in the transcript.
type rawHTTP struct {
	w       *world
	client  http.Client
	tasks   sync.WaitGroup
	stops   map[string]context.CancelFunc
	session string          // the last Mcp-Session-Id
	to      string          // the id of the last connection of HTTP with SSE
	state   string          // the last requestState that was sealed
	all     context.Context // ends everything
}

func (w *world) rawHTTP() *rawHTTP {
	if w.raw != nil {
		return w.raw
	}
	tr := w.transport()
	tr.DisableCompression = true
	ctx, cancel := context.WithCancel(context.Background())
	w.raw = &rawHTTP{w: w, client: http.Client{Transport: tr}, all: ctx, stops: make(map[string]context.CancelFunc)}
	w.t.Cleanup(func() {
		cancel()
		w.raw.tasks.Wait()
		tr.CloseIdleConnections()
	})
	return w.raw
}

// do sends a request:
//
//	http> 1 POST
//	  Mcp-Method: tools/list
//	  {"jsonrpc":"2.0","id":1,"method":"tools/list"}
//
// A line of the body that is not a header is the content. Accept and Content-Type are
// those of an ordinary client unless they are given; "-" leaves one out. The word
// $session is replaced by the last session of the gateway, $state by the requestState,
// shown only by its beginning, and $connection by the id of the last connection of
// HTTP with SSE.
//
// After the method may follow another path than that of the endpoint, and the members
// to show of the object in the response (http> 1 GET /status draining), or how often
// the request is made at once (http> 1 GET times=100): then the statuses of the
// responses are counted.
func (h *rawHTTP) do(args, body []string) bool {
	if len(args) < 2 {
		return false
	}
	label, method := args[0], args[1]
	if method == "close" { // http> 1 close
		h.stops[label]()
		return true
	}
	ctx, cancel := context.WithCancel(h.all)
	h.stops[label] = cancel
	r := h.request(ctx, method, body)
	var members []string
	for _, arg := range args[2:] {
		if times, ok := strings.CutPrefix(arg, "times="); ok {
			cancel()
			return h.flood(label, times, r)
		}
		if strings.HasPrefix(arg, "/") {
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut(h.w.withTokens(strings.ReplaceAll(arg, "$connection", h.to)), "?")
		} else {
			members = append(members, arg)
		}
	}
	h.tasks.Go(func() { // ends with the answer or the context; the run waits for it
		defer cancel()
		h.exchange(label, r, members)
	})
	return true
}

// flood makes a request many times and counts the responses.
func (h *rawHTTP) flood(label, times string, r *http.Request) bool {
	n, err := strconv.Atoi(times)
	answers := make(map[int]int)
	for range n {
		res, err := h.client.Do(r.Clone(h.all))
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		answers[res.StatusCode]++
	}
	for status, n := range answers {
		h.w.show(2, "http", label, fmt.Sprintf("%d times %d", n, status))
	}
	return err == nil
}

func (h *rawHTTP) request(ctx context.Context, method string, body []string) *http.Request {
	header := http.Header{"Accept": {"application/json, text/event-stream"}}
	if method == http.MethodPost {
		header.Set("Content-Type", "application/json")
	}
	var content []string
	given := make(map[string]bool)
	for _, line := range body {
		line = h.w.withTokens(strings.NewReplacer("$session", h.session, "$state", h.state, "$connection", h.to).Replace(expand(line)))
		key, value, ok := strings.Cut(line, ": ")
		switch {
		case !ok || strings.ContainsAny(key, `{["`):
			content = append(content, line)
		case given[key]:
			header.Add(key, value)
		case value == "-":
			header.Del(key)
		default:
			header.Set(key, value)
		}
		given[key] = true
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+endpointPath, strings.NewReader(strings.Join(content, "\n")))
	if err != nil {
		h.w.t.Fatal(err)
	}
	if host := header.Get("Host"); host != "" {
		r.Host = host
		header.Del("Host")
	}
	r.Header = header
	return r
}

// hideState stores the state in a result, which is different each time, and leaves its
// kind.
func (h *rawHTTP) hideState(msg []byte) []byte {
	const member = `"requestState":"`
	before, state, ok := strings.Cut(string(msg), member)
	state, after, closed := strings.Cut(state, `"`)
	kind, _, sealed := strings.Cut(state, ".")
	if !ok || !closed || !sealed {
		return msg
	}
	h.state = state
	return []byte(before + member + kind + `.$state"` + after)
}

func (h *rawHTTP) exchange(label string, r *http.Request, members []string) {
	res, err := h.client.Do(r)
	if err != nil {
		return // closed by the transcript
	}
	defer res.Body.Close()
	say := func(format string, args ...any) { h.w.show(2, "http", label, fmt.Sprintf(format, args...)) }
	say("%s", strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))))
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		h.session = id
		say("Mcp-Session-Id: $session")
	}
	for _, key := range []string{"Allow", "Accept-Post", "Retry-After", "Www-Authenticate"} {
		if v := res.Header.Get(key); v != "" {
			say("%s: %s", key, v)
		}
	}
	readMessages(res, &streamPosition{}, func(msg []byte) {
		if id, ok := strings.CutPrefix(string(msg), ssePath+"?sessionId="); ok {
			h.to = id
			msg = []byte(ssePath + "?sessionId=$connection")
		}
		if o, err := parseObject(msg); err == nil && members != nil {
			msg = []byte(o.only(members...).String())
		}
		say("%s", compactLine(strings.TrimSpace(string(h.hideState(msg)))))
	})
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") && r.Context().Err() == nil {
		say("end")
	}
}
