// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package regress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Many backends and one response: a faulty backend affects its own items only.

// legacyServer is a legacy server with listening streams that the test controls, by
// session.
type legacyServer struct {
	*faultyserver.HTTP

	mu   sync.Mutex
	open map[string]chan string
}

func newLegacyServer(tools ...string) *legacyServer {
	s := &legacyServer{HTTP: gatewaytest.ServerWithTools(false, tools...), open: map[string]chan string{}}
	s.Capabilities = `{"tools":{"listChanged":true}}`
	s.On["GET"] = func(x *faultyserver.Exchange) {
		stream := s.stream(x.R.Header.Get("Mcp-Session-Id"))
		x.Begin()
		for {
			select {
			case data := <-stream:
				x.Event("", data)
			case <-x.R.Context().Done():
				return
			}
		}
	}
	return s
}

// stream returns the channel of messages for a session's listening stream.
func (s *legacyServer) stream(session string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[session] == nil {
		s.open[session] = make(chan string, 8)
	}
	return s.open[session]
}

// change sets the tools and notifies all sessions.
func (s *legacyServer) change(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.On["tools/list"] = gatewaytest.ResultHandler(gatewaytest.ToolList(tools...))
	for _, stream := range s.open {
		stream <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	}
}

// M080, I16, I41: one backend has no listening stream. The stream of the client opens
// all the same, and carries the notifications of the others.
func TestM080BackendWithoutAListeningStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, telling := gatewaytest.ServerWithTools(false, "x"), newLegacyServer("y")
		silent.Capabilities = `{"tools":{"listChanged":true}}`
		h := gatewaytest.Backends{"deaf": silent, "telling": telling}.Open(t, nil)
		sess := h.Legacy()
		h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess)
		get := h.Listen(sess)
		synctest.Wait()
		telling.change("y", "z")
		if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
			t.Errorf("heard %s, want the change", got)
		}
		got := h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess).Body
		for _, name := range []string{"deaf__x", "telling__y", "telling__z"} {
			if !strings.Contains(got, `"`+name+`"`) {
				t.Errorf("no %s in %s", name, got)
			}
		}
		if silent.Count(http.MethodGet) == 0 {
			t.Error("the backend without a stream was never asked for one")
		}
	})
}

// M183, I36: one of two backends answers its list with an error. The client's request
// has one response, the list of the other.
func TestM183OneAnswerOfTwoBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails, works := gatewaytest.ServerWithTools(false), gatewaytest.ServerWithTools(false, "y")
		fails.On["tools/list"] = func(x *faultyserver.Exchange) { x.Error(-32000, "no list today") }
		h := gatewaytest.Backends{"fails": fails, "works": works}.Open(t, nil)
		sess := h.Legacy()
		gatewaytest.WantEqual(t, "legacy", h.Post(gatewaytest.LegacyRequest("7", "tools/list", ""), sess).Body, `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"works__y","inputSchema":{"type":"object"}}]}}`)
		if got := h.PostModern("7", "tools/list", "", ""); strings.Count(got.Body, `"id":7`) != 1 || !strings.Contains(got.Body, `"works__y"`) || strings.Contains(got.Body, "no list today") {
			t.Errorf("modern: %s; want one answer, the list", got.Body)
		}
		client, server := memnet.Pipe(1 << 16)
		done := make(chan error, 1)
		go func() { // ends with the input
			done <- h.G.ServeStdio(t.Context(), server, server)
			_ = server.CloseWrite()
		}()
		body, _ := gatewaytest.ModernRequest("7", "tools/list", "", "")
		if _, err := io.WriteString(client, body+"\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(client)
		if n := strings.Count(string(text), "\n"); err != nil || n != 1 || !strings.Contains(string(text), `"works__y"`) {
			t.Errorf("on a pipe: %d lines, %v: %s; want one, the list", n, err, text)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// M185, I37: the request of a backend on its listening stream is sent to the client of
// that session, and the response is accepted and returned to that backend and to no
// other; a ping is answered here; unexpected responses are accepted and dropped.
func TestM185AnswersFindTheirWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asking, other := newLegacyServer("x"), newLegacyServer("x")
		var session string
		asking.On["tools/call"] = func(x *faultyserver.Exchange) {
			session = x.R.Header.Get("Mcp-Session-Id")
			x.Polite()
		}
		answered, elsewhere := make(chan string, 8), make(chan string, 8)
		asking.On[""] = func(x *faultyserver.Exchange) { answered <- string(x.Msg.Raw); x.Polite() }
		other.On[""] = func(x *faultyserver.Exchange) { elsewhere <- string(x.Msg.Raw); x.Polite() }
		h := gatewaytest.Backends{"asking": asking, "other": other}.Open(t, nil)
		sess := h.Legacy()
		get := h.Listen(sess)
		for _, name := range []string{"asking__x", "other__x"} {
			h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"`+name+`"}`), sess)
		}
		synctest.Wait()
		asking.stream(session) <- `{"jsonrpc":"2.0","id":"p","method":"ping"}`
		gatewaytest.WantEqual(t, "the ping", <-answered, `{"jsonrpc":"2.0","id":"p","result":{}}`)
		asking.stream(session) <- `{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`
		question := get.Next()
		_, after, _ := strings.Cut(question, `"id":`)
		id, _, _ := strings.Cut(after, ",")
		if !strings.Contains(question, `"method":"elicitation/create"`) {
			t.Fatalf("heard %s, want the question", question)
		}
		for _, unknown := range []string{`"nobody's"`, "99", `"q1"`} {
			if got := h.Post(`{"jsonrpc":"2.0","id":`+unknown+`,"result":{}}`, sess); got.Status != 202 || got.Body != "" {
				t.Errorf("an answer to nothing: %d %s; want 202", got.Status, got.Body)
			}
		}
		if got := h.Post(`{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"decline"}}`, sess); got.Status != 202 || got.Body != "" {
			t.Errorf("the answer: %d %s; want 202", got.Status, got.Body)
		}
		gatewaytest.WantEqual(t, "the answer at the backend", <-answered, `{"jsonrpc":"2.0","id":"q1","result":{"action":"decline"}}`)
		synctest.Wait()
		if len(answered) != 0 || len(elsewhere) != 0 {
			t.Errorf("%d more answers there and %d elsewhere", len(answered), len(elsewhere))
		}
	})
}

// M187, I41: a backend takes 20 seconds to initialize. initialize and the first list
// wait within their bounds, calls to others do not wait, and the late tools are
// announced when they are known.
func TestM187SlowBackendDelaysNoOther(t *testing.T) {
	const slow = 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		quick, late := gatewaytest.ServerWithTools(false, "x"), gatewaytest.ServerWithTools(false, "y")
		late.On["initialize"] = func(x *faultyserver.Exchange) {
			select {
			case <-time.After(slow):
				x.Initialize()
			case <-x.R.Context().Done():
			}
		}
		began := time.Now()
		h := gatewaytest.Backends{"late": late, "quick": quick}.Open(t, func(cfg *config.Config) { cfg.Limits.FirstList = 3 * time.Second })
		sess := h.Legacy()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("initialize took %v, want at most 3s", took)
		}
		get := h.Listen(sess)
		gatewaytest.WantEqual(t, "the first list", h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess).Body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"quick__x","inputSchema":{"type":"object"}}]}}`)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the first list came after %v, want at most 3s", took)
		}
		before := time.Now()
		if got := h.Post(gatewaytest.LegacyRequest("2", "tools/call", `{"name":"quick__x"}`), sess); got.Status != 200 || time.Since(before) != 0 {
			t.Errorf("a call to the quick one: %d %s after %v", got.Status, got.Body, time.Since(before))
		}
		if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
			t.Errorf("heard %s, want the change", got)
		}
		if took := time.Since(began); took < slow || took > slow+10*time.Second {
			t.Errorf("the change came after %v, want soon after %v", took, slow)
		}
		if got := h.Post(gatewaytest.LegacyRequest("3", "tools/list", ""), sess).Body; !strings.Contains(got, `"late__y"`) || !strings.Contains(got, `"quick__x"`) {
			t.Errorf("afterwards: %s; want the tools of both", got)
		}
	})
}

// M189, I40, I42, I43: the policy hides a tool. Whatever form its backend gives to the
// list, the tool is in no response to a client, and cannot be called.
func TestM189HiddenToolStaysHidden(t *testing.T) {
	const list = `{"tools":[{"name":"hidden","inputSchema":{"type":"object"}},{"name":"shown","inputSchema":{"type":"object"}}]}`
	message := func(x *faultyserver.Exchange) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, x.Msg.ID, list)
	}
	events := func(text func(x *faultyserver.Exchange) string) func(*faultyserver.Exchange) {
		return func(x *faultyserver.Exchange) { x.Status(200, "text/event-stream", text(x)) }
	}
	document := func(status int, mediaType string) func(*faultyserver.Exchange) {
		return func(x *faultyserver.Exchange) { x.Status(status, mediaType, message(x)) }
	}
	tests := map[string]struct {
		list  func(*faultyserver.Exchange)
		shown bool // the other tool is listed
	}{
		"a notification first": {events(func(x *faultyserver.Exchange) string {
			return "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\ndata: " + message(x) + "\n\n"
		}), true},
		"a line that is no message first": {events(func(x *faultyserver.Exchange) string { return "data: {{{\n\ndata: " + message(x) + "\n\n" }), true},
		"over two data lines": {events(func(x *faultyserver.Exchange) string {
			return "data: " + strings.Replace(message(x), `"result":`, "\"result\":\ndata: ", 1) + "\n\n"
		}), true},
		"two messages in one event": {events(func(x *faultyserver.Exchange) string { return "data: " + message(x) + "\ndata: " + message(x) + "\n\n" }), false},
		"CR only":                   {events(func(x *faultyserver.Exchange) string { return "data: " + message(x) + "\r\r" }), true},
		"mixed terminators":         {events(func(x *faultyserver.Exchange) string { return "event: message\r\ndata: " + message(x) + "\r\n\n" }), true},
		"a byte order mark":         {events(func(x *faultyserver.Exchange) string { return "\ufeffdata: " + message(x) + "\n\n" }), true},
		"result and error": {func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", strings.TrimSuffix(message(x), "}")+`,"error":{"code":1,"message":"hidden"}}`)
		}, false},
		"an upper case type": {document(200, "Application/JSON"), true},
		"a space before ;":   {document(200, "application/json ; charset=utf-8"), true},
		"status 201":         {document(201, "application/json"), true},
		"inside a notification": {events(func(x *faultyserver.Exchange) string {
			return `data: {"jsonrpc":"2.0","method":"notifications/x","params":` + message(x) + "}\n\n"
		}), false},
		"in a batch": {func(x *faultyserver.Exchange) { x.Status(200, "application/json", "["+message(x)+"]") }, true},
		"twice the same key": {func(x *faultyserver.Exchange) {
			x.Result(`{"tools":[],"tools":` + strings.TrimPrefix(list, `{"tools":`))
		}, false},
		"a name that is escaped": {func(x *faultyserver.Exchange) { x.Result(strings.ReplaceAll(list, `"hidden"`, `"\u0068idden"`)) }, true},
	}
	for name, tt := range tests {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", name, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := gatewaytest.ServerWithTools(modern)
					s.On["tools/list"] = tt.list
					h := gatewaytest.Backends{"a": s}.Open(t, func(cfg *config.Config) { cfg.Servers[0].Exclude = []string{"hidden"} })
					sess := h.Legacy()
					for client, got := range map[string]gatewaytest.Response{
						"legacy": h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess), "modern": h.PostModern("1", "tools/list", "", ""),
					} {
						if strings.Contains(got.Body, "idden") {
							t.Errorf("%s client: %s", client, got.Body)
						}
						if !strings.Contains(got.Body, `"id":1`) || strings.Contains(got.Body, `"a__shown"`) != tt.shown {
							t.Errorf("%s client: %d %s; want the answer to 1, with the other tool: %v", client, got.Status, got.Body, tt.shown)
						}
					}
					for _, tool := range []string{"a__hidden", "hidden"} {
						got := h.Post(gatewaytest.LegacyRequest("2", "tools/call", `{"name":"`+tool+`"}`), sess)
						if !strings.Contains(got.Body, `"error"`) {
							t.Errorf("%s was called: %s", tool, got.Body)
						}
					}
					if n := s.Count("tools/call"); n != 0 {
						t.Errorf("%d calls have reached the backend", n)
					}
				})
			})
		}
	}
}

// M194, I40, I43: a backend sends a wrong Content-Type. The client receives an error
// for its own request, at once, and none of the bytes.
func TestM194MislabelledAnswers(t *testing.T) {
	tests := map[string]func(x *faultyserver.Exchange){
		"events as a document": func(x *faultyserver.Exchange) { x.Status(200, "application/json", "data: {\"secret\":1}\n\n") },
		"compressed":           func(x *faultyserver.Exchange) { x.Status(200, "application/json", "\x1f\x8b\x08\x00secret") },
		"a compressed stream": func(x *faultyserver.Exchange) {
			x.W.Header().Set("Content-Encoding", "gzip")
			x.Status(200, "text/event-stream", "\x1f\x8b\x08\x00secret")
		},
		"a page": func(x *faultyserver.Exchange) { x.Status(200, "text/html", "<html>secret") },
	}
	for name, answer := range tests {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", name, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := gatewaytest.ServerWithTools(modern, "x")
					s.On["tools/call"] = answer
					h := gatewaytest.Backends{"a": s}.Open(t, nil)
					sess := h.Legacy()
					began := time.Now()
					for client, got := range map[string]gatewaytest.Response{
						"legacy": h.Post(gatewaytest.LegacyRequest("9", "tools/call", `{"name":"a__x"}`), sess),
						"modern": h.PostModern("9", "tools/call", "a__x", ""),
					} {
						if !strings.HasPrefix(got.Body, `{"jsonrpc":"2.0","id":9,"error":{"code":1002,`) || strings.Contains(got.Body, "secret") {
							t.Errorf("%s client: %d %s; want the error of 9 and nothing else", client, got.Status, got.Body)
						}
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

// M195, I3, I21: the bound of a backend's message applies to both legs: a message
// within it reaches the client, and a larger one is an error of that request which
// names the key.
func TestM195OneBoundOnBothLegs(t *testing.T) {
	for _, tt := range []struct {
		bound, size int64
		fits        bool
	}{{10 << 20, 2 << 20, true}, {64 << 10, 100 << 10, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := gatewaytest.ServerWithTools(true, "x")
			s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[{"type":"text","text":"` + strings.Repeat("x", int(tt.size)) + `"}]}`)
			h := gatewaytest.Backends{"a": s}.Open(t, func(cfg *config.Config) { cfg.Limits.BackendMessage = tt.bound })
			for client, got := range map[string]gatewaytest.Response{
				"legacy": h.Post(gatewaytest.LegacyRequest("9", "tools/call", `{"name":"a__x"}`), h.Legacy()),
				"modern": h.PostModern("9", "tools/call", "a__x", ""),
			} {
				switch {
				case tt.fits && (got.Status != 200 || int64(len(got.Body)) < tt.size || !strings.HasPrefix(got.Body, `{"jsonrpc":"2.0","id":9,"result":`)):
					t.Errorf("%s client: %d, %d bytes; want the result", client, got.Status, len(got.Body))
				case !tt.fits && (!strings.HasPrefix(got.Body, `{"jsonrpc":"2.0","id":9,"error":`) || !strings.Contains(got.Body, "limits.backendMessage")):
					t.Errorf("%s client: %d %.300s; want an error of 9 that names the key", client, got.Status, got.Body)
				}
			}
		})
	}
}
