// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package faultyserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends one message to a server and returns its answer.
func ask(t *testing.T, s http.Handler, verb, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), verb, "/mcp", strings.NewReader(body)))
	return w
}

func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("answered %d %q, want %d %q", w.Code, w.Body.String(), status, body)
	}
}

const (
	discover   = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
	toolsCall  = `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"x"}}`
	unknown    = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`

	isModern = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`
	isLegacy = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"zoo","version":"1"}}}`
)

// Without a handler of the test a server behaves correctly for its era: a test of one fault
// meets no other.
func TestDefaultsOverHTTP(t *testing.T) {
	for _, tt := range []struct {
		name       string
		modern     bool
		verb, body string
		status     int
		want       string
	}{
		{"a modern server is discovered", true, "POST", discover, 200, isModern},
		{"a legacy one does not know what that is", false, "POST", discover, 200, unknown},
		{"a legacy server shakes hands", false, "POST", initialize, 200, isLegacy},
		{"a modern one does not", true, "POST", initialize, 200, unknown},
		{"a call", true, "POST", toolsCall, 200, `{"jsonrpc":"2.0","id":"c","result":{"content":[]}}`},
		{"a notification", false, "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ""},
		{"an answer", false, "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, 202, ""},
		{"no listening stream", false, "GET", "", 405, ""},
		{"a goodbye", false, "DELETE", "", 202, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: tt.modern}
			wantAnswer(t, ask(t, s, tt.verb, tt.body), tt.status, tt.want)
		})
	}
	if w := ask(t, new(faultyserver.HTTP), "POST", "no message"); w.Code != 400 {
		t.Errorf("no message: status %d, want 400", w.Code)
	}
}

// Each handshake has its own session if the server keeps sessions.
func TestSessionsOverHTTP(t *testing.T) {
	s := &faultyserver.HTTP{Sessions: true, Capabilities: `{"logging":{}}`}
	for _, want := range []string{faultyserver.SessionID, "faulty-session-2"} {
		w := ask(t, s, "POST", initialize)
		if got := w.Header().Get("Mcp-Session-Id"); got != want {
			t.Errorf("session %q, want %q", got, want)
		}
		if !strings.Contains(w.Body.String(), `"capabilities":{"logging":{}}`) {
			t.Errorf("answered %s", w.Body)
		}
	}
	if got := ask(t, new(faultyserver.HTTP), "POST", initialize).Header().Get("Mcp-Session-Id"); got != "" {
		t.Errorf("session %q of a server that keeps none", got)
	}
}

// A test answers the messages it names, and can inspect all that were received.
func TestExchange(t *testing.T) {
	s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){
		"tools/call": func(x *faultyserver.Exchange) {
			x.Begin()
			x.Begin() // a repeated call has no effect
			x.Event("7", "")
			x.Response(`{"n":1}`)
			x.Raw(": the end\n\n")
		},
		"tools/list":   func(x *faultyserver.Exchange) { x.Error(-32000, "no") },
		"prompts/list": func(x *faultyserver.Exchange) { x.Status(503, "text/plain", "later") },
		"ping":         func(x *faultyserver.Exchange) { x.Polite() },
		"GET":          func(x *faultyserver.Exchange) { x.Event("", "here") },
	}}
	w := ask(t, s, "POST", toolsCall)
	wantAnswer(t, w, 200, "event: message\nid: 7\ndata: \n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"c\",\"result\":{\"n\":1}}\n\n: the end\n\n")
	if got := w.Header().Get("Content-Type"); got != "text/event-stream" || !w.Flushed {
		t.Errorf("type %q, flushed %v", got, w.Flushed)
	}
	request := func(method string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method) }
	wantAnswer(t, ask(t, s, "POST", request("tools/list")), 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`)
	wantAnswer(t, ask(t, s, "POST", request("prompts/list")), 503, "later")
	wantAnswer(t, ask(t, s, "POST", request("ping")), 200, unknown)
	wantAnswer(t, ask(t, s, "GET", ""), 200, "event: message\ndata: here\n\n")
	if s.Count("tools/call") != 1 || s.Count("ping") != 1 || s.Count("GET") != 1 || s.Count("POST") != 0 {
		t.Errorf("counted calls %d, pings %d, GETs %d, messages without a method %d",
			s.Count("tools/call"), s.Count("ping"), s.Count("GET"), s.Count("POST"))
	}
	seen := s.Seen()
	if len(seen) != 5 || seen[0].Body != toolsCall || seen[0].ID != `"c"` || seen[0].Verb != "POST" || seen[4].Verb != "GET" {
		t.Errorf("seen %+v", seen)
	}
	seen[0].Body = "changed"
	if s.Seen()[0].Body != toolsCall {
		t.Error("what Seen returns is not the caller's own")
	}
}

// Over a real connection an answer can be held until the client has disconnected, and be
// aborted.
func TestHoldAndAbort(t *testing.T) {
	held := make(chan struct{})
	s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){
		"GET":    func(x *faultyserver.Exchange) { x.Begin(); x.Hold(); close(held) },
		"DELETE": func(x *faultyserver.Exchange) { x.Begin(); x.Abort() },
	}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	do := func(verb string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), verb, srv.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return srv.Client().Do(req)
	}
	resp, err := do(http.MethodGet)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-held:
		t.Error("the answer ended while the client was there")
	default:
	}
	resp.Body.Close()
	<-held
	resp, err = do(http.MethodDelete)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the connection ended with %v, want to find it broken", err)
	}
}

// talk is a connection to a server of lines. It ends with the test.
type talk struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Scanner
	ended chan struct{}
}

func converse(t *testing.T, s *faultyserver.Lines) *talk {
	t.Helper()
	a, b := net.Pipe()
	c := &talk{t: t, conn: a, lines: bufio.NewScanner(a), ended: make(chan struct{})}
	go func() { // ends with the connection; waited for by the cleanup
		defer close(c.ended)
		s.Serve(b)
	}()
	t.Cleanup(func() {
		a.Close()
		<-c.ended
	})
	return c
}

func (c *talk) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.t.Fatalf("say %s: %v", line, err)
	}
}

func (c *talk) want(line string) {
	c.t.Helper()
	if !c.lines.Scan() || c.lines.Text() != line {
		c.t.Errorf("heard %q (%v), want %q", c.lines.Text(), c.lines.Err(), line)
	}
}

// A server of lines behaves correctly for its era too.
func TestDefaultsOverLines(t *testing.T) {
	for _, modern := range []bool{false, true} {
		s := &faultyserver.Lines{Modern: modern}
		c := converse(t, s)
		want := map[string]string{discover: unknown, initialize: isLegacy}
		if modern {
			want = map[string]string{discover: isModern, initialize: unknown}
		}
		for _, line := range []string{discover, initialize} {
			c.say(line)
			c.want(want[line])
		}
		c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.say(toolsCall)
		c.want(`{"jsonrpc":"2.0","id":"c","result":{"content":[]}}`)
		if s.Count("notifications/initialized") != 1 || len(s.Seen()) != 4 || s.Seen()[3].Body != toolsCall {
			t.Errorf("seen %+v", s.Seen())
		}
	}
}

// A test answers the messages it names, including responses to its own requests, and closes
// the connection.
func TestLine(t *testing.T) {
	s := &faultyserver.Lines{Capabilities: `{"logging":{}}`, On: map[string]func(*faultyserver.Line){
		"tools/call": func(x *faultyserver.Line) { x.Send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`) },
		"response": func(x *faultyserver.Line) {
			x.Raw("no ")
			x.Raw("message\n")
			x.Send(string(x.Msg.Raw))
		},
		"ping": func(x *faultyserver.Line) {
			x.Error(-32000, "no")
			x.Result("{}")
			x.Close()
		},
	}}
	c := converse(t, s)
	c.say(toolsCall)
	c.want(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	for _, answer := range []string{`{"jsonrpc":"2.0","id":"q","result":{}}`, `{"jsonrpc":"2.0","id":"q","error":{"code":1,"message":""}}`} {
		c.say(answer)
		c.want("no message")
		c.want(answer)
	}
	c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`)
	c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if c.lines.Scan() {
		t.Errorf("heard %q after the end", c.lines.Text())
	}
	<-c.ended
}

// An invalid line ends the connection: the server checks the messages of clients.
func TestInvalidLineEndsConnection(t *testing.T) {
	c := converse(t, new(faultyserver.Lines))
	c.say("no message")
	<-c.ended
	if c.lines.Scan() {
		t.Errorf("heard %q", c.lines.Text())
	}
}

// A client that disconnects during an answer is not an error of the server.
func TestClientDisconnects(t *testing.T) {
	writing := make(chan struct{})
	s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
		close(writing)
		x.Result(`{"content":["nobody reads this"]}`)
	}}}
	c := converse(t, s)
	c.say(toolsCall)
	<-writing
	c.conn.Close()
	<-c.ended
}
