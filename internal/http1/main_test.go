// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http logs data after a response
	goleak.VerifyTestMain(m)
}

// world is a server that handles its connections with a script, and its clients.
type world struct {
	t      *testing.T
	ln     net.Listener
	http1  *http1.Transport
	std    *http.Transport // of net/http, for comparison
	tcp    bool
	served atomic.Int32  // the number of connections so far
	over   chan struct{} // closed at the end of the test
	all    sync.WaitGroup
}

// inMemory runs a test in a synctest bubble, on an in-memory network.
func inMemory(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ln := memnet.Listen()
		f(newWorld(t, ln, func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) }))
	})
}

// onTCP runs a test on the system's sockets.
func onTCP(t *testing.T, f func(w *world)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, ln, new(net.Dialer).DialContext)
	w.tcp = true
	f(w)
}

// onBoth runs a test in memory and on sockets.
func onBoth(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { inMemory(t, f) })
	t.Run("tcp", func(t *testing.T) { onTCP(t, f) })
}

const maxHead = 1 << 20

func newWorld(t *testing.T, ln net.Listener, dial func(ctx context.Context, network, address string) (net.Conn, error)) *world {
	w := &world{t: t, ln: ln, over: make(chan struct{})}
	w.http1 = &http1.Transport{
		Dial: dial, WriteTimeout: time.Minute, MaxHeaderBytes: maxHead, MaxIdle: 8, IdleTimeout: time.Minute,
	}
	w.std = &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: maxHead, DisableCompression: true,
	}
	t.Cleanup(func() {
		close(w.over)
		w.http1.CloseIdleConnections()
		w.std.CloseIdleConnections()
		_ = ln.Close()
		w.all.Wait()
	})
	return w
}

// serve runs the script for each connection, which is closed when it returns. Everything ends
// with the test.
func (w *world) serve(script func(p *peer)) {
	w.all.Go(func() { // ends with the listener
		for {
			conn, err := w.ln.Accept()
			if err != nil {
				return
			}
			p := &peer{Conn: conn, in: bufio.NewReader(conn), number: int(w.served.Add(1)), w: w}
			w.all.Go(func() { // ends with the script, which ends with the connection at the latest
				defer conn.Close()
				script(p)
			})
		}
	})
}

// settle returns when all goroutines are blocked, except for timers longer than d. On sockets
// this is unknown, and it returns at once. It may be called concurrently.
func (w *world) settle(d time.Duration) {
	if !w.tcp {
		time.Sleep(d) // in a bubble time advances only if all goroutines wait
	}
}

// request returns a request to the server, a POST if body is not empty.
func (w *world) request(ctx context.Context, body string) *http.Request {
	method, from := http.MethodGet, io.Reader(nil)
	if body != "" {
		method, from = http.MethodPost, strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.ln.Addr().String()+"/", from)
	if err != nil {
		w.t.Error(err)
	}
	return req
}

// call makes a request and reads the response. It may be called from any goroutine.
func (w *world) call(body string) (string, error) {
	return read(w.http1.RoundTrip(w.request(w.t.Context(), body)))
}

// want makes a request and checks the response.
func (w *world) want(body, answer string) {
	w.t.Helper()
	if got, err := w.call(body); got != answer || err != nil {
		w.t.Errorf("the answer is %q, %v; want %q", got, err, answer)
	}
}

// wantConnections does not wait: the server has accepted all dialed connections.
func (w *world) wantConnections(n int) {
	w.t.Helper()
	w.settle(time.Millisecond)
	if got := int(w.served.Load()); got != n {
		w.t.Errorf("there were %d connections, want %d", got, n)
	}
}

// read returns the body of a response.
func read(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return string(got), err
}

// peer is the server's end of a connection.
type peer struct {
	net.Conn
	in     *bufio.Reader
	number int // counts connections, from 1
	w      *world
}

// request reads a request and returns its body, or false if no request arrives.
func (p *peer) request() (req *http.Request, body string, ok bool) {
	req, err := http.ReadRequest(p.in)
	if err != nil {
		return nil, "", false
	}
	got, err := io.ReadAll(req.Body)
	return req, string(got), err == nil
}

// write writes the pieces. In a bubble, each has arrived before the next is written.
func (p *peer) write(pieces ...string) {
	for _, s := range pieces {
		if _, err := io.WriteString(p, s); err != nil {
			return // the client has left, as it may
		}
		p.w.settle(time.Microsecond)
	}
}

// gone reads until the client has closed the connection, and returns what it sent.
func (p *peer) gone() string {
	got, _ := io.ReadAll(p.in)
	return string(got)
}

// reset resets the connection.
func (p *peer) reset() {
	switch c := p.Conn.(type) {
	case *memnet.Conn:
		c.Reset()
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func answer(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// echo responds to each request with its body, or with "ok".
func echo(p *peer) {
	for {
		_, body, more := p.request()
		if !more {
			return
		}
		if body == "" {
			body = "ok"
		}
		p.write(answer(body))
	}
}
