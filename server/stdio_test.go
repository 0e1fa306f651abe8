// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// console is a client on a pipe.
type console struct {
	t      *testing.T
	server *server.Server
	conn   *memnet.Conn
	lines  *bufio.Scanner
	done   chan error
	cancel context.CancelFunc
}

// pipes runs f in a bubble with a client on a pipe, and ends it afterwards.
func pipes(t *testing.T, h mcp.Handler, cfg server.Config, f func(*console)) {
	t.Helper()
	pipesAs(t, nil, h, cfg, f)
}

// pipesAs is pipes for a client with an identity.
func pipesAs(t *testing.T, identity *mcp.Identity, h mcp.Handler, cfg server.Config, f func(*console)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, srv := memnet.Pipe(memnet.DefaultBuffer)
		ctx, cancel := context.WithCancel(t.Context())
		c := &console{t: t, server: server.New(h, cfg), conn: client, lines: bufio.NewScanner(client), done: make(chan error, 1), cancel: cancel}
		c.lines.Buffer(nil, 16<<20)
		go func() { // ends with the pipe or ctx
			err := c.server.ServeStdioAs(ctx, identity, srv, srv)
			_ = srv.CloseWrite()
			c.done <- err
		}()
		f(c)
		cancel()
		_ = client.Close()
		if err := c.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
	})
}

func (c *console) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.conn, l+"\n"); err != nil {
			c.t.Fatalf("writing %s: %v", l, err)
		}
	}
}

func (c *console) next() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("no more lines: %v", c.lines.Err())
	}
	return c.lines.Text()
}

func (c *console) expect(want string) {
	c.t.Helper()
	equal(c.t, "line", c.next(), want)
}

// closeInput closes the client's output, and checks that the server ends the pipe.
func (c *console) closeInput() {
	c.t.Helper()
	if err := c.conn.CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) wantEnd() {
	c.t.Helper()
	if c.lines.Scan() {
		c.t.Errorf("after the end: %s", c.lines.Text())
	}
	if err := <-c.done; err != nil {
		c.t.Errorf("ServeStdio = %v, want nil", err)
	}
}

func (c *console) handshake() {
	c.t.Helper()
	c.send(initialize)
	if got := c.next(); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		c.t.Fatalf("initialize: %s", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// H1+ 2026-07-28 basic/index: "Client requests carry the following
// io.modelcontextprotocol/* fields in _meta; fields marked as required MUST be
// included on every request."
func TestStdioBothEras(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[],"resultType":"complete"}`)})
	pipes(t, h, server.Config{}, func(c *console) {
		c.send(modern("1", "tools/call", `"name":"echo"`))
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		c.handshake()
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`)
		c.expect(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
		c.send(modern("3", "tools/call", `"name":"echo"`))
		c.expect(`{"jsonrpc":"2.0","id":3,"result":{"content":[],"resultType":"complete"}}`)
		c.closeInput()
		c.wantEnd()
	})
}

// pipesGated is pipes with a gate as its tool "wait".
func pipesGated(t *testing.T, cfg server.Config, f func(*console, *gate)) {
	t.Helper()
	var g *gate
	wait := func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		return g.serve(ctx, req, c)
	}
	h := tools(map[string]mcp.HandlerFunc{"wait": wait, "echo": fixedResult(`{}`), "ask": ask("roots/list", "{}")})
	pipes(t, h, cfg, func(c *console) {
		g = newGate()
		f(c, g)
	})
}

// FAULTS 6, 7, 10, 12, 19; M200: invalid lines are answered, and the next line is read.
//
// J1- 2025-11-25 basic/transports: "JSON-RPC messages **MUST** be UTF-8 encoded."
func TestStdioRefusals(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"no UTF-8", `{"jsonrpc":"2.0","id":7,"method":"` + "\xff" + `"}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32700,"message":"invalid UTF-8 at byte 34; JSON text is UTF-8, without overlong forms and surrogates"}}`},
		{"junk", `hello`, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"unexpected 'h' at byte 0; expected a value"}}`},
		{"null id", raw("null", "ping", ""), ``},
		{"too long", raw("5", "ping", `{"x":"`+strings.Repeat("x", 3000)+`"}`), wireError("5", "-32600", "line exceeds 2 KiB (limits.requestBody)")},
		{"legacy before initialize", raw("1", "tools/list", ""), wireError("1", "-32600", `session not initialized; send initialize first, or name "io.modelcontextprotocol/protocolVersion" in _meta`)},
		{"batch", `[` + raw("1", "ping", "") + `]`, invalid("only 2025-03-26 has batches")},
		{"modern without version", raw("1", "server/discover", `{}`), wireError("1", "-32602", `params._meta lacks "io.modelcontextprotocol/protocolVersion"; every request must have it`)},
		{"modern unknown method", modern("1", "no/such", ""), wireError("1", "-32601", `unknown method "no/such"`)},
		{"modern ping", modern("1", "ping", ""), wireError("1", "-32601", `method "ping" does not exist in 2026-07-28; it belongs to 2025-11-25 and before`)},
		{"ping before initialize", raw("1", "ping", ""), `{"jsonrpc":"2.0","id":1,"result":{}}`},
	}
	pipesGated(t, server.Config{Limits: server.Limits{RequestBody: 2 << 10}}, func(c *console, _ *gate) {
		for _, tt := range tests {
			c.send(tt.line)
			got := c.next()
			if tt.want == "" {
				tt.want = got
				if !strings.Contains(got, `"code":-32600`) {
					t.Errorf("%s: %s; want -32600", tt.name, got)
				}
			}
			equal(t, tt.name, got, tt.want)
		}
		c.send(``, `{"jsonrpc":"2.0","id":9,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/x"}`) // not answered
		c.handshake()
		c.send(initialize)
		c.expect(wireError("0", "-32600", "the session is already initialized"))
		c.closeInput()
		c.wantEnd()
	})
}

// The ids of both eras share one pipe.
//
// J4- 2026-07-28 basic/index: "The request ID **MUST NOT** match the ID of any other
// request the sender has issued and not yet received a response for."
func TestStdioDuplicateID(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.handshake()
		c.send(modern("1", "tools/call", `"name":"wait"`))
		<-g.entered
		c.send(raw("1", "tools/call", `{"name":"echo"}`))
		c.expect(wireError("1", "-32600", "a request with id 1 is in flight"))
		c.send(raw("2", "tools/call", `{"name":"wait"}`))
		<-g.entered
		c.send(modern("2", "tools/call", `"name":"echo"`))
		c.expect(wireError("2", "-32600", "a request with id 2 is in flight"))
		close(g.release)
		got := []string{c.next(), c.next()}
		slices.Sort(got)
		equal(t, "results", strings.Join(got, "\n"),
			`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`+"\n"+`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	})
}

// C2: on a pipe both eras cancel by a notification, and get no answer.
//
// C2+ 2026-07-28 basic/transports/stdio: "Servers SHOULD stop work on a cancelled
// request as soon as practical and MUST NOT send any further messages for it."
func TestStdioCancel(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.handshake()
		for _, request := range []string{modern("1", "tools/call", `"name":"wait"`), raw("1", "tools/call", `{"name":"wait"}`)} {
			c.send(request)
			<-g.entered
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if err := <-g.cause; !strings.Contains(err.Error(), "cancelled") {
				t.Errorf("the context ended with %v", err)
			}
			c.send(raw("2", "ping", ""))
			c.expect(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		}
	})
}

func TestStdioAsk(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, _ *gate) {
		c.handshake()
		c.send(raw("1", "tools/call", `{"name":"ask"}`))
		c.expect(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		c.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	})
}

// A client that closes its output right after a request still receives the answer.
func TestStdioAnswerAfterInputClosed(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.send(modern("1", "tools/call", `"name":"wait"`))
		c.closeInput()
		<-g.entered
		close(g.release)
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		c.wantEnd()
	})
}

// D4: without requests in flight the pipe ends at once; a recent request is cancelled after
// a moment, and an older one at once. Nothing is written for them: some clients fail if a
// message arrives while they close.
//
// D4+ 2026-07-28 basic/transports/stdio: "Servers SHOULD exit promptly when their
// standard input is closed or reads return end-of-file."
func TestStdioEnd(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.handshake()
		c.send(raw("1", "tools/call", `{"name":"wait"}`))
		<-g.entered
		start := time.Now()
		c.closeInput()
		c.wantEnd()
		if d := time.Since(start); d != 1200*time.Millisecond {
			t.Errorf("the end took %v, want 1.2s", d)
		}
	})
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.handshake()
		c.send(raw("1", "tools/call", `{"name":"wait"}`))
		<-g.entered
		time.Sleep(time.Second)
		start := time.Now()
		c.closeInput()
		c.wantEnd()
		if d := time.Since(start); d != 0 {
			t.Errorf("the end beside an old request took %v, want none", d)
		}
	})
	pipesGated(t, server.Config{}, func(c *console, _ *gate) {
		c.handshake()
		start := time.Now()
		c.closeInput()
		c.wantEnd()
		if d := time.Since(start); d != 0 {
			t.Errorf("the end took %v, want none", d)
		}
	})
}

// The scope of the session ends with the pipe.
func TestStdioScopeEnds(t *testing.T) {
	ended := make(map[string]int)
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method == "subscriptions/listen" {
			return listenUntilEnd(ctx, c)
		}
		if req.Scope != nil {
			req.Scope.OnEnd(func() { ended[req.Method]++ })
		}
		return result(discovered)
	})
	pipes(t, h, server.Config{}, func(c *console) {
		c.handshake()
		c.send(raw("1", "tools/list", ""))
		c.next()
		c.closeInput()
		c.wantEnd()
	})
	if ended["server/discover"] != 1 || ended["tools/list"] != 1 {
		t.Errorf("ended: %v; want both once", ended)
	}
}

// A legacy client on a pipe receives changes after its notifications/initialized; U3: a
// modern one after its listen, which U7 ends with its result and, on a pipe, a
// notification.
//
// U7+ 2026-07-28 basic/patterns/cancellation: "A server MUST send
// `notifications/cancelled` referencing a `subscriptions/listen` request ID when it
// tears down that subscription stream"
//
// C3+ 2026-07-28 basic/patterns/cancellation: "Server-sent cancellation notifications
// MUST reference a `subscriptions/listen` request, to terminate that subscription
// stream"
func TestStdioListen(t *testing.T) {
	h := &changing{Handler: tools(nil)}
	pipes(t, h, server.Config{}, func(c *console) {
		h.changed, h.acked = make(chan string), make(chan struct{}, 4)
		c.handshake()
		<-h.acked
		h.changed <- toolsChanged
		c.expect(`{"jsonrpc":"2.0","method":"` + toolsChanged + `"}`)
		c.send(modern(`"s"`, "subscriptions/listen", ""))
		const id = `"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}`
		c.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},` + id + `}}`)
		go func() { _ = c.server.Shutdown(c.t.Context()) }() // ends with the pipe
		c.expect(`{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete",` + id + `}}`)
		c.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
		if c.lines.Scan() {
			t.Errorf("after the end: %s", c.lines.Text())
		}
		if err := <-c.done; err == nil || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("ServeStdio = %v, want that the server shuts down", err)
		}
	})
}

// During a shutdown running requests end, and new ones are refused.
func TestStdioShutdown(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, g *gate) {
		c.send(modern("1", "tools/call", `"name":"wait"`))
		<-g.entered
		done := make(chan error, 1)
		go func() { done <- c.server.Shutdown(c.t.Context()) }() // ends with the request
		synctest.Wait()
		c.send(modern("2", "tools/call", `"name":"echo"`))
		c.expect(`{"jsonrpc":"2.0","id":2,"error":{"code":1004,"message":"the gateway is shutting down; the request was not sent",` +
			`"data":{"source":"gateway","outcome":"not_dispatched"}}}`)
		close(g.release)
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}

// M137: the end of the context ends the pipe although a read is blocked on it.
func TestM137ContextEndsAParkedRead(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, _ *gate) {
		c.handshake()
		c.cancel()
		if err := <-c.done; !errors.Is(err, context.Canceled) {
			t.Errorf("ServeStdio = %v, want context.Canceled", err)
		}
	})
}

// Batches work on a pipe for the one revision that has them.
func TestStdioBatch(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, _ *gate) {
		c.send(opening("2025-03-26"))
		c.next()
		c.send(`[` + raw("1", "ping", "") + `,` + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + `]`)
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		c.send(`[]`)
		if got := c.next(); !strings.Contains(got, "the batch is empty") {
			t.Errorf("empty batch: %s", got)
		}
	})
}

// The end of a pipe does not wait for a client that does not read.
func TestStdioClientThatDoesNotRead(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"big": fixedResult(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)})
	pipes(t, h, server.Config{}, func(c *console) {
		c.send(modern("1", "tools/call", `"name":"big"`))
		synctest.Wait()
		c.cancel()
		if err := <-c.done; !errors.Is(err, context.Canceled) {
			t.Errorf("ServeStdio = %v, want context.Canceled", err)
		}
	})
}

// D1: one message is one line, even if a result contains line breaks.
//
// D1+ 2026-07-28 basic/transports/stdio: "Messages are delimited by newlines, and MUST
// NOT contain embedded newlines."
func TestStdioPrettyResult(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"pretty": fixedResult("{\n\"a\":\r\n1}"), "large": fixedResult("{\"x\":\"" + strings.Repeat("x", 50_000) + "\"\n}")})
	pipes(t, h, server.Config{}, func(c *console) {
		c.handshake()
		c.send(raw("1", "tools/call", `{"name":"pretty"}`))
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{ "a":  1}}`)
		c.send(raw("2", "tools/call", `{"name":"large"}`))
		c.expect(`{"jsonrpc":"2.0","id":2,"result":{"x":"` + strings.Repeat("x", 50_000) + `" }}`)
		c.send(modern("3", "tools/call", `"name":"large"`)) // to which members are added
		c.expect(`{"jsonrpc":"2.0","id":3,"result":{"x":"` + strings.Repeat("x", 50_000) + `" ,"resultType":"complete"}}`)
	})
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// slowOpening is a Handler with a server/discover that takes that long, and may then fail.
func slowOpening(takes time.Duration, err error) mcp.Handler {
	rest := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`), "slow": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		select {
		case <-time.After(500 * time.Millisecond):
			return result(`{"slow":true}`)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method != "server/discover" {
			return rest.Serve(ctx, req, c)
		}
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		return result(discovered)
	})
}

func callEcho(id string) string { return raw(id, "tools/call", `{"name":"echo"}`) }

func echoed(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

// readAll returns the lines until the end of the pipe, and checks that it ends without an
// error.
func (c *console) readAll() []string {
	c.t.Helper()
	var lines []string
	for c.lines.Scan() {
		lines = append(lines, c.lines.Text())
	}
	if err := <-c.done; err != nil {
		c.t.Errorf("ServeStdio = %v, want nil", err)
	}
	return lines
}

// A client that sends all its messages and closes its input receives all its answers, that
// of initialize first.
func TestStdioPipelined(t *testing.T) {
	for _, takes := range []time.Duration{0, 600 * time.Millisecond} {
		pipes(t, slowOpening(takes, nil), server.Config{}, func(c *console) {
			start := time.Now()
			c.send(initialize, initialized, callEcho("1"), raw("2", "tools/call", `{"name":"slow"}`), callEcho("3"))
			c.closeInput()
			got := c.readAll()
			if len(got) != 4 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion"`) {
				t.Fatalf("%q; want the answer of initialize and three more", got)
			}
			slices.Sort(got[1:])
			equal(t, "answers", strings.Join(got[1:], "\n"), echoed("1")+"\n"+`{"jsonrpc":"2.0","id":2,"result":{"slow":true}}`+"\n"+echoed("3"))
			if d, want := time.Since(start), takes+500*time.Millisecond; d != want {
				t.Errorf("it took %v; want %v for initialize and the slow call", d, want)
			}
		})
	}
}

// An answer without a Handler is also written before the pipe ends.
func TestStdioPingAndEnd(t *testing.T) {
	for range 20 {
		pipes(t, tools(nil), server.Config{}, func(c *console) {
			c.send(raw("1", "ping", ""), `junk`)
			c.closeInput()
			if got := c.readAll(); len(got) != 2 || got[0] != echoed("1") || !strings.Contains(got[1], "-32700") {
				t.Fatalf("%q; want the answer of a ping and an error", got)
			}
		})
	}
}

// While a session opens, messages that do not depend on it are served.
func TestStdioServesWhileOpening(t *testing.T) {
	pipes(t, slowOpening(time.Hour, nil), server.Config{}, func(c *console) {
		c.send(initialize, callEcho("1"), raw("2", "ping", ""), modern("3", "tools/call", `"name":"echo"`))
		c.expect(echoed("2"))
		c.expect(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"}}`)
		if got := c.next(); !strings.Contains(got, `"protocolVersion"`) {
			t.Errorf("%s; want the answer of initialize", got)
		}
		c.expect(echoed("1"))
	})
}

// An initialize that is still running after the client has ended is cancelled after a
// moment, and nothing is written to a client that has left.
func TestStdioOpeningThatHangs(t *testing.T) {
	pipes(t, slowOpening(time.Hour, nil), server.Config{}, func(c *console) {
		start := time.Now()
		c.send(initialize, initialized, callEcho("1"))
		c.closeInput()
		if got := c.readAll(); len(got) != 0 {
			t.Errorf("%q; want nothing", got)
		}
		if d := time.Since(start); d != 1200*time.Millisecond {
			t.Errorf("the end took %v, want 1.2s", d)
		}
	})
}

// Messages that were queued for a session that did not open are answered as if they had
// arrived before any initialize; another initialize is possible.
func TestStdioOpeningThatFails(t *testing.T) {
	pipes(t, slowOpening(time.Second, mcp.Errorf(7, "no")), server.Config{}, func(c *console) {
		c.send(initialize, initialized, callEcho("1"), strings.Replace(initialize, `"id":0`, `"id":5`, 1), callEcho("2"))
		c.expect(wireError("0", "7", "no"))
		if got := c.next(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, "session not initialized") {
			t.Errorf("%s; want that the session is not initialized", got)
		}
		c.expect(wireError("5", "7", "no"))
		if got := c.next(); !strings.Contains(got, `"id":2`) || !strings.Contains(got, "session not initialized") {
			t.Errorf("%s; want that the session is not initialized", got)
		}
	})
}

// The number of queued messages has the same bound as that of requests in flight.
func TestStdioQueueIsBounded(t *testing.T) {
	cfg := server.Config{Limits: server.Limits{InFlightPerSession: 3}}
	pipes(t, slowOpening(time.Hour, nil), cfg, func(c *console) {
		c.send(initialize)
		for i := range 5 {
			c.send(callEcho(strconv.Itoa(i + 1)))
		}
		for _, id := range []string{"4", "5"} {
			if got := c.next(); !strings.Contains(got, `"id":`+id) || !strings.Contains(got, "3 requests in flight (limits.inFlightPerSession)") {
				t.Errorf("%s; want that there are too many", got)
			}
		}
		c.next()
		got := []string{c.next(), c.next(), c.next()}
		slices.Sort(got)
		equal(t, "held", strings.Join(got, "\n"), echoed("1")+"\n"+echoed("2")+"\n"+echoed("3"))
	})
}

// Queued messages keep their order: a cancel follows its request, and a batch stays a
// batch.
func TestStdioQueueKeepsOrder(t *testing.T) {
	pipes(t, slowOpening(time.Second, nil), server.Config{}, func(c *console) {
		c.send(opening("2025-03-26"), initialized, raw("1", "tools/call", `{"name":"slow"}`),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `[`+callEcho("2")+`]`)
		c.closeInput()
		if got := c.readAll(); len(got) != 2 || got[1] != echoed("2") {
			t.Errorf("%q; want the answers of initialize and of the batch", got)
		}
	})
}

// standardStream is a stream with a Close that does not end a blocked read or write, like
// the standard streams of a process.
type standardStream struct {
	released chan struct{} // ends blocked calls
}

func (s standardStream) Read([]byte) (int, error) {
	<-s.released
	return 0, io.EOF
}

func (s standardStream) Write([]byte) (int, error) {
	<-s.released
	return 0, io.ErrClosedPipe
}

func (standardStream) Close() error { return nil }

// I26: the end of a pipe is bounded although neither reading nor writing can be
// interrupted. A process that is asked to end by a signal must not wait until its parent
// writes or reads once more.
func TestStdioEndsOnStandardStreams(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	tests := []struct {
		name string
		open func(stuck standardStream) (io.Reader, io.Writer)
		most time.Duration
	}{
		{"a parked read", func(stuck standardStream) (io.Reader, io.Writer) { return stuck, io.Discard }, time.Second},
		{"a parked write", func(stuck standardStream) (io.Reader, io.Writer) {
			in, client := memnet.Pipe(memnet.DefaultBuffer)
			_, _ = io.WriteString(client, ask) // fits into the buffer
			return in, stuck
		}, 3 * time.Second},
		{"both", func(stuck standardStream) (io.Reader, io.Writer) {
			return io.MultiReader(strings.NewReader(ask), stuck), stuck
		}, 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck := standardStream{make(chan struct{})}
				r, w := tt.open(stuck)
				s := server.New(tools(nil), server.Config{})
				done := make(chan error, 1)
				go func() { done <- s.ServeStdio(t.Context(), r, w) }() // ends with the server
				synctest.Wait()
				begun := time.Now()
				if err := s.Shutdown(t.Context()); err != nil {
					t.Errorf("Shutdown = %v", err)
				}
				if err := <-done; err == nil {
					t.Error("ServeStdio = nil, want that the server shuts down")
				}
				if took := time.Since(begun); took > tt.most {
					t.Errorf("the end took %v, want at most %v", took, tt.most)
				}
				close(stuck.released)
			})
		})
	}
}

// The end of its input ends a server, even if a Handler does not return and the remaining
// output is not read.
//
// D4- 2026-07-28 basic/transports/stdio: "This is the primary graceful-shutdown signal
// and the only portable one, so honoring it reduces the need for forced termination."
func TestStdioEndsWithItsInput(t *testing.T) {
	for _, ask := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, modern("1", "tools/call", `"name":"wait"`)} {
		synctest.Test(t, func(t *testing.T) {
			stuck := standardStream{make(chan struct{})}
			s := server.New(tools(map[string]mcp.HandlerFunc{"wait": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}), server.Config{})
			done := make(chan error, 1)
			begun := time.Now()
			go func() { done <- s.ServeStdio(t.Context(), strings.NewReader(ask+"\n"), stuck) }() // ends by itself, or with what is stuck
			select {
			case err := <-done:
				if took := time.Since(begun); err != nil || took > 5*time.Second {
					t.Errorf("%s: ServeStdio = %v after %v, want nil within 5s", ask, err, took)
				}
				close(stuck.released)
			case <-time.After(time.Hour):
				t.Errorf("%s: ServeStdio goes on an hour after the end of its input", ask)
				close(stuck.released)
				<-done
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
	}
}

// I21: a client on a pipe that sends requests and does not read is not served for ever.
// What is queued for it is bounded, however much it sends.
func TestStdioFloodWithoutReading(t *testing.T) {
	pipes(t, tools(nil), server.Config{}, func(c *console) {
		taken := 0
		for range 20_000 {
			line := modern(strconv.Itoa(taken), "tools/list", "") + "\n"
			_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := io.WriteString(c.conn, line); err != nil {
				break
			}
			taken++
		}
		if got := c.server.Stats().Requests; got > 5_000 {
			t.Errorf("%d requests were served to a client that reads none of the answers", got)
		}
	})
}
