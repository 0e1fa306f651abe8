// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/relay"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a client, its Relay, and the gateways that have been started for it.
type world struct {
	t     *testing.T
	calls []string   // the methods that Handlers have served, with the names of tools
	held  chan error // receives the end of each call of "wait"

	client *memnet.Conn
	lines  *bufio.Reader
	ended  chan error

	mu       sync.Mutex
	refusal  error
	starts   int
	conn     *memnet.Conn // the running gateway's end of its connection
	gateway  *server.Server
	handlers sync.WaitGroup
	silent   int  // so many gateways do not answer a handshake
	leaving  int  // so many gateways accept the next connection, and then no session
	wordy    bool // the result of initialize is longer than what the Relay reads as a whole
	said     []string
	gone     bool // a client that closes its end is gone
}

// relayed runs f in a bubble with a client of a Relay.
func relayed(t *testing.T, f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, in := memnet.Pipe(memnet.DefaultBuffer)
		w := &world{t: t, client: client, lines: bufio.NewReader(client), ended: make(chan error, 1), held: make(chan error, 10)}
		ctx, cancel := context.WithCancel(t.Context())
		r := relay.New(relay.Config{Connect: w.connect, Join: w.join, IsGone: func() bool { return w.gone }, Report: w.report})
		go func() { // ends with the pipe
			err := r.Run(ctx, in, in)
			_ = in.Close()
			w.ended <- err
		}()
		f(w)
		_ = client.Close()
		cancel()
		w.kill()
		<-w.ended
		w.handlers.Wait()
	})
}

func (w *world) report(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// start starts a gateway, if there is none.
func (w *world) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gateway == nil {
		w.starts++
		w.gateway = server.New(mcp.HandlerFunc(w.serve), server.Config{})
	}
}

func (w *world) connect(ctx context.Context) (relay.Conn, error) {
	if w.refusal != nil {
		return nil, w.refusal
	}
	w.start()
	conn := w.join(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving > 0 {
		w.leaving--
		w.gateway.Quiesce()
		w.conn, w.gateway = nil, nil
	}
	return conn, nil
}

func (w *world) join(context.Context) relay.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gateway == nil {
		return nil
	}
	near, far := memnet.Pipe(memnet.DefaultBuffer)
	gw := w.gateway
	w.conn = far
	w.handlers.Go(func() { //nolint:contextcheck // ends with the connection
		_ = gw.ServeStdioAs(context.Background(), &mcp.Identity{Principal: "local"}, far, far)
		_ = far.Close()
	})
	return near
}

// kill ends the gateway, and drops what is in its connection.
func (w *world) kill() {
	w.mu.Lock()
	conn, gw := w.conn, w.gateway
	w.conn, w.gateway = nil, nil
	w.mu.Unlock()
	if gw == nil {
		return
	}
	if conn != nil {
		conn.Reset()
	}
	if err := gw.Close(); err != nil {
		w.t.Error(err)
	}
	synctest.Wait()
}

func (w *world) isSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starts <= w.silent
}

func (w *world) served(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.calls {
		if c == what {
			n++
		}
	}
	return n
}

const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"logging":{},"tools":{"listChanged":true},` +
	`"resources":{"subscribe":true,"listChanged":true},"prompts":{}},"ttlMs":1,"cacheScope":"public",` +
	`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`

// serve is the Handler of all gateways. Its tools wait until they are cancelled, ask the
// client, or return their arguments.
func (w *world) serve(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	w.mu.Lock()
	w.calls = append(w.calls, strings.TrimSpace(req.Method+" "+name))
	w.mu.Unlock()
	switch {
	case req.Method == "server/discover" && w.isSilent():
		<-ctx.Done()
		return nil, ctx.Err()
	case req.Method == "server/discover" && w.wordy:
		return mcp.NewResult([]byte(`{"instructions":"` + strings.Repeat("y", 300<<10) + `",` + discovered[1:]))
	case req.Method == "server/discover":
		return mcp.NewResult([]byte(discovered))
	case req.Method == "subscriptions/listen":
		n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", fmt.Appendf(nil, `{"notifications":%s}`, req.Params.Raw(mcp.FieldNotifications)))
		if err == nil {
			err = c.Notify(ctx, n)
		}
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		return mcp.NewResult([]byte(`{}`))
	case name == "wait":
		<-ctx.Done()
		w.held <- context.Cause(ctx)
		return nil, ctx.Err()
	case name == "ask", name == "ask briefly":
		if name != "ask" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Second)
			defer cancel()
		}
		ask, err := mcp.NewRequest("roots/list", []byte(`{}`))
		if err != nil {
			return nil, err
		}
		res, err := mcp.Ask(ctx, c, ask)
		if err != nil {
			return nil, err
		}
		return mcp.NewResult(fmt.Appendf(nil, `{"content":[],"structuredContent":%s}`, res.Bytes()))
	case req.Method == "logging/setLevel":
		return mcp.NewResult([]byte(`{}`))
	default:
		return mcp.NewResult(fmt.Appendf(nil, `{"content":[],"structuredContent":%s}`, req.Params.Raw(mcp.FieldArguments)))
	}
}

func (w *world) send(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(w.client, line+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) next() string {
	w.t.Helper()
	line, err := w.lines.ReadString('\n')
	if err != nil {
		w.t.Fatalf("%v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (w *world) expect(want string) {
	w.t.Helper()
	if got := w.next(); got != want {
		w.t.Errorf("\n got %.500s\nwant %.500s", got, want)
	}
}

// quiet fails if there is a message for the client.
func (w *world) quiet() {
	w.t.Helper()
	synctest.Wait()
	if n := w.lines.Buffered(); n > 0 || !w.client.IsQuiet() {
		w.t.Errorf("a message: %s", w.next())
	}
}

const initialize = `{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"t","version":"1"}},"jsonrpc":"2.0","id":0}`

func (w *world) handshake() {
	w.t.Helper()
	w.send(initialize)
	if got := w.next(); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		w.t.Fatalf("initialize: %s", got)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func call(id, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

func answer(id, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}`, id, arguments)
}

func ended(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1002,"message":"the gateway ended during the request; the request may have been executed","data":{"source":"gateway","outcome":"unknown"}}}`, id)
}

// Lines of any length pass as they are, in both directions.
func TestLinesPass(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		for i, n := range []int{0, 1, 4 << 10, 255 << 10, 256 << 10, 3 << 20} {
			id, text := fmt.Sprint(i+1), `{ "x" : "`+strings.Repeat("y", n)+`" }`
			sent := make(chan error, 1)
			go func() { // ends when the line is read: it is longer than the buffers of the pipe
				_, err := io.WriteString(w.client, call(id, "echo", text)+"\n")
				sent <- err
			}()
			w.expect(answer(id, text))
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
		w.quiet()
	})
}

// A call that is in flight when the gateway ends fails once, and may have run. It is not
// sent again. The next request starts another gateway, in which the session is the same.
func TestGatewayEnds(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call(`"a"`, "wait", "{}"), call("7", "wait", "{}"))
		synctest.Wait()
		w.kill()
		got := []string{w.next(), w.next()}
		slices.Sort(got)
		if want := []string{ended(`"a"`), ended("7")}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		w.quiet()
		w.send(call("8", "echo", `{"x":1}`))
		w.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		w.expect(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`)
		w.expect(answer("8", `{"x":1}`))
		if n := w.served("tools/call wait"); n != 2 || w.starts != 2 {
			t.Errorf("wait was called %d times by %d gateways, want 2 and 2", n, w.starts)
		}
	})
}

// A call that the client has cancelled gets no answer from the Relay either.
func TestCancelledCall(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "wait", "{}"))
		synctest.Wait()
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		w.kill()
		w.quiet()
	})
}

// What the client has set in its session is repeated to another gateway that runs already,
// without a request, and counts as changed.
func TestSessionIsRestored(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		w.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		for i, uri := range []string{"x:1", "x:2", "x:3"} {
			w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, i+2, uri))
			w.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+2))
		}
		w.send(`{"jsonrpc":"2.0","id":9,"method":"resources/unsubscribe","params":{"uri":"x:2"}}`)
		w.expect(`{"jsonrpc":"2.0","id":9,"result":{}}`)
		w.kill()
		before := w.served("subscriptions/listen")
		w.quiet()
		w.start()
		for _, want := range []string{
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:3"}}`,
		} {
			w.expect(want)
		}
		w.quiet()
		// One for the lists, and one for each resource.
		if n := w.served("subscriptions/listen") - before; n != 3 {
			t.Errorf("%d listens at the new gateway, want 3", n)
		}
		if n := w.served("logging/setLevel"); n != 2 {
			t.Errorf("the level was set %d times, want 2", n)
		}
		if len(w.said) > 0 {
			t.Errorf("reported %q", w.said)
		}
	})
}

// A listen of a modern client ends in both ways of a pipe, and the client opens it again.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	relayed(t, func(w *world) {
		listen := `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
		for range 2 {
			w.send(listen)
			if got := w.next(); !strings.Contains(got, "acknowledged") {
				t.Errorf("got %s", got)
			}
			w.kill()
			w.expect(`{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete"}}`)
			w.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
			w.quiet()
		}
	})
}

// A request of a gateway that is gone is cancelled, and its answer is dropped. Another
// gateway's request with the same id has another one for the client.
func TestRequestsOfGateways(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "ask", "{}"))
		w.expect(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		w.kill()
		w.expect(ended("1"))
		w.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"the gateway ended"}}`)
		w.send(call("2", "ask", "{}"))
		w.next() // changes
		w.next()
		got := w.next()
		id, _, _ := strings.Cut(strings.TrimPrefix(got, `{"jsonrpc":"2.0","id":`), ",")
		if id == "1" || !strings.HasSuffix(got, `,"method":"roots/list","params":{}}`) {
			t.Errorf("asked %s", got)
		}
		w.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///old"}]}}`)
		w.quiet()
		w.send(`{"id":` + id + `,"jsonrpc":"2.0","result":{"roots":[{"uri":"file:///new"}]}}`)
		w.expect(answer("2", `{"roots":[{"uri":"file:///new"}]}`))
	})
}

// The cancel of a request names it by the id that the client knows.
func TestCancelOfARenamedRequest(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "ask", "{}"))
		w.next()
		w.kill()
		w.next()
		w.next()
		w.send(call("2", "ask briefly", "{}"))
		w.next()
		w.next()
		asked := w.next()
		id, _, _ := strings.Cut(strings.TrimPrefix(asked, `{"jsonrpc":"2.0","id":`), ",")
		if got := w.next(); !strings.Contains(got, "notifications/cancelled") || !strings.Contains(got, `"requestId":`+id) {
			t.Errorf("asked %s, and then %s", asked, got)
		}
	})
}

// The answer to a request that its gateway has cancelled is not the answer to one of the next gateway.
func TestAnswerToACancelledRequest(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "ask briefly", "{}"))
		w.expect(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		if got := w.next(); !strings.Contains(got, `"requestId":1`) {
			t.Errorf("%s is no cancel", got)
		}
		w.next() // the error of the call
		w.kill()
		w.send(call("2", "ask", "{}"))
		w.next() // changes
		w.next()
		id, _, _ := strings.Cut(strings.TrimPrefix(w.next(), `{"jsonrpc":"2.0","id":`), ",")
		w.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///old"}]}}`)
		w.quiet()
		w.send(`{"id":` + id + `,"jsonrpc":"2.0","result":{"roots":[{"uri":"file:///new"}]}}`)
		w.expect(answer("2", `{"roots":[{"uri":"file:///new"}]}`))
	})
}

// The answers in a batch (2025-03-26) are those to the requests of the gateway in use, with its ids.
func TestAnswersInABatch(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.send(strings.Replace(initialize, "2025-06-18", "2025-03-26", 1))
		w.next()
		w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, call("1", "ask", "{}"))
		w.next()
		w.kill()
		w.expect(ended("1"))
		w.next()
		var answers []string
		for i, n := range []string{"2", "3"} {
			w.send(call(n, "ask", "{}"))
			if i == 0 {
				w.next() // changes
				w.next()
			}
			id, _, _ := strings.Cut(strings.TrimPrefix(w.next(), `{"jsonrpc":"2.0","id":`), ",")
			answers = append(answers, `{"id": `+id+` ,"jsonrpc":"2.0","result":{"roots":[`+n+`]}}`)
		}
		w.send("[" + strings.Join(answers, " , ") + "]")
		got := []string{w.next(), w.next()}
		slices.Sort(got)
		for i, n := range []string{"2", "3"} {
			if !strings.Contains(got[i], `"id":`+n+`,"result":`) || !strings.Contains(got[i], `"structuredContent":{"roots":[`+n+`]}`) {
				t.Errorf("answer %s, want one of %s", got[i], n)
			}
		}
	})
}

// The client is told why there is no gateway, for each request.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.refusal = errors.New(`the gateway did not start: x.yaml:1:1: unknown key "y"`)
		for range 2 {
			w.send(initialize)
			w.expect(`{"jsonrpc":"2.0","id":0,"error":{"code":1001,"message":"the gateway did not start: x.yaml:1:1: unknown key \"y\"; the request was not sent","data":{"source":"gateway","outcome":"not_dispatched"}}}`)
		}
		w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) // has no answer, and starts nothing
		w.quiet()
		if want := []string{w.refusal.Error(), w.refusal.Error()}; !slices.Equal(w.said, want) {
			t.Errorf("reported %q", w.said)
		}
	})
}

// The end of the client's input reaches the gateway, which still answers what it has just
// been sent.
func TestClientEnds(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.send(initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, call("1", "echo", `{"x":1}`), call("2", "wait", "{}"))
		if err := w.client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		rest, err := io.ReadAll(w.lines)
		if err != nil || !strings.Contains(string(rest), answer("1", `{"x":1}`)) {
			t.Errorf("%v, %s", err, rest)
		}
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
		w.ended <- nil
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("the end took %v", d)
		}
		if err := <-w.held; err == nil {
			t.Error("the call was not cancelled")
		}
	})
}

// A client that is killed cancels its calls.
func TestClientIsKilled(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		w.send(call("1", "wait", "{}"))
		synctest.Wait()
		w.client.Reset()
		begun := time.Now()
		<-w.held
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("the call was cancelled after %v", d)
		}
	})
}

// The answers to a client that has closed its end, and reads no more, are not waited for.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.gone = true
		w.handshake()
		w.send(call("1", "wait", "{}"))
		synctest.Wait()
		begun := time.Now()
		if err := w.client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
		w.ended <- nil
		if d := time.Since(begun); d > 0 {
			t.Errorf("the end took %v", d)
		}
		if err := <-w.held; err == nil {
			t.Error("the call was not cancelled")
		}
	})
}

// A gateway that ends before it has read a line has not run it: the line is sent to the
// next one.
func TestUnreadLineIsSentAgain(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		synctest.Wait()
		// The relay has not yet noticed the end when it writes.
		w.mu.Lock()
		w.conn.Reset()
		w.mu.Unlock()
		w.send(call("1", "echo", `{"x":1}`))
		for {
			got := w.next()
			if strings.Contains(got, "list_changed") {
				continue
			}
			if got != answer("1", `{"x":1}`) {
				t.Errorf("got %s", got)
			}
			break
		}
	})
}

// A handshake runs nothing: if its gateway ends, it is sent to another one, a few times.
func TestHandshakeIsRepeated(t *testing.T) {
	t.Parallel()
	const discover = `{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, tt := range []struct {
		name, line string
		silent     int
		want       string
	}{
		{"legacy", initialize, 2, `"protocolVersion":"2025-06-18"`},
		{"modern", discover, 2, `"supportedVersions":["2026-07-28"`},
		{"no gateway stays", initialize, 10, `the gateway ended during the request`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			relayed(t, func(w *world) {
				w.silent = tt.silent
				w.send(tt.line)
				for range min(tt.silent, 3) {
					synctest.Wait()
					w.kill()
				}
				if got := w.next(); !strings.Contains(got, tt.want) {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				w.quiet()
				if w.starts != 3 {
					t.Errorf("%d gateways, want 3", w.starts)
				}
			})
		})
	}
}

// A gateway that ends while the session is restored is replaced like any other.
func TestGatewayEndsDuringRestore(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.handshake()
		synctest.Wait()
		w.kill()
		w.silent = 2
		w.send(call("1", "echo", `{"x":1}`))
		synctest.Wait()
		w.kill()
		w.next() // changes
		w.next()
		w.expect(answer("1", `{"x":1}`))
		if w.starts != 3 || len(w.said) > 0 {
			t.Errorf("%d gateways, and reported %q; want 3 and nothing", w.starts, w.said)
		}
	})
}

// The client's notifications/initialized may find no gateway. Its session is open at the
// next one nevertheless.
func TestInitializedWithoutGateway(t *testing.T) {
	t.Parallel()
	relayed(t, func(w *world) {
		w.send(initialize)
		w.next()
		w.kill()
		w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		synctest.Wait()
		before := w.served("subscriptions/listen")
		w.start()
		w.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		w.expect(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`)
		w.quiet()
		if n := w.served("subscriptions/listen") - before; n != 1 {
			t.Errorf("%d listens at the new gateway, want 1", n)
		}
	})
}
