// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// The sizes of these tests: the readers request many times what may be buffered.
const (
	largeText   = 4 << 20
	slowReaders = 32
)

// mostMemory returns what a gateway may need, in KiB. It buffers 8 MiB and one more response,
// and needs about 25 MiB otherwise; the race detector multiplies that.
func mostMemory() int {
	const most = 100 << 10
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 4 * most
	}
	return most
}

// eventServer is a modern backend with event streams as responses. The result of its tool
// large has a text of size bytes.
func eventServer(t *testing.T, size int) string {
	t.Helper()
	text := strings.Repeat("x", size)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := map[string]string{
			"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}`,
			"tools/list": `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[` +
				`{"name":"large","inputSchema":{"type":"object"}},{"name":"small","inputSchema":{"type":"object"}}]}`,
			"tools/call": `{"resultType":"complete","content":[]}`,
		}[m.Method]
		tail := ""
		if m.Params.Name == "large" {
			result = `{"resultType":"complete","content":[{"type":"text","text":"`
			tail = `"}]}`
		}
		if result == "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`, m.ID, m.Method)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s", m.ID, result)
		if tail != "" {
			_, _ = io.WriteString(w, text)
		}
		fmt.Fprintf(w, "%s}\n\n", tail)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// boundedGateway is a gateway in a separate process, with small limits, two principals, and
// one backend.
type boundedGateway struct {
	t    *testing.T
	pid  int
	addr string
}

func startBounded(t *testing.T, backend string) *boundedGateway {
	t.Helper()
	environ := append(os.Environ(), "SLOW="+slowToken, "HONEST="+honestToken, "GOGC=100")
	return startIn(t, environ, `
listen: 127.0.0.1:0
limits: {pending: 64MiB, pendingPerPrincipal: 8MiB, write: 15s}
auth: {tokens: [{principal: slow, env: SLOW}, {principal: honest, env: HONEST}]}
mcpServers: {b: `+backend+`}
`, "signalbox", "serve")
}

// startIn starts a gateway with a configuration in a new folder.
func startIn(t *testing.T, environ []string, config, name string, args ...string) *boundedGateway {
	t.Helper()
	dir := t.TempDir()
	commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), config)
	gw, err := startProcess(dir, environ, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gw.kill()
		if t.Failed() {
			t.Logf("the gateway said:\n%s", gw.said)
		}
	})
	at, err := gw.expect(`http://(127\.0\.0\.1:\d+)/mcp`)
	if err != nil {
		t.Fatal(err)
	}
	return &boundedGateway{t: t, pid: gw.cmd.Process.Pid, addr: at[1]}
}

const (
	slowToken   = "token-of-slow-readers"
	honestToken = "token-of-honest-ones"
)

// do sends a request and returns the response.
func (g *boundedGateway) do(method, path, token string, header [][2]string, body string) (*http.Response, string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), commandtest.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for _, f := range header {
		req.Header.Set(f[0], f[1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp, string(text)
}

func (g *boundedGateway) call(token, tool string) (status int, text string) {
	g.t.Helper()
	resp, text := g.do(http.MethodPost, "/mcp", token, commandtest.CallHeader(tool), commandtest.CallOf(tool))
	return resp.StatusCode, text
}

// session opens a session of a legacy client and returns the headers of its messages.
func (g *boundedGateway) session(version string) [][2]string {
	g.t.Helper()
	header := [][2]string{{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}}
	resp, text := g.do(http.MethodPost, "/mcp", slowToken, header,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		g.t.Fatalf("no session: %s", text)
	}
	header = append(header, [2]string{"Mcp-Session-Id", id})
	g.do(http.MethodPost, "/mcp", slowToken, header, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return header
}

// send sends a request of the slow principal on a connection with small buffers, and does not
// read the response.
func (g *boundedGateway) send(method, path string, header [][2]string, body string) net.Conn {
	g.t.Helper()
	return g.sendAs(slowToken, method, path, header, body)
}

func (g *boundedGateway) sendAs(token, method, path string, header [][2]string, body string) net.Conn {
	g.t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	c, err := d.DialContext(g.t.Context(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n", method, path, g.addr, token, len(body))
	for _, f := range header {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	if _, err := io.WriteString(c, b.String()+"\r\n"+body); err != nil {
		g.t.Fatal(err)
	}
	return c
}

// pending returns pendingBytes of the status.
func (g *boundedGateway) pending() int64 {
	g.t.Helper()
	_, text := g.do(http.MethodGet, "/status", honestToken, nil, "")
	var s struct{ PendingBytes *int64 }
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.PendingBytes == nil {
		g.t.Fatalf("the status has no pendingBytes: %s, %v", text, err)
	}
	return *s.PendingBytes
}

// await waits until a condition is true.
func (g *boundedGateway) await(what string, is func() bool) {
	g.t.Helper()
	late := time.NewTimer(commandtest.Patience)
	defer late.Stop()
	again := time.NewTicker(10 * time.Millisecond) // the process does not announce it
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-late.C:
			g.t.Fatalf("in vain: %s", what)
		}
	}
}

// ended returns how many calls of tools have ended: the whole answer of each was there.
func (g *boundedGateway) ended() (n int) {
	g.t.Helper()
	_, text := g.do(http.MethodGet, "/metrics", honestToken, nil, "")
	for _, m := range regexp.MustCompile(`(?m)^mcp_server_operation_duration_seconds_count\{.*mcp_method_name="tools/call".*\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		k, err := strconv.Atoi(m[1])
		if err != nil {
			g.t.Fatal(err)
		}
		n += k
	}
	return n
}

// memory returns a line of the process's status, in KiB.
func (g *boundedGateway) memory(line string) int {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid))
	m := regexp.MustCompile(line + `:\s+(\d+) kB`).FindStringSubmatch(string(text))
	if m == nil {
		g.t.Fatalf("no %s: %v", line, err)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

// legacyCall returns a request of a session.
func legacyCall(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

// Clients that do not read their responses use no more memory than the limits permit, with
// every transport on both sides. Their principal's next request is rejected, and others are
// not affected.
func TestSlowReadersAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, backend string // "" for a backend with events over HTTP
		ask           func(*boundedGateway)
	}{
		{"modern, events", "", func(g *boundedGateway) {
			for range slowReaders {
				g.send(http.MethodPost, "/mcp", commandtest.CallHeader("b__large"), commandtest.CallOf("b__large"))
			}
		}},
		{"modern, stdio", "{command: mcpchild, args: [large]}", func(g *boundedGateway) {
			for range slowReaders {
				g.send(http.MethodPost, "/mcp", commandtest.CallHeader("b__large"), commandtest.CallOf("b__large"))
			}
		}},
		{"session, events", "", func(g *boundedGateway) {
			header := g.session("2025-11-25")
			for i := range slowReaders {
				g.send(http.MethodPost, "/mcp", header, legacyCall(i+1, "b__large"))
			}
		}},
		{"session, stdio", "{command: mcpchild, args: [large]}", func(g *boundedGateway) {
			header := g.session("2025-11-25")
			for i := range slowReaders {
				g.send(http.MethodPost, "/mcp", header, legacyCall(i+1, "b__large"))
			}
		}},
		{"batch", "", func(g *boundedGateway) {
			calls := make([]string, slowReaders)
			for i := range calls {
				calls[i] = legacyCall(i+1, "b__large")
			}
			g.send(http.MethodPost, "/mcp", g.session("2025-03-26"), "["+strings.Join(calls, ",")+"]")
		}},
		{"sse", "", func(g *boundedGateway) {
			c := g.send(http.MethodGet, "/sse", [][2]string{{"Accept", "text/event-stream"}}, "")
			buf := make([]byte, 4<<10)
			n := 0
			for m := []string(nil); m == nil; m = regexp.MustCompile(`data: (/sse\?sessionId=\w+)\n`).FindStringSubmatch(string(buf[:n])) {
				k, err := c.Read(buf[n:])
				if err != nil {
					g.t.Fatal(err)
				}
				n += k
			}
			at := regexp.MustCompile(`/sse\?sessionId=\w+`).FindString(string(buf[:n]))
			post := func(body string) {
				g.do(http.MethodPost, at, slowToken, [][2]string{{"Content-Type", "application/json"}}, body)
			}
			post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for i := range slowReaders {
				post(legacyCall(i+1, "b__large"))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			backend := tt.backend
			if backend == "" {
				backend = "{url: " + strconv.Quote(eventServer(t, largeText)) + "}"
			}
			g := startBounded(t, backend)
			g.await("the backend answers", func() bool { status, _ := g.call(honestToken, "b__small"); return status == http.StatusOK })
			tt.ask(g)
			const most = 8 << 20
			g.await("the limit is reached", func() bool { return g.pending() >= most })
			refused := ""
			g.await("a new request is refused", func() bool {
				var status int
				status, refused = g.call(slowToken, "b__small")
				return status == http.StatusTooManyRequests
			})
			for _, part := range []string{"limits.pendingPerPrincipal", `"outcome":"not_dispatched"`} {
				if !strings.Contains(refused, part) {
					t.Errorf("the refusal is %s, without %q", refused, part)
				}
			}
			if status, text := g.call(honestToken, "b__large"); status != http.StatusOK || len(text) < largeText {
				t.Errorf("another principal gets %d, %d bytes: %.200s", status, len(text), text)
			}
			if peak, most := g.memory("VmHWM"), mostMemory(); peak > most {
				t.Errorf("the gateway has had %d KiB, want at most %d", peak, most)
			}
		})
	}
}

// A client that reads slowly receives the whole response, even if other clients of its
// principal use all of the memory meanwhile. A response that has not arrived from the backend
// by then may be one that waits for memory in vain.
func TestSlowLineGetsItsAnswer(t *testing.T) {
	t.Parallel()
	g := startBounded(t, "{url: "+strconv.Quote(eventServer(t, largeText))+"}")
	g.await("the backend answers", func() bool { status, _ := g.call(honestToken, "b__small"); return status == http.StatusOK })
	before := g.ended()
	c := g.send(http.MethodPost, "/mcp", commandtest.CallHeader("b__large"), commandtest.CallOf("b__large"))
	g.await("its answer is there", func() bool { return g.pending() > largeText/2 && g.ended() == before+1 })
	var idle []net.Conn
	for range 8 {
		idle = append(idle, g.send(http.MethodPost, "/mcp", commandtest.CallHeader("b__large"), commandtest.CallOf("b__large")))
	}
	got, last := 0, ""
	for buf := make([]byte, 64<<10); got < largeText; {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("after %d bytes: %v; the last are %q", got, err, last)
		}
		last = strings.Clone(string(buf[max(0, n-1<<10):n]))
		got += n
	}
	for _, other := range idle {
		other.Close()
	}
	g.await("what was held is given back", func() bool { return g.pending() == 0 })
	if status, _ := g.call(slowToken, "b__small"); status != http.StatusOK {
		t.Errorf("a request after that is answered %d", status)
	}
}
