// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// An id that the server has not made selects no session, whatever it contains, and does not
// affect the existing one.
//
// S2- 2025-11-25 basic/transports: "The session ID **MUST** only contain visible ASCII
// characters (ranging from 0x21 to 0x7E)."
func TestOddSessionIDs(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.session()
		id := sess["Mcp-Session-Id"]
		for _, odd := range []string{
			id + " " + id, id + ",", id + "\u00e9", "\x7f" + id, id + "\x01", "\u00e9", id[:len(id)-1], id + "A", strings.ToLower(id) + "x", strings.Repeat(id, 100), `"` + id + `"`,
		} {
			got := s.exchange("Mcp-Session-Id: "+odd+"\r\n", raw("1", "ping", ""))
			if !strings.HasPrefix(got, "HTTP/1.1 404 ") && !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("%q: %.100q; want 404, or 400 of what is no header", odd, got)
			}
		}
		if got := s.post(raw("1", "ping", ""), sess); got.status != 200 {
			t.Errorf("the session is over: %d %s", got.status, got.body)
		}
	})
}

// Another principal that knows the session and the id of its question still cannot answer
// it; the question waits for its own client.
//
// S10- 2025-11-25 client/elicitation: "State **MUST NOT** be associated with session
// IDs alone"
//
// S10+ 2025-11-25 client/elicitation: "State **MUST NOT** be associated with session
// IDs alone"
func TestAnswerOfAnotherPrincipal(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("elicitation/create", `{"message":"name?","requestedSchema":{}}`)})
	bubble(t, h, server.Config{Authenticate: identified(byHeader)}, func(s *site) {
		ann, bob := headers{"Authorization": "ann"}, headers{"Authorization": "bob"}
		sess := s.sessionOf(ann)
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"ask"}`), sess, ann)
		equal(t, "question", st.next(), `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"name?","requestedSchema":{}}}`)
		answer := func(name string) string {
			return `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"` + name + `"}}}`
		}
		if got := s.post(answer("bob"), sess, bob); got.status != 404 {
			t.Errorf("with the session of somebody else: %d %s; want 404", got.status, got.body)
		}
		if got := s.post(answer("bob"), s.sessionOf(bob), bob); got.status != 202 {
			t.Errorf("with one's own session: %d %s; want 202, and that it comes to nothing", got.status, got.body)
		}
		if got := s.post(answer("ann"), sess, ann); got.status != 202 {
			t.Errorf("answer of the client that was asked: %d %s; want 202", got.status, got.body)
		}
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"ann"}}}`)
		st.end()
	})
}

// transcript has the messages that are sent over any transport, with the expected answers.
func transcript() []struct{ name, message, want string } {
	return []struct{ name, message, want string }{
		{"call", modern("1", "tools/call", `"name":"echo"`), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`},
		{"unknown tool", modern(`"x"`, "tools/call", `"name":"none"`), wireError(`"x"`, "-32602", `unknown tool "none"`)},
		{"no metadata", raw("2", "server/discover", `{}`), wireError("2", "-32602", `params._meta lacks "io.modelcontextprotocol/protocolVersion"; every request must have it`)},
		{"of another era", modern("3", "ping", ""), wireError("3", "-32601", `method "ping" does not exist in 2026-07-28; it belongs to 2025-11-25 and before`)},
		{"no message", `{"jsonrpc":"1.0","id":4,"method":"x"}`, ""},
		{"no JSON", `hello`, ""},
		{"an id that is none", modern("null", "tools/call", `"name":"echo"`), ""},
	}
}

// Over a unix socket messages are the same as over any other transport: in HTTP, and as
// lines.
//
// T10+ 2026-07-28 basic/transports/index: "Implementers who choose to support custom
// transports **MUST** preserve the JSON-RPC message format, the [message
// patterns](/specification/2026-07-28/basic/patterns), and the per-request metadata
// model."
//
// T10- 2025-11-25 basic/transports: "Implementers who choose to support custom
// transports **MUST** ensure they preserve the JSON-RPC message format and lifecycle
// requirements defined by MCP."
func TestUnixSockets(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[]}`)})
	s := server.New(h, server.Config{})
	listen := func(name string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	overHTTP, overLines := listen("http"), listen("lines")
	done := make(chan error, 2)
	web := &http.Server{Handler: s}
	go func() { done <- web.Serve(overHTTP) }() // ends with the Close below
	go func() {                                 // ends with the connection
		conn, err := overLines.Accept()
		if err == nil {
			err = s.ServeStdio(t.Context(), conn, conn)
		}
		done <- err
	}()
	dial := func(l net.Listener) net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	lines := dial(overLines)
	read := bufio.NewReader(lines)
	for _, tt := range transcript() {
		if _, err := io.WriteString(lines, tt.message+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := read.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		body := postOver(t, dial(overHTTP), tt.message)
		if err != nil || body != line {
			t.Errorf("%s: as a line %s, %v; over HTTP %s; want one answer", tt.name, line, err, body)
		}
		if tt.want == "" && !strings.HasPrefix(line, `{"jsonrpc":"2.0","`) || tt.want == "" && !strings.Contains(line, `"error":{"code":-32`) || tt.want != "" && line != tt.want {
			t.Errorf("%s: %s; want %q, or an error", tt.name, line, tt.want)
		}
	}
	lines.Close()
	if err := web.Close(); err != nil {
		t.Error(err)
	}
	overLines.Close()
	<-done
	<-done
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// postOver sends one message in HTTP over a connection, and returns the body of the answer.
func postOver(t *testing.T, conn net.Conn, body string) string {
	t.Helper()
	defer conn.Close()
	method, name := "", ""
	if m, err := mcp.Parse([]byte(body), mcp.Limits{}); err == nil {
		method = m.Method
		name, _ = m.Params.Text(mcp.FieldName)
	}
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	_, err := fmt.Fprintf(conn, "%sMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nMcp-Name: %s\r\nContent-Length: %d\r\n\r\n%s", head, method, name, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
