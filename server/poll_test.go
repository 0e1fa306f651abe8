// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// extension returns the extension of the caller of the running call.
func (k *scriptedTool) extension() mcp.CallerExtension { return (<-k.caller).Extension() }

// "The server MAY close the connection (without terminating the SSE stream) ... it
// SHOULD send an SSE event with a standard retry field before closing the
// connection" (2025-11-25, basic/transports, "Sending Messages to the Server").
//
// R8+ 2025-11-25 basic/transports: "it SHOULD send an SSE event with a standard retry
// field before closing the connection."
func TestPollEndsTheConnectionAndNotTheCall(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		p := k.extension()
		if !p.Poll(7 * time.Second) {
			t.Fatal("Poll = false")
		}
		st.end()
		if st.retry != 7*time.Second {
			t.Errorf("retry: %v, want what the Handler said", st.retry)
		}
		if p.Poll(time.Second) {
			t.Error("Poll = true while the client is away")
		}
		k.words <- "two"
		again := s.resume(sess, st.last)
		equal(t, "second", again.next(), wordMessage("two"))
		p.Poll(0)
		again.end()
		if again.retry < time.Second || again.retry > 2*time.Second {
			t.Errorf("retry: %v, want the default", again.retry)
		}
		k.words <- `result {}`
		last := s.resume(sess, again.last)
		equal(t, "result", last.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		last.end()
		if p.Poll(time.Second) {
			t.Error("Poll = true after the result")
		}
	})
}

// A client that was given a retry time is expected to return: a question that is asked
// meanwhile waits for that time, and then as long as any question for a client without an
// open stream (I37).
func TestPollThenAsk(t *testing.T) {
	for _, tt := range []struct {
		away time.Duration
		want string
	}{{35 * time.Second, ""}, {time.Minute, "no open stream"}} {
		withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
			sess := s.session()
			st := s.startCall(s.ctx(), k, sess, "1", "one")
			caller := <-k.caller
			if !caller.Extension().Poll(30 * time.Second) {
				t.Fatal("no polling")
			}
			st.end()
			failed := make(chan error, 1)
			go func() { // ends with an answer or an error
				_, err := mcp.Ask(s.ctx(), caller, &mcp.Request{Method: "roots/list"})
				failed <- err
			}()
			s.advance(tt.away)
			again := s.resume(sess, st.last)
			if len(failed) == 0 {
				equal(t, "question", again.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
				s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sess)
			}
			if err := <-failed; (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("away for %v: %v, want an error with %q", tt.away, err, tt.want)
			}
			k.words <- `result {}`
			again.next()
			again.end()
		})
	}
}

// A Handler may poll before it has sent anything: the client then receives the priming
// event, without which it would not reconnect.
func TestPollBeforeTheFirstMessage(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		sess := s.session()
		opened := make(chan *stream, 1)
		go func() { opened <- s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"talk"}`), sess) }() // ends with the header
		p := k.extension()
		s.advance(0)
		if !p.Poll(time.Second) {
			t.Fatal("Poll = false")
		}
		st := <-opened
		st.end()
		k.words <- `result {}`
		again := s.resume(sess, st.last)
		equal(t, "result", again.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		again.end()
	})
}

// Poll is refused if the client would not reconnect: in revisions before 2025-11-25, in the
// modern era, and on pipes.
//
// R8- 2025-11-25 basic/transports: "the server MAY close the connection (without
// terminating the SSE stream) at any time in order to avoid holding a long-lived
// connection."
func TestPollIsRefusedWithoutReconnect(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618} {
		withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
			st := s.startCall(s.ctx(), k, s.sessionIn(v), "1", "one")
			if k.extension().Poll(time.Second) {
				t.Errorf("%s: Poll = true", v)
			}
			k.words <- `result {}`
			equal(t, string(v), st.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
			st.end()
		})
	}
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		done := s.async(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"talk"`), modernHeaders("tools/call", "talk")))
		if k.extension().Poll(time.Second) {
			t.Error("modern: Poll = true")
		}
		k.words <- `result {}`
		if got := <-done; got.status != 200 {
			t.Errorf("modern: %d %s", got.status, got.body)
		}
	})
}

// A response lasts as long as StreamLife, the stream as long as its request, and a client
// that reconnects in time misses nothing.
//
// R8+ 2025-11-25 basic/transports: "sending a retry field and allowing the client to
// reconnect."
func TestStreamLife(t *testing.T) {
	withScriptedTool(t, server.Config{StreamLife: 10 * time.Second}, func(s *site, k *scriptedTool) {
		sess := s.session()
		began := time.Now()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		for range 5 {
			st.end()
			if st.retry < time.Second || st.retry > 2*time.Second {
				t.Errorf("retry: %v, want from 1s to 2s", st.retry)
			}
			s.advance(st.retry)
			last := st.last
			st = s.resume(sess, last)
			st.last = last
		}
		if d := time.Since(began); d < 55*time.Second || d > 61*time.Second {
			t.Errorf("five responses took %v", d)
		}
		k.words <- `result {}`
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		st.end()
	})
	withScriptedTool(t, server.Config{StreamLife: 10 * time.Second}, func(s *site, k *scriptedTool) {
		st := s.startCall(s.ctx(), k, s.sessionIn(mcp.V20250618), "1", "one")
		s.advance(time.Minute)
		k.words <- `result {}`
		equal(t, "result of a client that would not come back", st.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		st.end()
	})
}
