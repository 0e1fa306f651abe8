// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a canned backend behind front, unless that is nil.
func backend(t *testing.T, front func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	var h http.Handler = canned.NewServer(slog.New(slog.DiscardHandler))
	if front != nil {
		h = front(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestClientInBothEras(t *testing.T) {
	s := backend(t, nil)
	for _, era := range []canned.Era{canned.Legacy, canned.Modern} {
		for tool, progress := range map[string]int{"text_100": 0, "text_1048576": 0, "sse_0": 0, "sse_5": 5} {
			t.Run(fmt.Sprint(era, tool), func(t *testing.T) {
				target := Target{URL: s.URL + "/mcp?" + canned.Setup{Era: era}.Query(), Era: era}
				judged := 0
				c, err := NewClient(t.Context(), target, ToolCall(tool, true), func([]byte) error { judged++; return nil })
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(t.Context())
				for range 3 {
					got, err := c.Call(t.Context())
					if err != nil || got != progress {
						t.Errorf("%d notifications and %v, want %d", got, err, progress)
					}
				}
				if judged != 1 {
					t.Errorf("judged %d times, want once", judged)
				}
			})
		}
	}
}

func TestCallWithText(t *testing.T) {
	for _, size := range []int{0, 1 << 10, 1 << 20} {
		var params struct{ Arguments struct{ Path, Text string } }
		call := ToolCall("text_100", false).WithText(size)
		if err := json.Unmarshal([]byte("{"+call.Params+"}"), &params); err != nil {
			t.Fatal(err)
		}
		if n := len(call.Params); n < size || n > size+200 || params.Arguments.Path == "" || (size > 0) != strings.Contains(params.Arguments.Text, "\n") {
			t.Errorf("the params have %d bytes, want about %d: %.200s", n, size, call.Params)
		}
	}
}

func TestClientTakesTurns(t *testing.T) {
	var asked []string
	s := backend(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header.Get("Mcp-Name"))
			h.ServeHTTP(w, r)
		})
	})
	target := Target{URL: s.URL, Era: canned.Modern}
	c, err := NewClient(t.Context(), target, ToolCall("text_100", false), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.Add(t.Context(), ToolCall("sse_0", false), nil); err != nil {
		t.Fatal(err)
	}
	call := func() {
		if _, err := c.Call(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	asked = nil
	call()
	if got := strings.Join(asked, " "); got != "text_100 sse_0" {
		t.Errorf("one call asked for %s, want both", got)
	}
	asked = nil
	c.TakeTurns()
	call()
	call()
	call()
	if got := strings.Join(asked, " "); got != "text_100 sse_0 text_100" {
		t.Errorf("three calls in turns asked for %s", got)
	}
}

func TestBeginLeavesTheRestWhereItIs(t *testing.T) {
	s := backend(t, nil)
	c, err := NewClient(t.Context(), Target{URL: s.URL, Era: canned.Modern}, ToolCall("text_1048576", false), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context()); err != nil {
		t.Errorf("a call after it: %v", err)
	}
}

// writeBody writes a body. A write error means that the client has disconnected.
func writeBody(w io.Writer, body string) { _, _ = io.WriteString(w, body) }

// spoiler corrupts the responses of a backend, from the second call on.
func spoiler(spoil func(w http.ResponseWriter, body string)) func(http.Handler) http.Handler {
	var calls atomic.Int32
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				h.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			spoil(w, rec.Body.String())
		})
	}
}

func TestEachWrongAnswerIsAnError(t *testing.T) {
	for name, spoil := range map[string]func(w http.ResponseWriter, body string){
		"a byte less": func(w http.ResponseWriter, body string) { writeBody(w, strings.Replace(body, "train", "trai", 1)) },
		"another byte": func(w http.ResponseWriter, body string) {
			writeBody(w, strings.Replace(body, "points", "pointz", 1))
		},
		"another id": func(w http.ResponseWriter, body string) {
			writeBody(w, strings.Replace(body, `"id":1`, `"id":2`, 1))
		},
		"nothing":         func(http.ResponseWriter, string) {},
		"twice":           func(w http.ResponseWriter, body string) { writeBody(w, body+body) },
		"another status":  func(w http.ResponseWriter, body string) { w.WriteHeader(500); writeBody(w, body) },
		"an empty stream": func(w http.ResponseWriter, _ string) { w.Header().Set("Content-Type", "text/event-stream") },
		"a cut answer": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			writeBody(w, body[:len(body)/2])
			panic(http.ErrAbortHandler)
		},
		"a stranger's event": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Type", "text/event-stream")
			writeBody(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: "+body+"\n\n")
		},
		"something behind the answer": func(w http.ResponseWriter, body string) {
			w.Header().Set("Content-Type", "text/event-stream")
			writeBody(w, "data: "+body+"\n\ndata: "+body+"\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := backend(t, spoiler(spoil))
			c, err := NewClient(t.Context(), Target{URL: s.URL, Era: canned.Modern}, ToolCall("text_100", false), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			r := Run(t.Context(), []*Client{c}, 3)
			if r.Errors != 3 || r.Calls != 0 || r.First == nil {
				t.Errorf("%d errors and %d calls, want 3 and 0", r.Errors, r.Calls)
			}
		})
	}
}

func TestFirstAnswerIsJudged(t *testing.T) {
	s := backend(t, nil)
	target := Target{URL: s.URL, Era: canned.Modern}
	wrong := errors.New("wrong")
	if _, err := NewClient(t.Context(), target, ToolCall("text_100", false), func([]byte) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v, want what the judge says", err)
	}
	if _, err := NewClient(t.Context(), target, ToolCall("none", false), nil); err == nil {
		t.Error("no error for a tool that is not there")
	}
	for name, message := range map[string]string{
		"an error": `{"jsonrpc":"2.0","id":1000000001,"error":{"code":1,"message":"x"}}`,
		"another":  `{"jsonrpc":"2.0","id":1000000002,"result":{}}`,
		"no JSON":  `{"jsonrpc":`,
		"twice":    `{"jsonrpc":"2.0","id":1000000001,"result":{"x":1000000001}}`,
	} {
		if _, err := learn([]byte(message), []byte("1000000001"), nil); err == nil {
			t.Errorf("%s: learned without an error", name)
		}
	}
}

func TestRunMakesSoManyCalls(t *testing.T) {
	var made atomic.Int32
	fail := errors.New("every third")
	callers := make([]Caller, 4)
	for i := range callers {
		callers[i] = CallerFunc(func(context.Context) error {
			if made.Add(1)%3 == 0 {
				return fail
			}
			return nil
		})
	}
	r := Run(t.Context(), callers, 30)
	if made.Load() != 30 || r.Calls != 20 || r.Errors != 10 || !errors.Is(r.First, fail) {
		t.Errorf("made %d, succeeded %d, failed %d with %v", made.Load(), r.Calls, r.Errors, r.First)
	}
	if n := r.Latency.TotalCount(); n != 20 {
		t.Errorf("%d times measured, want those of the calls that succeeded", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := Run(ctx, callers, 30); r.Calls+r.Errors != 0 {
		t.Errorf("%d calls after the end", r.Calls+r.Errors)
	}
}

func TestSessions(t *testing.T) {
	open := make(map[string]bool)
	s := backend(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				delete(open, r.Header.Get("Mcp-Session-Id"))
			}
			h.ServeHTTP(w, r)
			if id := w.Header().Get("Mcp-Session-Id"); id != "" {
				open[id] = true
			}
		})
	})
	target := Target{URL: s.URL, Era: canned.Legacy, Local: "127.0.0.1"}
	host, err := target.Host()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(t.Context(), host, target.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := Visit(t.Context(), conn, target, []Call{ToolCall("text_100", false)}, nil); err != nil {
		t.Error(err)
	}
	if len(open) != 0 {
		t.Errorf("%d sessions open after a visit", len(open))
	}
	id, err := OpenSession(t.Context(), conn, target)
	if err != nil || !open[id] {
		t.Fatalf("session %q, %v", id, err)
	}
	stream, err := OpenStream(t.Context(), target, id)
	if err != nil {
		t.Fatal(err)
	}
	stream.Close()
	c, err := Resume(t.Context(), target, id, ToolCall("text_100", false), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Leave()
	if len(open) != 1 {
		t.Errorf("%d sessions open, want the one that was left open", len(open))
	}
	if err := CloseSession(t.Context(), conn, target, id); err != nil || len(open) != 0 {
		t.Errorf("%d sessions open and %v after the end", len(open), err)
	}
}

// Streams share connections, and are open until they are closed.
func TestShared(t *testing.T) {
	var open, connections atomic.Int64
	var all sync.WaitGroup
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Mcp-Session-Id") != "known" || r.Header.Get("Accept") != "text/event-stream" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		open.Add(1)
		all.Add(1)
		defer all.Done()
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ConnState = func(_ net.Conn, to http.ConnState) {
		if to == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	shared := NewShared(Target{URL: s.URL, Era: canned.Legacy})
	const streams = 20
	for range streams {
		if err := shared.Open(t.Context(), "known"); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.Open(t.Context(), "unknown"); err == nil {
		t.Error("a stream of no session is open")
	}
	// A connection is registered slightly after its first stream is open.
	if open.Load() != streams || connections.Load() >= streams/2 {
		t.Errorf("%d streams on %d connections", open.Load(), connections.Load())
	}
	shared.Close()
	all.Wait()
	s.Close()
}

func TestPipe(t *testing.T) {
	for _, era := range []canned.Era{canned.Legacy, canned.Modern} {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- canned.ServeStdio(in, out, canned.Setup{Era: era}) }()
		p, err := NewPipe(toServer, fromServer, era, ToolCall("sse_5", true), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.Call(t.Context()); n != 5 || err != nil {
			t.Errorf("%s: %d notifications and %v", era, n, err)
		}
		toServer.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// A gateway that has just learned its backends sends notices.
func TestPipeIgnoresThatListsChange(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
	const answer = `{"jsonrpc":"2.0","id":%d,"result":{}}` + "\n"
	said := changed + fmt.Sprintf(answer, FirstID+1) + changed + changed + fmt.Sprintf(answer, FirstID+2) +
		`{"jsonrpc":"2.0","method":"ping","id":1}` + "\n"
	p, err := NewPipe(io.Discard, strings.NewReader(said), canned.Modern, ToolCall("text_1", false), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Call(t.Context()); n != 0 || err != nil {
		t.Errorf("%d notifications and %v", n, err)
	}
	if _, err := p.Call(t.Context()); err == nil {
		t.Error("a request of the server is taken for nothing")
	}
}

// answers serves one connection with data that an HTTP server would not send.
func answers(t *testing.T, raw string) Target {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			writeBody(c, raw)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return Target{URL: "http://" + l.Addr().String(), Era: canned.Modern}
}

func TestConnReadsHTTP(t *testing.T) {
	tests := []struct {
		name, raw, body string
		status          int
		bad             bool
	}{
		{name: "a length", raw: "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", body: "abc", status: 200},
		{name: "chunks", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", body: "abcde", status: 200},
		{name: "nothing to read", raw: "HTTP/1.1 202 Accepted\r\n\r\n", status: 202},
		{name: "no length", raw: "HTTP/1.1 200 OK\r\n\r\nabc", bad: true},
		{name: "a cut chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", bad: true},
		{name: "no last chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", bad: true},
		{name: "a chunk without a size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", bad: true},
		{name: "a length that is none", raw: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", bad: true},
		{name: "a field without a value", raw: "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", bad: true},
		{name: "another protocol", raw: "HTTP/1.0 200 OK\r\n\r\n", bad: true},
		{name: "no status", raw: "HTTP/1.1 abc\r\n\r\n", bad: true},
		{name: "nothing", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := answers(t, tt.raw)
			host, _ := target.Host()
			c, err := Dial(t.Context(), host, "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := c.Exchange(t.Context(), []byte("GET / HTTP/1.1\r\n\r\n"))
			if tt.bad {
				if err == nil {
					t.Errorf("got %+v, want an error", r)
				}
				return
			}
			if err != nil || r.Status != tt.status || string(r.Body) != tt.body {
				t.Errorf("got %d %q and %v", r.Status, r.Body, err)
			}
		})
	}
}

func TestCallAllocatesLittle(t *testing.T) {
	// The load generator shares the machine with the measured program, and its garbage is
	// collected on the same cores. The server here allocates, so this measures what a client
	// does with a response that it has.
	r := withIDs([]byte(Body(canned.Modern, ToolCall("text_100", true))), 0)
	if len(r.ids) != 2 {
		t.Fatalf("the id stands in %d places, want itself and the token", len(r.ids))
	}
	a := &answer{before: []byte(`{"id":`), after: []byte(`,"result":{}}`)}
	digits := []byte("1000000007")
	message := []byte(`{"id":1000000007,"result":{}}`)
	got := testing.AllocsPerRun(100, func() {
		r.with(digits)
		if err := a.check(message, digits); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
