// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// pipeDialer makes the connections of an endpoint's own transport. The test has their
// other ends.
type pipeDialer struct {
	*Endpoint
	room    int   // buffer of a direction of the next connections
	cut     bool  // they cannot be written to
	refused error // the error of dialing
	ends    chan *memnet.Conn
	clients []*clientEnd // in the order of dialing
}

func newPipeDialer(t *testing.T) *pipeDialer {
	t.Helper()
	l := &pipeDialer{
		Endpoint: NewEndpoint(call.NewSetup(call.Config{Name: "b"}), "http://b.test/mcp"),
		room:     memnet.DefaultBuffer, ends: make(chan *memnet.Conn, 10),
	}
	tr, ok := l.transport.(*http1.Transport)
	if !ok {
		t.Fatal("the endpoint has no transport of its own")
	}
	tr.Dial = l.dial
	t.Cleanup(tr.CloseIdleConnections)
	return l
}

func (l *pipeDialer) dial(context.Context, string, string) (net.Conn, error) {
	if l.refused != nil {
		return nil, l.refused
	}
	ours, theirs := memnet.Pipe(l.room)
	c := &clientEnd{Conn: ours}
	c.cut.Store(l.cut)
	l.clients = append(l.clients, c)
	l.ends <- theirs
	return c, nil
}

// clientEnd is the client's end of a connection. It can fail for writes only, as
// happens briefly after its peer has gone.
type clientEnd struct {
	*memnet.Conn
	writes atomic.Int32
	cut    atomic.Bool
}

// TryWrite writes as much as the buffer takes.
func (n *clientEnd) TryWrite(p []byte) (int, error) { return n.send(p, n.Conn.TryWrite) }

// Write writes p.
func (n *clientEnd) Write(p []byte) (int, error) { return n.send(p, n.Conn.Write) }

func (n *clientEnd) send(p []byte, write func([]byte) (int, error)) (int, error) {
	n.writes.Add(1)
	if n.cut.Load() {
		return 0, io.ErrClosedPipe
	}
	return write(p)
}

// posting posts a RequestBody and sends the result.
func (l *pipeDialer) posting(ctx context.Context, p *RequestBody) <-chan error {
	got := make(chan error, 1)
	go func() { // ends with its response, or with the context
		resp, err := l.Post(ctx, nil, l.Posts, p)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		got <- err
	}()
	return got
}

// readSome reads what is available, and waits for the first byte.
func readSome(t *testing.T, end *memnet.Conn) string {
	t.Helper()
	b := make([]byte, 1<<20)
	n, err := end.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return string(b[:n])
}

func respond(t *testing.T, end *memnet.Conn) {
	t.Helper()
	if _, err := io.WriteString(end, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
}

// warm has a request answered on a new connection, so that it is kept, and returns its
// other end.
func (l *pipeDialer) warm(t *testing.T) *memnet.Conn {
	t.Helper()
	got := l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte("first")}})
	end := <-l.ends
	readSome(t, end)
	respond(t, end)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	return end
}

// A small request is one write, each time.
func TestSmallRequestIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeDialer(t)
		end := l.warm(t)
		defer end.Close()
		for i := range int32(3) {
			got := l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte(`{"jsonrpc":"2.0"}`)}})
			sent := readSome(t, end)
			if !strings.HasPrefix(sent, "POST /mcp HTTP/1.1\r\n") || !strings.HasSuffix(sent, "\r\n\r\n"+`{"jsonrpc":"2.0"}`) {
				t.Errorf("%q arrived, want head and body", sent)
			}
			respond(t, end)
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			if n := l.clients[0].writes.Load(); n != i+2 {
				t.Errorf("%d writes for %d requests", n, i+2)
			}
		}
	})
}

// A request of any length arrives intact, however much of it is read at a time.
func TestRequestsOfAnyLength(t *testing.T) {
	for _, room := range []int{1 << 10, memnet.DefaultBuffer} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipeDialer(t)
			l.room = room
			end := l.warm(t)
			defer end.Close()
			for _, size := range []int{1, 4 << 10, 28<<10 - 300, 28 << 10, 28<<10 + 1, 32 << 10, 96 << 10, 1<<20 + 7} {
				msg := strings.Repeat("x", size)
				got := l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte(msg)}})
				req, err := http.ReadRequest(bufio.NewReader(end))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(req.Body)
				if string(body) != msg || err != nil {
					t.Errorf("%d bytes arrived, %v; want the %d that were sent", len(body), err, size)
				}
				respond(t, end)
				if err := <-got; err != nil {
					t.Fatal(err)
				}
			}
			if len(l.clients) != 1 {
				t.Errorf("%d connections, want one", len(l.clients))
			}
		})
	}
}

// If a call is withdrawn before its body is begun, the server receives nothing of it,
// however long it is.
func TestWithdrawnCallSendsNothing(t *testing.T) {
	for _, size := range []int{7, 100 << 10} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipeDialer(t)
			var calls session.Calls
			p := &RequestBody{Msg: jsonrpc.Pieces{make([]byte, size)}, Call: opened(t, &calls)}
			p.Call.Withdraw(session.Terminal{Err: io.EOF})
			got := l.posting(t.Context(), p)
			if sent := readSome(t, <-l.ends); sent != "" {
				t.Errorf("the server saw %q, want nothing", sent)
			}
			if err := <-got; !errors.Is(err, errWithdrawn) || p.Sent.Load() {
				t.Errorf("got %v, left %v; want %v", err, p.Sent.Load(), errWithdrawn)
			}
		})
	}
}

// A peer that does not read blocks a write only up to its deadline.
func TestConnectionOfAPeerThatDoesNotRead(t *testing.T) {
	for _, size := range []int{100, 100 << 10} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipeDialer(t)
			l.room = 100
			start := time.Now()
			err := <-l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{make([]byte, size)}})
			if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != l.Write {
				t.Errorf("got %v after %v, want %v after %v", err, took, os.ErrDeadlineExceeded, l.Write)
			}
			if fault, ok := errors.AsType[*mcp.Fault](err); !ok || fault.Outcome != mcp.Unknown {
				t.Errorf("got %v, want the outcome %v", err, mcp.Unknown)
			}
		})
	}
}

// A request that could not be written to a kept connection at all is sent over another
// one, once, even if there are several such connections.
func TestUnsentRequestIsSentOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeDialer(t)
		var ends []*memnet.Conn
		var answers []<-chan error
		for range 2 { // concurrently, so that there are two connections
			answers = append(answers, l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte("first")}}))
			ends = append(ends, <-l.ends)
			readSome(t, ends[len(ends)-1])
		}
		for i, end := range ends {
			defer end.Close()
			respond(t, end)
			if err := <-answers[i]; err != nil {
				t.Fatal(err)
			}
			l.clients[i].cut.Store(true)
		}
		got := l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte("second")}})
		fresh := <-l.ends
		defer fresh.Close()
		if sent := readSome(t, fresh); !strings.HasSuffix(sent, "\r\n\r\nsecond") {
			t.Errorf("the third connection has %q, want the request", sent)
		}
		respond(t, fresh)
		if err := <-got; err != nil {
			t.Error(err)
		}
		for i, n := range l.clients {
			if w, want := n.writes.Load(), []int32{2, 2, 1}[i]; w != want {
				t.Errorf("connection %d was written to %d times, want %d", i, w, want)
			}
		}
	})
}

// A connection that the server has closed is not written to: the request uses another
// one.
func TestConnectionThatTheServerHasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeDialer(t)
		l.warm(t).Close()
		l.warm(t).Close()
		for i, n := range l.clients {
			if w := n.writes.Load(); w != 1 {
				t.Errorf("connection %d was written to %d times, want once", i, w)
			}
		}
	})
}

// If there is no other connection, a request that was not written has not reached the
// server.
func TestUnsentRequestThatFindsNoOtherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeDialer(t)
		defer l.warm(t).Close()
		l.clients[0].cut.Store(true)
		l.refused = errors.New("refused")
		err := <-l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte("second")}})
		if fault, ok := errors.AsType[*mcp.Fault](err); !ok || fault.Outcome != mcp.NotDispatched || !errors.Is(err, l.refused) {
			t.Errorf("got %v, want the outcome %v", err, mcp.NotDispatched)
		}
	})
}

// On a new connection, a request that cannot be written is an error.
func TestUnsentRequestOfANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeDialer(t)
		l.cut = true
		err := <-l.posting(t.Context(), &RequestBody{Msg: jsonrpc.Pieces{[]byte("message")}})
		if !errors.Is(err, io.ErrClosedPipe) || len(l.clients) != 1 {
			t.Errorf("got %v over %d connections, want %v over one", err, len(l.clients), io.ErrClosedPipe)
		}
	})
}

// If a server responds before it has read a request, and closes, the response is
// received, even if it is read late.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	for _, size := range []int{20 << 10, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipeDialer(t)
			l.room = 16 << 10
			answer := strings.Repeat("x", 10<<10)
			go func() { // ends when it is written
				end := <-l.ends
				fmt.Fprintf(end, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
				end.Close()
			}()
			resp, err := l.Post(t.Context(), nil, l.Posts, &RequestBody{Msg: jsonrpc.Pieces{make([]byte, size)}})
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			synctest.Wait() // the writer has noticed it now
			if body, err := io.ReadAll(resp.Body); string(body) != answer || err != nil {
				t.Errorf("read %d bytes, %v; want the answer", len(body), err)
			}
		})
	}
}

// ForgetConnections closes idle connections.
func TestForgetConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeDialer(t)
		end := l.warm(t)
		l.ForgetConnections()
		if n, err := end.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read %d, %v; want the end", n, err)
		}
	})
}

// A proxy that does not read blocks a write only up to its deadline, too.
func TestProxyThatDoesNotRead(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	e := NewEndpoint(call.NewSetup(call.Config{Name: "b", Write: 50 * time.Millisecond}), "http://b.test/mcp")
	tr := e.transport.(*http1.Transport) //nolint:forcetypeassert // NewEndpoint made it
	tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: ln.Addr().String()})
	_, err = e.Post(t.Context(), nil, e.Posts, &RequestBody{Msg: jsonrpc.Pieces{make([]byte, 16<<20)}})
	if fault, ok := errors.AsType[*mcp.Fault](err); !ok || fault.Outcome != mcp.Unknown || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the outcome %v because of %v", err, mcp.Unknown, os.ErrDeadlineExceeded)
	}
}
