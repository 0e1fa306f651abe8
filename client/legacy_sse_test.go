// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// sseServer is a server that has only HTTP with SSE, at /mcp, written by hand after
// 2024-11-05. It must be used inside a bubble.
type sseServer struct {
	announce string                                          // the first event, complete; "" sends none
	refuse   int                                             // status of a POST to the URL itself; 0: 405
	call     func(o *sseServer, c *sseServerConn, id string) // serves tools/call; nil answers at once
	post     func(w http.ResponseWriter, n int) bool         // may answer the n-th message itself, from 1

	mu    sync.Mutex
	conns []*sseServerConn
	seen  []string // methods of POSTed messages, or METHOD PATH if refused
	auth  []string // Authorization and host of each request
}

// sseServerConn is one connection.
type sseServerConn struct {
	out  chan string // events
	drop chan struct{}
	n    int // messages so far; guarded by sseServer.mu
}

const sseEndpoint = "event: endpoint\ndata: /messages?session_id=%d\n\n"

func (o *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.note(r)
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/mcp":
		o.stream(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		o.message(w, r)
	default:
		http.Error(w, "Not here", max(o.refuse, 400))
	}
}

func (o *sseServer) note(r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.auth = append(o.auth, r.Header.Get("Authorization")+" "+r.Host)
}

func (o *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	c := &sseServerConn{out: make(chan string, 64), drop: make(chan struct{})}
	o.mu.Lock()
	o.conns = append(o.conns, c)
	announce := o.announce
	if announce == sseEndpoint {
		announce = fmt.Sprintf(announce, len(o.conns)-1)
	}
	o.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, announce)
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case e := <-c.out:
			_, _ = io.WriteString(w, "event: message\ndata: "+e+"\n\n")
			_ = http.NewResponseController(w).Flush()
		case <-c.drop:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// conn returns the n-th connection, or nil.
func (o *sseServer) conn(n int) *sseServerConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n >= len(o.conns) {
		return nil
	}
	return o.conns[n]
}

func (o *sseServer) message(w http.ResponseWriter, r *http.Request) {
	var n int
	_, _ = fmt.Sscan(r.URL.Query().Get("session_id"), &n)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	c := o.conn(n)
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || c == nil {
		http.Error(w, "Could not find session", http.StatusNotFound)
		return
	}
	o.mu.Lock()
	o.seen = append(o.seen, m.Method)
	c.n++
	count := c.n
	o.mu.Unlock()
	if o.post != nil && o.post(w, count) {
		return
	}
	switch m.Method {
	case "initialize":
		c.out <- `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"old","version":"1"}}}`
	case "tools/call":
		if o.call != nil {
			o.call(o, c, string(m.ID))
			break
		}
		c.out <- `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[],"n":1.0}}`
	}
	w.WriteHeader(http.StatusAccepted)
}

func (o *sseServer) methods() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seen...)
}

// If a server refuses initialize like a server without Streamable HTTP, the client
// opens its SSE stream and uses that transport from then on.
//
// "If it fails with the following HTTP status codes "400 Bad Request", "404 Not Found"
// or "405 Method Not Allowed": Issue a GET request to the server URL, expecting that
// this will open an SSE stream and return an `endpoint` event as the first event."
// (2025-11-25, basic/transports, "Backwards Compatibility")
func TestSSEFallback(t *testing.T) {
	for status, found := range map[int]bool{400: true, 404: true, 405: true, 401: false, 403: false, 406: false, 500: false, 503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := &sseServer{announce: sseEndpoint, refuse: status}
				c := dialHTTP(t, o, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				for range 2 {
					res, err := within(t, c, in(scope, echo(t)), &recorder{})
					if found {
						wantResult(t, res, err, `{"content":[],"n":1.0}`)
					} else if err == nil {
						t.Errorf("a server that answers %d is spoken to", status)
					}
				}
				if got := o.conn(0) != nil; got != found {
					t.Errorf("the stream was asked for: %v, want %v", got, found)
				}
				if found {
					wantStrings(t, "messages", o.methods(), []string{"initialize", "notifications/initialized", "tools/call", "tools/call"})
				}
			})
		})
	}
}

// A new session then opens its stream without a refused initialize before it.
func TestSSEFallbackIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := &sseServer{announce: sseEndpoint, refuse: 405}
		c := dialHTTP(t, o, client.Config{})
		for range 2 {
			scope := mcp.NewScope("s", nil)
			res, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[],"n":1.0}`)
			scope.End()
		}
		synctest.Wait()
		o.mu.Lock()
		defer o.mu.Unlock()
		// The probe, the refused initialize, and for each of two sessions the stream
		// and three messages.
		if got, want := len(o.auth), 2+2*4; got != want {
			t.Errorf("%d requests, want %d", got, want)
		}
	})
}

// The server chooses the URL for messages, within its own origin, because messages
// carry the configured credentials.
//
// T7- 2024-11-05 basic/transports: "When a client connects, the server **MUST** send
// an `endpoint` event containing a URI for the client to use for sending messages."
func TestEndpointEvent(t *testing.T) {
	const elsewhere = "its endpoint event names another origin"
	for _, tt := range []struct{ name, event, fault string }{
		{"path", "event: endpoint\ndata: /messages?session_id=0\n\n", ""},
		{"relative", "event: endpoint\ndata: messages?session_id=0\n\n", ""},
		{"whole", "event: endpoint\ndata: http://backend.test/messages?session_id=0\n\n", ""},
		{"its port said", "event: endpoint\ndata: http://backend.test:80/messages?session_id=0\n\n", ""},
		{"in other letters", "event: endpoint\ndata: HTTP://Backend.Test/messages?session_id=0\n\n", ""},
		{"after a comment", ": hello\n\nevent: endpoint\ndata: /messages?session_id=0\n\n", ""},
		{"other host", "event: endpoint\ndata: http://evil.test/messages?session_id=0\n\n", elsewhere},
		{"other host, no scheme", "event: endpoint\ndata: //evil.test/messages?session_id=0\n\n", elsewhere},
		{"other port", "event: endpoint\ndata: http://backend.test:81/messages?session_id=0\n\n", elsewhere},
		{"other scheme", "event: endpoint\ndata: https://backend.test/messages?session_id=0\n\n", elsewhere},
		{"suffix", "event: endpoint\ndata: http://backend.test.evil.test/messages?session_id=0\n\n", elsewhere},
		{"user", "event: endpoint\ndata: http://backend.test@evil.test/messages\n\n", elsewhere},
		{"credentials", "event: endpoint\ndata: http://a:b@backend.test/messages\n\n", elsewhere},
		{"script", "event: endpoint\ndata: javascript:alert(1)\n\n", elsewhere},
		{"file", "event: endpoint\ndata: file:///etc/passwd\n\n", elsewhere},
		{"no URI", "event: endpoint\ndata: http://[::1\n\n", "its endpoint event is not a valid URI"},
		{"a message first", "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\nevent: endpoint\ndata: /messages?session_id=0\n\n", "does not begin with an endpoint event"},
		{"never", "", "did not begin with an endpoint event in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := &sseServer{announce: tt.event}
				c := dialSSE(t, o, client.Config{Header: http.Header{"Authorization": {"Bearer secret"}}})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				res, err := within(t, c, in(scope, echo(t)), &recorder{})
				if tt.fault == "" {
					wantResult(t, res, err, `{"content":[],"n":1.0}`)
				} else {
					wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, tt.fault)
				}
				for _, a := range o.auth {
					if !strings.EqualFold(strings.TrimSuffix(a, ":80"), "Bearer secret backend.test") {
						t.Errorf("a request with %q", a)
					}
				}
			})
		})
	}
}

// A server may answer a POST only after the response, and may need an answer to its own
// request before that. Nothing waits for the POST.
func TestPostAnsweredAfterTheResponse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answered := make(chan struct{})
		o := &sseServer{announce: sseEndpoint, call: func(_ *sseServer, c *sseServerConn, id string) {
			c.out <- `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
			<-answered
			c.out <- `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`
			time.Sleep(time.Minute)
		}}
		o.post = func(w http.ResponseWriter, n int) bool {
			if n == 4 {
				close(answered)
				w.WriteHeader(http.StatusAccepted)
			}
			return n == 4
		}
		c := dialSSE(t, o, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		req := in(scope, echo(t))
		req.Client.Capabilities = []byte(`{"roots":{}}`)
		began := time.Now()
		res, err := within(t, c, req, &recorder{answer: respondWith(`{"roots":[]}`)})
		wantResult(t, res, err, `{"content":[]}`)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the answer took %v", took)
		}
		time.Sleep(time.Minute) // until the POST has its answer
	})
}

// The session ends with its stream: a call in progress may have run, and the next call
// opens another session.
func TestStreamEndsTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lost := false
		o := &sseServer{announce: sseEndpoint, call: func(_ *sseServer, c *sseServerConn, id string) {
			if !lost {
				lost = true
				close(c.drop)
				return
			}
			c.out <- `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`
		}}
		c := dialSSE(t, o, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		_, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "closed the connection")
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		wantStrings(t, "messages", o.methods(), []string{
			"initialize", "notifications/initialized", "tools/call", "initialize", "notifications/initialized", "tools/call",
		})
	})
}

// A server that does not know the session of a message has not looked at it: the call
// is made in another session, once.
func TestForgottenSSESession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := &sseServer{announce: sseEndpoint}
		refused := false
		o.post = func(w http.ResponseWriter, n int) bool {
			if n != 3 || refused {
				return false
			}
			refused = true
			http.Error(w, "Could not find session", http.StatusNotFound)
			return true
		}
		c := dialSSE(t, o, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[],"n":1.0}`)
		if o.conn(1) == nil || o.conn(2) != nil {
			t.Error("there was not one more connection")
		}
	})
}

// A refused POST fails its own call only.
func TestRefusedPost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := &sseServer{announce: sseEndpoint}
		o.post = func(w http.ResponseWriter, n int) bool {
			if n == 3 {
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			}
			return n == 3
		}
		c := dialSSE(t, o, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		_, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "HTTP status 413")
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[],"n":1.0}`)
		if o.conn(1) != nil {
			t.Error("the connection was given up")
		}
	})
}

// A GET that is not answered by an event stream opens no session.
func TestNoEventStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<p>Welcome</p>")
		})
		c := dialSSE(t, h, client.Config{})
		_, err := within(t, c, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "text/html instead of a stream of events")
	})
}
