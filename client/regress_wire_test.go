// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// This file: what is on the wire. Streams that break over HTTP/2, odd events, bodies
// with wrong headers, and connections to a backend that was replaced.

// dialHTTP2 is dialHTTP over HTTP/2 in memory.
func dialHTTP2(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	ln := memnet.Listen()
	srv := &http.Server{Handler: h, ErrorLog: discardLog(), Protocols: &only}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }() // ends with srv.Close below
	tr := ln.Transport()
	tr.Protocols = &only
	c := client.NewHTTP("http://backend.test/mcp", client.Config{Name: "b", Transport: tr})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		tr.CloseIdleConnections()
		srv.Close()
		<-done
	})
	return c
}

// An intermediary resets a stream of HTTP/2: before any event id the call fails at
// once, and after one it is resumed. The connection and its other calls continue
// (M021).
func TestM021ResetOfAStreamOfHTTP2(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		ids, arrived, gate := make(chan mcp.ID, 1), make(chan struct{}), make(chan struct{})
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			if x.R.ProtoMajor != 2 {
				t.Errorf("over %s", x.R.Proto)
			}
			switch name, _ := x.Msg.Params.Text(mcp.FieldName); name {
			case "other":
				close(arrived)
				<-gate
				x.Polite()
			case "early":
				x.Begin()
				x.Abort()
			case "late":
				ids <- x.Msg.ID
				x.Event("e1", theLog)
				x.Abort()
			}
		}
		get := s.On["GET"]
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-ID") != "e1" {
				get(x)
				return
			}
			x.Event("e2", response(<-ids, `{"content":["resumed"]}`))
		}
		c := dialHTTP2(t, s)
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		other := launch(t, c, in(scope, tool(t, "other")), &recorder{})
		<-arrived
		began := time.Now()
		_, err := within(t, c, in(scope, tool(t, "early")), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "broke")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it failed after %v", took)
		}
		res, err := within(t, c, in(scope, tool(t, "late")), &recorder{})
		wantResult(t, res, err, `{"content":["resumed"]}`)
		close(gate)
		other.wantResult(t, `{"content":[]}`)
		if n := s.Count("tools/call"); n != 3 {
			t.Errorf("%d calls arrived, want 3", n)
		}
	})
}

// The answer to initialize arrives in a stream that begins with an event without data
// (M032).
func TestM032HandshakeBehindAnEmptyEvent(t *testing.T) {
	for _, first := range []string{"data:\n\n", "data: \n\n", "event: message\ndata:\n\n", "id: 0\ndata:\n\n"} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.On["initialize"] = func(x *faultyserver.Exchange) {
				x.W.Header().Set("Mcp-Session-Id", faultyserver.SessionID)
				x.Begin()
				x.Raw(first)
				x.Response(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"zoo","version":"1"}}`)
			}
			res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if got := last(s.HTTP, "tools/call").Header.Get("Mcp-Session-Id"); got != faultyserver.SessionID {
				t.Errorf("%q: the call is in session %q", first, got)
			}
		})
	}
}

// Two messages that a server sends one after the other, on one stream or on two, reach
// the caller in that order (M182).
func TestM182OrderOfTwoKinds(t *testing.T) {
	const rounds = 20
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				token := x.Msg.Params.Raw(mcp.MetaProgressToken)
				for i := range rounds {
					x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
					x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i))
				}
				x.Response(`{"content":[]}`)
			}}}
			caller := &recorder{}
			req := request(t, "tools/call", `{"name":"x","_meta":{"progressToken":1}}`)
			req.LogLevel = mcp.LogInfo
			res, err := within(t, dialHTTP(t, s, client.Config{}), req, caller)
			wantResult(t, res, err, `{"content":[]}`)
			var want []string
			for i := range rounds {
				want = append(want, fmt.Sprintf(`progress {"progressToken":1,"progress":%d}`, i), fmt.Sprintf(`message {"level":"info","data":%d}`, i))
			}
			wantStrings(t, "heard", caller.notifications(), want)
		})
	}
}

// Connections to a replaced instance, at an address that refuses everything on them,
// are not used for ever: a fresh connection is made, and the backend works (M188).
func TestM188ConnectionsToAReplacedInstance(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, status := range []int{401, 404} {
			t.Run(fmt.Sprintf("%d/modern=%v", status, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { replaceInstance(t, modern, status) })
			})
		}
	}
}

type instanceKey struct{}

func replaceInstance(t *testing.T, modern bool, status int) {
	t.Helper()
	var instance, refused, fresh atomic.Int32
	servers := [2]*faultyserver.HTTP{{Modern: modern, Sessions: true}, {Modern: modern, Sessions: true}}
	ln := memnet.Listen()
	srv := &http.Server{
		ErrorLog: discardLog(),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, instanceKey{}, instance.Load())
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at, _ := r.Context().Value(instanceKey{}).(int32)
			if at != instance.Load() { // the address belongs to another process now
				refused.Add(1)
				w.WriteHeader(status)
				return
			}
			if at == 1 {
				fresh.Add(1)
			}
			servers[at].ServeHTTP(w, r)
		}),
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }() // ends with srv.Close below
	tr := ln.HTTP1()
	c := client.NewHTTP("http://backend.test/mcp", client.Config{Name: "b", Transport: tr})
	scope := mcp.NewScope("s", nil)
	for range 2 {
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
	}
	instance.Store(1)
	// The first request may fail, if its refusal could be the new instance's own. The
	// following ones must not.
	if res, err := within(t, c, in(scope, echo(t)), &recorder{}); err == nil {
		wantResult(t, res, err, `{"content":[]}`)
	}
	res, err := within(t, c, in(scope, echo(t)), &recorder{})
	wantResult(t, res, err, `{"content":[]}`)
	if refused.Load() == 0 || fresh.Load() == 0 {
		t.Errorf("%d refusals, %d requests on fresh connections; want some of both", refused.Load(), fresh.Load())
	}
	scope.End()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	tr.CloseIdleConnections()
	srv.Close()
	<-done
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// A body that does not match its headers is either read correctly or a clear error of
// the request, at once, and none of its bytes are passed on (M194).
func TestM194MislabelledBodies(t *testing.T) {
	tests := []struct {
		name string
		send func(x *faultyserver.Exchange, message string)
	}{
		{"events as JSON", func(x *faultyserver.Exchange, m string) {
			x.Status(200, "application/json", "event: message\ndata: "+m+"\n\n")
		}},
		{"JSON as events", func(x *faultyserver.Exchange, m string) { x.Status(200, "text/event-stream", m) }},
		{"gzip that is not said", func(x *faultyserver.Exchange, m string) { x.Status(200, "application/json", zipped(m)) }},
		{"gzip that was not asked for", func(x *faultyserver.Exchange, m string) {
			x.W.Header().Set("Content-Encoding", "gzip")
			x.Status(200, "application/json", zipped(m))
		}},
		{"a compressed stream", func(x *faultyserver.Exchange, m string) {
			x.W.Header().Set("Content-Encoding", "gzip")
			x.Status(200, "text/event-stream", zipped("data: "+m+"\n\n"))
		}},
		{"a compressed stream that is not said", func(x *faultyserver.Exchange, m string) {
			x.Status(200, "text/event-stream", zipped("data: "+m+"\n\n"))
		}},
		{"no type", func(x *faultyserver.Exchange, m string) { x.W.Header()["Content-Type"] = nil; x.Status(200, "", m) }},
	}
	for _, tt := range tests {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", tt.name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					const content = `{"tools":[{"name":"hidden"}]}`
					s := &faultyserver.HTTP{Modern: modern, Sessions: true, On: map[string]func(*faultyserver.Exchange){
						"tools/list": func(x *faultyserver.Exchange) { tt.send(x, response(x.Msg.ID, content)) },
					}}
					if s.On["tools/list"] == nil {
						t.Fatal("nothing is answered")
					}
					c := dialHTTP(t, s, client.Config{})
					began := time.Now()
					res, err := within(t, c, request(t, "tools/list", ""), &recorder{})
					if took := time.Since(began); took > time.Second {
						t.Errorf("it took %v", took)
					}
					if err == nil {
						wantResult(t, res, err, content)
						return
					}
					wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "")
					if strings.Contains(err.Error(), "hidden") {
						t.Errorf("the error tells what was in the body: %v", err)
					}
					res, err = within(t, c, echo(t), &recorder{})
					wantResult(t, res, err, `{"content":[]}`)
				})
			})
		}
	}
}

// A response with too deep nesting ends its call, with an error that names the cause,
// and no other call (M197).
func TestM197TooDeepAnswer(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	check := func(t *testing.T, c *client.Client) {
		t.Helper()
		began := time.Now()
		_, err := within(t, c, tool(t, "deep"), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "nest")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
	}
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			check(t, dialHTTP(t, &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "deep" {
					x.Result(deep)
					return
				}
				x.Polite()
			}}}, client.Config{}))
		})
		inBubble(t, func(t *testing.T) {
			c, _ := dialLines(t, &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
				if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "deep" {
					x.Result(deep)
					return
				}
				x.Polite()
			}}}, client.Config{})
			check(t, c)
		})
	}
}

// Events without a message are skipped, but their ids count: the stream is resumed
// after the last of them (M198).
func TestM198IDsOfEventsWithoutMessages(t *testing.T) {
	tests := map[string]struct{ stream, last string }{
		"primed":                    {"id: p1\ndata:\n\n", "p1"},
		"primed, no data at all":    {"id: p1\n\n", "p1"},
		"a ping with an id":         {"id: p1\ndata:\n\nevent: ping\nid: p2\ndata: {}\n\n", "p2"},
		"a ping without one":        {"id: p1\ndata:\n\nevent: ping\ndata: now\n\n", "p1"},
		"a message and then a ping": {"id: p1\ndata: " + theLog + "\n\nid: p2\nevent: ping\ndata:\n\n", "p2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var id mcp.ID
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					id = x.Msg.ID
					x.Begin()
					x.Raw(tt.stream)
				}
				s.On["GET"] = func(x *faultyserver.Exchange) {
					switch from := x.R.Header.Get("Last-Event-ID"); from {
					case "":
						s.serveListen(x)
					case tt.last:
						x.Event("", response(id, `{"content":["resumed"]}`))
					default:
						t.Errorf("resumed from %q, want %q", from, tt.last)
						x.Status(400, "", "")
					}
				}
				res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
				wantResult(t, res, err, `{"content":["resumed"]}`)
			})
		})
	}
}
