// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// wire is a backend with its exact bytes in the transcript: they are not written by the
// product's own server, and may be invalid. It is reached as any other backend of its
// mode.
type wire struct {
	b *backend

	mu    sync.Mutex
	conns []*wireConn
}

// wireConn is one session with the gateway: a process, a stream, a session of HTTP. In
// the modern era over HTTP there is one for all requests.
type wireConn struct {
	w     *wire
	label string
	out   func(msg []byte) bool // sends a message; nil if each request has its own response

	// Guarded by wire.mu.
	ids     []string // of the gateway's requests, in their order
	posts   []*wirePost
	greeted bool // a session of HTTP has begun
}

// wirePost is a request over HTTP that has not been answered.
type wirePost struct {
	id  string
	out chan wireMessage
}

type wireMessage struct {
	data []byte
	ends bool
}

// open starts another session.
func (x *wire) open(out func([]byte) bool) *wireConn {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &wireConn{w: x, label: strconv.Itoa(len(x.conns) + 1), out: out}
	x.conns = append(x.conns, c)
	return c
}

func (x *wire) conn(label string) *wireConn {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.conns, func(c *wireConn) bool { return c.label == label })
	if i < 0 {
		return nil
	}
	return x.conns[i]
}

// do sends a line of the transcript: wire a> 1 {"jsonrpc":"2.0","id":1,"result":{}}. A
// numeric id represents the id of the gateway's request of that number, and so does a
// progress token.
func (x *wire) do(line string) bool {
	label, msg, _ := strings.Cut(line, " ")
	c := x.conn(label)
	return c != nil && msg != "" && c.send([]byte(expand(msg)))
}

var wireID = regexp.MustCompile(`"(id|progressToken)":\s*(\d+)`)

func (c *wireConn) send(msg []byte) bool {
	c.w.mu.Lock()
	ids := slices.Clone(c.ids)
	c.w.mu.Unlock()
	named := ""
	msg = wireID.ReplaceAllFunc(msg, func(m []byte) []byte {
		member, number := string(wireID.FindSubmatch(m)[1]), string(wireID.FindSubmatch(m)[2])
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(ids) {
			return m
		}
		if member == "id" {
			named = ids[n-1]
		}
		return []byte(`"` + member + `":` + ids[n-1])
	})
	if c.out != nil {
		return c.out(msg)
	}
	return c.answer(named, msg)
}

// answer sends a message on the response to a request: to the one that it answers, or
// to the oldest open one.
func (c *wireConn) answer(id string, msg []byte) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	i := slices.IndexFunc(c.posts, func(p *wirePost) bool { return p.id == id })
	m, err := parseObject(msg)
	ends := i >= 0 || !m.has("method") && (err == nil || msg[0] != '[')
	if i = max(i, 0); len(c.posts) == 0 {
		return false
	}
	c.posts[i].out <- wireMessage{msg, ends} // has room for more than a transcript sends
	if ends {
		c.posts = slices.Delete(c.posts, i, i+1)
	}
	return true
}

// take shows a message of the gateway, and stores the id of a request.
func (c *wireConn) take(msg []byte, m object) {
	text := compactLine(string(msg))
	if id := string(m.get("id")); id != "" && m.has("method") {
		c.w.mu.Lock()
		c.ids = append(c.ids, id)
		text = m.with("id", strconv.Itoa(len(c.ids))).withToken(len(c.ids)).String()
		c.w.mu.Unlock()
	}
	c.w.b.w.show(0, "wire "+c.w.b.name, c.label, text)
}

// withToken replaces a progress token by the number of its request.
func (o object) withToken(n int) object {
	params, err := parseObject(o.get("params"))
	if err != nil || params.meta("progressToken") == nil {
		return o
	}
	meta, err := parseObject(params.get("_meta"))
	if err != nil {
		return o
	}
	return o.with("params", params.with("_meta", meta.with("progressToken", strconv.Itoa(n)).String()).String())
}

// refusesProbe reports whether a message is the probe for the modern era, which a
// legacy server answers with an unknown method. It is not shown: it differs between
// transports.
func (x *wire) refusesProbe(m object) bool {
	return x.b.w.pair.out.era == "legacy" && m.text("method") == "server/discover"
}

func noSuchMethod(m object) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(m.get("id")) + `,"error":{"code":-32601,"message":"Method not found"}}`)
}

// servePipe serves the process on a pipe, until that ends.
func (x *wire) servePipe(pipe *memnet.Conn) {
	out := func(msg []byte) bool {
		_, err := pipe.Write(append(msg, '\n'))
		return err == nil
	}
	c := x.open(out)
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		msg := bytes.Clone(lines.Bytes())
		m, err := parseObject(msg)
		if err == nil && x.refusesProbe(m) {
			out(noSuchMethod(m))
			continue
		}
		c.take(msg, m)
	}
}

const wireSession = "session "

func (x *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m, notObject := parseObject(body)
	isOldest := x.b.w.pair.out.transport == "sse"
	switch {
	case err != nil:
		return
	case r.Method == http.MethodGet && isOldest:
		x.serveStream(w, r)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusOK)
	case r.Method != http.MethodPost, isOldest && r.URL.RawQuery == "":
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	case notObject == nil && x.refusesProbe(m):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(noSuchMethod(m))
	default:
		x.servePost(w, r, body, m)
	}
}

// serveStream serves the connection of HTTP with SSE.
func (x *wire) serveStream(w http.ResponseWriter, r *http.Request) {
	said := make(chan []byte, 64)
	c := x.open(func(msg []byte) bool { said <- msg; return true })
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	fmt.Fprintf(w, "event: endpoint\ndata: %s?conn=%s\n\n", r.URL.Path, c.label)
	_ = rc.Flush()
	for {
		select {
		case msg := <-said:
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", msg)
			_ = rc.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// servePost serves a message over HTTP. A request waits for its response, on which
// other messages may arrive before.
func (x *wire) servePost(w http.ResponseWriter, r *http.Request, body []byte, m object) {
	c := x.conn(r.URL.Query().Get("conn"))
	if c == nil {
		c = x.session(r, m)
	}
	if c == nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	isRequest := m.has("id") && m.has("method")
	if !isRequest || c.out != nil {
		c.take(body, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.text("method") == "initialize" {
		w.Header().Set("Mcp-Session-Id", wireSession+c.label)
	}
	p := &wirePost{id: string(m.get("id")), out: make(chan wireMessage, 64)}
	c.wait(p)
	c.take(body, m)
	p.serve(r.Context(), w)
	c.forget(p)
}

// session returns the session of a POST, or starts one.
func (x *wire) session(r *http.Request, m object) *wireConn {
	label, ok := strings.CutPrefix(r.Header.Get("Mcp-Session-Id"), wireSession)
	switch {
	case ok:
		return x.conn(label)
	case m.text("method") == "initialize":
		return x.begin()
	case x.b.w.pair.out.era != "modern":
		return nil
	}
	if c := x.conn("1"); c != nil {
		return c
	}
	return x.open(nil)
}

// begin starts a session of HTTP: if there were only requests of the modern era before,
// it is the first, as on a pipe.
func (x *wire) begin() *wireConn {
	if c := x.conn("1"); c != nil && !c.greets() {
		return c
	}
	c := x.open(nil)
	c.greets()
	return c
}

// greets records that a session has begun, and reports whether it had before.
func (c *wireConn) greets() (before bool) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	before, c.greeted = c.greeted, true
	return before
}

func (c *wireConn) wait(p *wirePost) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.posts = append(c.posts, p)
}

// forget removes a request that was answered or has ended.
func (c *wireConn) forget(p *wirePost) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.posts = slices.DeleteFunc(c.posts, func(o *wirePost) bool { return o == p })
}

func (p *wirePost) serve(ctx context.Context, w http.ResponseWriter) {
	streaming := false
	for {
		select {
		case said := <-p.out:
			if !streaming && said.ends {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(said.data)
				return
			}
			streaming = true
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", said.data)
			_ = http.NewResponseController(w).Flush()
			if said.ends {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
