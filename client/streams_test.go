// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// After a call has its answer nothing of it remains that could fail later, and closing
// the client does not wait for it (M005).
func TestM005NothingOfACallIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		get := s.On["GET"]
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("p1", "") // the answer arrives elsewhere
			s.listen <- response(x.Msg.ID, `{"content":[]}`)
		}
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") != "" {
				x.Abort() // a resumption that fails
			}
			get(x)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		before := s.Count(http.MethodGet)
		time.Sleep(time.Hour)
		if n := s.Count(http.MethodGet); n != before {
			t.Errorf("%d more attempts to resume a call that is over", n-before)
		}
		began := time.Now()
		if err := c.Close(); err != nil || time.Since(began) > time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
	})
}

// A stream is parsed as any SSE parser does it: events without a name, with comments
// between, a priming event without data, other events without a message, data over
// several lines, any line end (M051, M198, M199, M189).
func TestM051FormsOfAStream(t *testing.T) {
	tests := map[string]string{
		"no name":               "data: %s\n\n",
		"named":                 "event: message\ndata: %s\n\n",
		"no space":              "data:%s\n\n",
		"primed":                "id: 1\ndata:\n\ndata: %s\n\n",
		"primed without data":   "id: 1\n\ndata: %s\n\n",
		"a ping":                "event: ping\ndata: {}\n\ndata: %s\n\n",
		"comments":              ": hello\n\n:\ndata: %s\n\n",
		"fields without a name": "data\n\nfoo: bar\ndata: %s\n\n",
		"CRLF":                  "event: message\r\ndata: %s\r\n\r\n",
		"CR":                    "event: message\rdata: %s\r\r",
		"mixed":                 "event: message\r\ndata: %s\n\r\n",
		"BOM":                   "\ufeffdata: %s\n\n",
		"junk first":            "data: not a message\n\ndata: %s\n\n",
		"half an event first":   "data: {\"jsonrpc\"\n\ndata: %s\n\n",
	}
	for name, stream := range tests {
		for _, modern := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/modern=%v", name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
						x.Begin()
						x.Raw(fmt.Sprintf(stream, response(x.Msg.ID, `{"content":[]}`)))
					}}}
					res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
					wantResult(t, res, err, `{"content":[]}`)
				})
			})
		}
	}
}

// An answer is read by the media type of its headers, in any spelling, and a body of
// any other type is an error, never an empty result (M189, M194).
//
// J14+ 2026-07-28 basic/transports/streamable-http: "If the body is a JSON-RPC
// _request_, the server **MUST** return either `Content-Type: application/json` (a
// single JSON object) or `Content-Type: text/event-stream` (an SSE response stream).
// The client **MUST** support both."
func TestM189TypesOfAnAnswer(t *testing.T) {
	message := func(x *faultyserver.Exchange) string { return response(x.Msg.ID, `{"content":[]}`) }
	event := func(x *faultyserver.Exchange) string { return "data: " + message(x) + "\n\n" }
	tests := []struct {
		name, contentType string
		status            int
		body              func(*faultyserver.Exchange) string
		text              string // of the fault; "" is success
	}{
		{"upper case", "Application/JSON", 200, message, ""},
		{"a parameter", "application/json ; charset=utf-8", 200, message, ""},
		{"a stream with a parameter (M083)", "text/event-stream;charset=utf-8", 200, event, ""},
		{"another status", "application/json", 201, message, ""},
		{"an odd parameter", "application/json; =", 200, message, ""},
		{"no message in it", "application/json", 200, func(*faultyserver.Exchange) string { return "[]" }, "is not JSON"},
		{"events in a document", "application/json", 200, event, "ended without a response"},
		{"a document in a stream", "text/event-stream", 200, message, "ended without a response"},
		{"an unfinished event", "text/event-stream", 200, func(x *faultyserver.Exchange) string { return "data: " + message(x) }, "ended without a response"},
		{"both result and error", "text/event-stream", 200, func(x *faultyserver.Exchange) string {
			return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{},\"error\":{\"code\":1,\"message\":\"\"}}\n\n", x.Msg.ID)
		}, "breaks the protocol"},
		{"a result inside a notification", "text/event-stream", 200, func(x *faultyserver.Exchange) string {
			return `data: {"jsonrpc":"2.0","method":"notifications/message","params":` + message(x) + "}\n\n"
		}, "ended without a response"},
		{"two messages in one event", "text/event-stream", 200, func(x *faultyserver.Exchange) string {
			return "data: " + message(x) + message(x) + "\n\n"
		}, "breaks the protocol"},
		{"nothing", "application/json", 200, func(*faultyserver.Exchange) string { return " \n" }, "ended without a response"},
		{"another type", "application/jsonp", 200, message, "application/jsonp instead of a message"},
	}
	for _, tt := range tests {
		for _, modern := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/modern=%v", tt.name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
						x.Status(tt.status, tt.contentType, tt.body(x))
					}}}
					caller := &recorder{}
					res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), caller)
					if tt.text == "" {
						wantResult(t, res, err, `{"content":[]}`)
						return
					}
					wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, tt.text)
				})
			})
		}
	}
}

// Progress that arrived on the listening stream before the answer reaches the call
// before it (M053). Progress that names no call is dropped.
func TestM053ProgressOnTheListeningStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			token := x.Msg.Params.Raw(mcp.MetaProgressToken)
			s.listen <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token)
			s.listen <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":2}}`
			s.listen <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":3}}`
			synctest.Wait()
			x.Result(`{"content":[]}`)
		}
		caller := &recorder{}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		req := in(scope, request(t, "tools/call", `{"name":"x","_meta":{"progressToken":"tok"}}`))
		res, err := within(t, dialHTTP(t, s, client.Config{}), req, caller)
		wantResult(t, res, err, `{"content":[]}`)
		wantStrings(t, "progress", caller.notifications(), []string{`progress {"progressToken":"tok","progress":1}`})
	})
}

// A request belongs to the session in which it was sent: of two clients of one server
// only the one that owns the session is asked (M055, M015), and both may be asked under
// the same id.
func TestM055ServerRequestOfOneSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answered := make(chan string, 2)
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
		ask := make(chan struct{})
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			session := x.R.Header.Get("Mcp-Session-Id")
			<-ask
			x.Event("", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"of":"`+session+`"}}`)
			answer := <-answered
			x.Response(`{"content":[` + answer + `]}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			x.Polite()
			answered <- string(x.Msg.Result.Bytes())
		}
		c := dialHTTP(t, s, client.Config{})
		var callers [2]recorder
		var calls [2]*running
		for i := range 2 {
			callers[i].answer = respondWith(fmt.Sprintf(`{"role":"assistant","model":"%d"}`, i))
			scope := mcp.NewScope(fmt.Sprint(i), &recorder{answer: respondWith(`{"model":"nobody's"}`)})
			defer scope.End()
			calls[i] = launch(t, c, in(scope, echo(t)), &callers[i])
			synctest.Wait()
		}
		for i := range 2 {
			ask <- struct{}{}
			synctest.Wait()
			if n := len(callers[0].asked()) + len(callers[1].asked()); n != i+1 {
				t.Errorf("after %d questions, %d were put", i+1, n)
			}
		}
		for i := range 2 {
			calls[i].wantResult(t, fmt.Sprintf(`{"content":[{"role":"assistant","model":"%d"}]}`, i))
		}
	})
}

// Resuming one call's stream does not affect the listening stream (M062).
func TestM062ResumptionLeavesTheListeningStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		var id mcp.ID
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			id = x.Msg.ID
			x.Event("call-1", "")
		}
		s.On["GET"] = func(x *faultyserver.Exchange) {
			switch x.R.Header.Get("Last-Event-Id") {
			case "":
				s.serveListen(x)
			case "call-1":
				x.Event("call-2", response(id, `{"content":[]}`))
			default:
				t.Errorf("resumed from %q", x.R.Header.Get("Last-Event-Id"))
			}
		}
		s.Capabilities = announces
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		launch(t, c, in(scope, listen(t)), ear)
		<-s.open
		for range 5 {
			res, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
		}
		if len(s.open) != 0 {
			t.Errorf("the listening stream was opened %d times more", len(s.open))
		}
		s.listen <- listChanged
		synctest.Wait()
		if got := ear.notifications(); len(got) != 2 || got[1] != "tools/list_changed" {
			t.Errorf("heard %q", got)
		}
	})
}

// Nothing remains of many calls that were given up while their streams were being
// resumed (M067, M006).
func TestM067AbandonedWhileResuming(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Event("1", "") }
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-Id") == "" {
				s.serveListen(x)
				return
			}
			x.Begin()
			x.Hold()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for range 200 {
			call := launch(t, c, in(scope, echo(t)), &recorder{})
			time.Sleep(2 * time.Second) // it is being resumed
			call.cancel()
			<-call.done
		}
		synctest.Wait()
		if st := c.Stats(); st.Serving != 0 {
			t.Errorf("%d calls are still served", st.Serving)
		}
		if n := s.Count("notifications/cancelled"); n != 200 {
			t.Errorf("%d calls were taken back, want 200", n)
		}
	})
}

// A listening stream without ids that breaks is opened again, and everything counts as
// changed, because what happened meanwhile is unknown (M073).
func TestM073StreamWithoutIDsIsOpenedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		gets := 0
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if id := x.R.Header.Get("Last-Event-Id"); id != "" {
				t.Errorf("a stream without ids is continued from %q", id)
			}
			if gets++; gets == 1 {
				x.Event("", listChanged)
				return // the stream breaks
			}
			s.serveListen(x)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		launch(t, c, in(scope, listen(t)), ear)
		time.Sleep(time.Minute)
		if n := s.Count(http.MethodGet); n != 2 {
			t.Errorf("%d attempts to listen, want 2", n)
		}
		if got := ear.notifications(); len(got) < 2 || got[len(got)-1] != "tools/list_changed" {
			t.Errorf("heard %q, want a change after the gap", got)
		}
	})
}

// A server that never answers the GET delays the first call of a session for a moment,
// and no other call (M078).
func TestM078HeldListeningStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { <-x.R.Context().Done() }
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for i, most := range []time.Duration{time.Second, 0, 0} {
			began := time.Now()
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > most {
				t.Errorf("call %d took %v, want at most %v", i, took, most)
			}
		}
	})
}

// If a transport allows one connection, the listening stream has it, and a call waits
// for another one. The call ends at its deadline, or when it is given up, and nothing
// hangs. Its error states that it was not sent, and the server receives neither the
// call nor its cancellation, even when a connection is free again (M079).
func TestM079OneConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.Event("g1", "")
			select {
			case <-s.listen:
			case <-x.R.Context().Done():
			}
		}
		tr := serve(t, s).Transport()
		tr.MaxConnsPerHost = 1
		t.Cleanup(tr.CloseIdleConnections)
		c := own(t, "http://backend.test/mcp", client.Config{Transport: tr})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		began := time.Now()
		_, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeDeadline, mcp.NotDispatched, "no answer in time")
		if took := time.Since(began); took > time.Hour {
			t.Errorf("after %v, want the deadline of an hour", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		_, err = c.Serve(ctx, in(scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.NotDispatched, "the request was cancelled")
		s.listen <- "" // ends the stream, and frees its connection
		time.Sleep(time.Minute)
		if calls, cancels := s.Count("tools/call"), s.Count("notifications/cancelled"); calls != 0 || cancels != 0 {
			t.Errorf("the server saw %d calls and %d cancellations, want none", calls, cancels)
		}
	})
}

// Closing a client sends one DELETE for each of its sessions, with the session's own
// headers (M125).
//
// S7+ 2025-11-25 basic/transports: "Clients that no longer need a particular session
// (e.g., because the user is leaving the client application) **SHOULD** send an HTTP
// DELETE to the MCP endpoint with the `MCP-Session-Id` header, to explicitly terminate
// the session."
func TestM125DeleteOnClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		c := dialHTTP(t, s, client.Config{Header: http.Header{"Authorization": {"Bearer x"}}})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		scope.End()
		synctest.Wait()
		var goodbyes []string
		for _, r := range s.Seen() {
			if r.Verb == http.MethodDelete {
				goodbyes = append(goodbyes, strings.Join([]string{r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Authorization")}, " "))
			}
		}
		wantStrings(t, "goodbyes", goodbyes, []string{faultyserver.SessionID + " 2025-11-25 Bearer x"})
	})
}

// Headers of a server stay on its connection: cookies are not stored, and a client's
// headers are not available for forwarding (M192).
func TestM192HeadersAreNotForwarded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.W.Header().Set("Set-Cookie", "sid=1; Path=/")
			if got := x.R.Header.Get("Cookie"); got != "" {
				t.Errorf("cookie %q", got)
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for range 3 {
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Over HTTP/2 the stream of a call that has its answer is closed although the server
// would continue (M145), and a stream that the server resets fails its call only
// (M021).
func TestM145StreamsOfHTTP2(t *testing.T) {
	t.Parallel()
	released := make(chan struct{}, 1)
	s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
		if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "reset" {
			x.Begin()
			x.Abort()
		}
		x.Response(`{"content":[]}`)
		x.Hold()
		released <- struct{}{}
	}}}
	srv := httptest.NewUnstartedServer(s)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	tr := srv.Client().Transport
	c := client.NewHTTP(srv.URL, client.Config{Name: "b", Transport: tr})
	res, err := within(t, c, echo(t), &recorder{})
	wantResult(t, res, err, `{"content":[]}`)
	<-released
	_, err = within(t, c, tool(t, "reset"), &recorder{})
	wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "the connection broke during its answer")
	res, err = within(t, c, echo(t), &recorder{})
	wantResult(t, res, err, `{"content":[]}`)
	<-released
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	srv.Client().CloseIdleConnections()
}
