// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/bubble"
	"github.com/signalbox-mcp/signalbox/internal/http1"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Consecutive requests share a connection. Concurrent requests have one each, and all are
// kept.
func TestConnectionsAreKept(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		for range 10 {
			w.want("one", "one")
		}
		w.wantConnections(1)
		for range 2 {
			w.openAndRead(8, "open")
			w.wantConnections(8)
		}
		for range 8 {
			w.want("", "ok")
		}
		w.wantConnections(8)
	})
}

// openAndRead makes n requests before it reads the first response.
func (w *world) openAndRead(n int, answer string) {
	w.t.Helper()
	var all []*http.Response
	for range n {
		resp, err := w.http1.RoundTrip(w.request(w.t.Context(), "open"))
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, resp)
	}
	for _, resp := range all {
		if got, err := read(resp, nil); got != answer || err != nil {
			w.t.Errorf("the answer is %q, %v; want %q", got, err, answer)
		}
	}
}

// More than MaxIdle connections are not kept.
func TestMaxIdle(t *testing.T) {
	inMemory(t, func(w *world) {
		var open atomic.Int32
		w.serve(func(p *peer) {
			open.Add(1)
			defer open.Add(-1)
			echo(p)
		})
		w.http1.MaxIdle = 3
		w.openAndRead(5, "open")
		if w.settle(time.Millisecond); open.Load() != 3 {
			w.t.Errorf("%d connections are open, want 3", open.Load())
		}
		w.openAndRead(3, "open")
		w.wantConnections(5)
	})
}

// A connection that is unused for IdleTimeout is closed by the next sweep, but not one that
// was used in between.
func TestIdleTimeout(t *testing.T) {
	inMemory(t, func(w *world) {
		ends := make(chan time.Duration, 2)
		start := time.Now()
		w.serve(func(p *peer) {
			echo(p)
			ends <- time.Since(start)
		})
		before := bubble.Goroutines(w.t)
		w.openAndRead(2, "open")
		for range 3 {
			w.settle(50 * time.Second)
			w.want("x", "x")
		}
		w.settle(time.Hour)
		if first, second := <-ends, <-ends; first.Truncate(time.Second) != 60*time.Second || second < 210*time.Second || second > 225*time.Second {
			w.t.Errorf("the connections ended after %v and %v, want 60s, and 210s to 225s", first, second)
		}
		if n := bubble.Goroutines(w.t); n != before {
			w.t.Errorf("%d goroutines, want the %d from before", n, before)
		}
	})
}

// A connection is not used when the server may be about to close it according to its
// Keep-Alive header: a second before, or after half of the time if that is less.
func TestKeepAliveHeader(t *testing.T) {
	for _, tt := range []struct {
		headers string
		rest    time.Duration
	}{
		{headers: "Keep-Alive: timeout=5\r\n", rest: 4 * time.Second},
		{headers: "keep-alive: max=100 , Timeout = 30\r\n", rest: 29 * time.Second},
		{headers: "Keep-Alive: max=100\r\nKeep-Alive: timeout=2\r\n", rest: time.Second},
		{headers: "Keep-Alive: timeout=1\r\n", rest: 500 * time.Millisecond},
		{headers: "Keep-Alive: timeout=0\r\n"},
		{headers: "Keep-Alive: timeout=3600\r\n", rest: time.Minute},
		{headers: "Keep-Alive: timeout=99999999999999999999\r\n", rest: time.Minute},
		{headers: "Keep-Alive: timeout=-5\r\n", rest: time.Minute},
		{headers: "Keep-Alive: timeout=5s\r\n", rest: time.Minute},
		{headers: "Keep-Alive: timeout\r\n", rest: time.Minute},
		{headers: "Keep-Alive: 5\r\n", rest: time.Minute},
		{headers: "Keep-Alive:\r\n", rest: time.Minute},
	} {
		t.Run(strings.TrimSpace(tt.headers), func(t *testing.T) {
			inMemory(t, func(w *world) {
				w.serve(func(p *peer) {
					for {
						if _, _, more := p.request(); !more {
							return
						}
						_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\n"+tt.headers+"Content-Length: 2\r\n\r\nok")
					}
				})
				w.want("x", "ok")
				if tt.rest > 0 {
					w.settle(tt.rest - time.Nanosecond)
					w.want("x", "ok")
					w.wantConnections(1)
				}
				w.settle(tt.rest)
				w.want("x", "ok")
				w.wantConnections(2)
			})
		})
	}
}

// The header applies to one connection, and may change with each response.
func TestServerKeepsConnectionsForDifferentTimes(t *testing.T) {
	inMemory(t, func(w *world) {
		w.serve(func(p *peer) {
			for _, headers := range []string{"Keep-Alive: timeout=5\r\n", "Keep-Alive: timeout=20\r\n", "", ""} {
				if _, _, more := p.request(); !more {
					return
				}
				_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\n"+headers+"Content-Length: 2\r\n\r\nok")
			}
			p.gone()
		})
		for _, rest := range []time.Duration{3 * time.Second, 10 * time.Second, 18 * time.Second} {
			w.want("x", "ok")
			w.settle(rest)
		}
		w.want("x", "ok")
		w.wantConnections(1)
	})
}

// The server's timeout starts at its response, even if the end of the response is read later.
func TestAnswerIsReadLate(t *testing.T) {
	inMemory(t, func(w *world) {
		w.serve(func(p *peer) {
			for {
				if _, _, more := p.request(); !more {
					return
				}
				_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok")
			}
		})
		resp, err := w.http1.RoundTrip(w.request(w.t.Context(), "x"))
		w.settle(3 * time.Second)
		if got, err := read(resp, err); got != "ok" || err != nil {
			w.t.Errorf("the answer is %q, %v", got, err)
		}
		w.settle(2 * time.Second)
		w.want("x", "ok")
		w.wantConnections(2)
	})
}

// A connection that the server has closed is not reused, and is closed by the next request or
// within 15 seconds.
func TestClosedByTheServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		next bool // there is another request
		wait time.Duration
	}{{name: "next request", next: true}, {name: "timer", wait: 15 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, func(w *world) {
				ended := make(chan time.Time, 1)
				w.serve(func(p *peer) {
					if p.number > 1 {
						echo(p)
						return
					}
					p.request()
					p.write(ok)
					_ = closeWrite(p)
					p.gone()
					ended <- time.Now()
				})
				w.want("", "ok")
				w.settle(time.Millisecond)
				start := time.Now()
				if tt.next {
					w.want("x", "x")
					w.wantConnections(2)
				}
				if took := (<-ended).Sub(start); took > tt.wait {
					w.t.Errorf("the connection was closed after %v, want at most %v", took, tt.wait)
				}
			})
		})
	}
}

func closeWrite(p *peer) error {
	half, ok := p.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// CloseIdleConnections closes idle connections at once, and those in use or being dialed after
// their response.
func TestCloseIdleConnections(t *testing.T) {
	onBoth(t, func(w *world) {
		var open atomic.Int32
		w.serve(func(p *peer) {
			open.Add(1)
			defer open.Add(-1)
			echo(p)
		})
		w.openAndRead(3, "open")
		resp, err := w.http1.RoundTrip(w.request(w.t.Context(), "used"))
		w.http1.CloseIdleConnections()
		wait(w, func() bool { return open.Load() == 1 })
		if got, err := read(resp, err); got != "used" || err != nil {
			w.t.Errorf("the answer is %q, %v", got, err)
		}
		wait(w, func() bool { return open.Load() == 0 })

		dial := w.http1.Dial
		w.http1.Dial = func(ctx context.Context, network, address string) (c net.Conn, err error) {
			w.http1.CloseIdleConnections()
			return dial(ctx, network, address)
		}
		w.want("new", "new")
		wait(w, func() bool { return open.Load() == 0 })
	})
}

// wait returns when a condition is true that other goroutines cause.
func wait(w *world, is func() bool) {
	w.t.Helper()
	w.settle(time.Millisecond)
	for late := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
		if !w.tcp || time.Now().After(late) {
			w.t.Fatal("it does not come about")
		}
	}
}

// Closing a response before its end closes the connection, even if everything that has arrived
// was read.
func TestAnswerIsClosedBeforeItsEnd(t *testing.T) {
	onBoth(t, func(w *world) {
		ended := make(chan string, 1)
		w.serve(func(p *peer) {
			if p.number > 1 {
				echo(p)
				return
			}
			p.request()
			p.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd")
			ended <- p.gone()
		})
		resp, err := w.http1.RoundTrip(w.request(w.t.Context(), ""))
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
			w.t.Error(err)
		}
		for range 2 {
			if err := resp.Body.Close(); err != nil {
				w.t.Error(err)
			}
		}
		if got := <-ended; got != "" {
			w.t.Errorf("the server heard %q", got)
		}
		w.wantNext(false)
	})
}

// A request may find its reused connection closed. A GET is repeated unless a response has
// begun. A POST that may have been read is never repeated, and fails without a further
// promise.
func TestKeptConnectionTurnsOutDead(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		end        func(p *peer)
		again      bool
	}{
		{name: "GET, closed", end: func(*peer) {}, again: true},
		{name: "GET, reset", end: (*peer).reset, again: true},
		{name: "GET, half an answer", end: func(p *peer) { p.write("HTTP/1.1 2") }},
		{name: "GET, no answer of HTTP", end: func(p *peer) { p.write("no\r\n\r\n") }},
		{name: "POST, closed", body: "pay", end: func(*peer) {}},
		{name: "POST, reset", body: "pay", end: (*peer).reset},
		{name: "POST, half an answer", body: "pay", end: func(p *peer) { p.write("HTTP/1.1 2") }},
		{name: "large POST, closed", body: large[:100<<10], end: func(*peer) {}},
		{name: "large POST, reset", body: large[:100<<10], end: (*peer).reset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onBoth(t, func(w *world) {
				seen := make(chan string, 10)
				w.serve(func(p *peer) {
					for i := 0; ; i++ {
						_, body, more := p.request()
						if !more {
							return
						}
						if seen <- body; i == 1 {
							tt.end(p)
							return
						}
						p.write(ok)
					}
				})
				w.want("", "ok")
				got, err := w.call(tt.body)
				if again := got == "ok" && err == nil; again != tt.again || errors.Is(err, http1.ErrUnsent) {
					w.t.Errorf("the answer is %q, %v; made again should be %v", got, err, tt.again)
				}
				if want := map[bool]int{true: 3, false: 2}[tt.again]; len(seen) != want {
					w.t.Errorf("the server has seen %d requests, want %d", len(seen), want)
				}
			})
		})
	}
}

// breaking returns a context that resets reused connections of its requests after their
// check.
func (w *world) breaking(open *sync.Map) context.Context {
	return httptrace.WithClientTrace(w.t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			return
		}
		other, _ := open.Load(info.Conn.LocalAddr().String())
		other.(*peer).reset()                  //nolint:forcetypeassert // stored below
		_, _ = info.Conn.Read(make([]byte, 1)) // until the reset has arrived here
	}})
}

// If a connection accepts no byte of a request, the server has nothing of it: it is made on
// another connection, unless its body cannot be had again. Then the error is ErrUnsent.
func TestNothingOfARequestIsSent(t *testing.T) {
	onTCP(t, func(w *world) {
		var open sync.Map
		seen := make(chan string, 100)
		w.serve(func(p *peer) {
			open.Store(p.RemoteAddr().String(), p)
			for {
				_, body, more := p.request()
				if !more {
					return
				}
				seen <- body
				p.write(ok)
			}
		})
		w.openAndRead(4, "ok")
		ctx := w.breaking(&open)
		for i := range 2 {
			req := w.request(ctx, "pay")
			body := &watched{Reader: strings.NewReader("pay")}
			req.Body, req.GetBody = body, nil
			_, err := read(w.http1.RoundTrip(req))
			if !errors.Is(err, http1.ErrUnsent) || body.closed.Load() != 1 {
				w.t.Errorf("%d: got %v, and the body was closed %d times; want %v, and 1", i, err, body.closed.Load(), http1.ErrUnsent)
			}
		}
		for _, body := range []io.Reader{nil, http.NoBody} {
			req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+w.ln.Addr().String(), body)
			if err != nil {
				w.t.Fatal(err)
			}
			if got, err := read(w.http1.RoundTrip(req)); got != "ok" || err != nil {
				w.t.Errorf("the answer is %q, %v", got, err)
			}
		}
		req, body := w.request(ctx, "pay"), &watched{Reader: strings.NewReader("pay")}
		req.Body = body
		if got, err := read(w.http1.RoundTrip(req)); got != "ok" || err != nil || body.closed.Load() != 1 {
			w.t.Errorf("the answer is %q, %v, and the body was closed %d times; want 1", got, err, body.closed.Load())
		}
		if len(seen) != 7 {
			w.t.Errorf("the server has seen %d requests, want 7", len(seen))
		}
	})
}

// A new connection that accepts nothing is no reason to try another.
func TestNewConnectionTakesNothing(t *testing.T) {
	inMemory(t, func(w *world) {
		dials := 0
		w.http1.Dial = func(context.Context, string, string) (net.Conn, error) {
			dials++
			a, b := memnet.Pipe(1)
			return a, b.Close()
		}
		for _, body := range []string{"", "pay"} {
			_, err := w.call(body)
			if dials != 1 || !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, http1.ErrUnsent) {
				w.t.Errorf("%q: %v after %d connections", body, err, dials)
			}
			dials = 0
		}
	})
}

// partialWriter accepts a part of each request after the first and then fails.
type partialWriter struct {
	*memnet.Conn
	writes int
}

func (c *partialWriter) TryWrite(p []byte) (int, error) {
	if c.writes++; c.writes == 1 {
		return c.Conn.TryWrite(p)
	}
	n, _ := c.Conn.TryWrite(p[:3])
	return n, io.ErrClosedPipe
}

// A partly sent request counts as sent.
func TestSomeOfARequestIsSent(t *testing.T) {
	inMemory(t, func(w *world) {
		dial := w.http1.Dial
		w.http1.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return &partialWriter{Conn: c.(*memnet.Conn)}, err //nolint:forcetypeassert // of this network
		}
		w.serve(echo)
		w.want("x", "x")
		if _, err := w.call("y"); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, http1.ErrUnsent) {
			w.t.Errorf("got %v, want an error of the connection alone", err)
		}
		w.wantConnections(1)
	})
}

// No POST of many concurrent ones is read twice, even if some connections fail and unsent
// requests are repeated; and no response is that of another request.
func TestPostsAreReadOnce(t *testing.T) {
	onTCP(t, func(w *world) {
		var seen sync.Map
		w.serve(func(p *peer) {
			for i := p.number; ; i++ {
				_, body, more := p.request()
				if !more {
					return
				}
				if _, again := seen.LoadOrStore(body, true); again {
					w.t.Errorf("%s was read twice", body)
				}
				switch i % 7 {
				case 0:
					return
				case 1:
					p.reset()
				case 2:
					p.write("HTTP/1.1 2")
					return
				case 3:
					p.write(answer(body)) // and the connection is closed after it
					return
				case 4:
					p.write(answer(body) + answer("stray"))
				default:
					p.write(answer(body))
				}
			}
		})
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { // ends by itself
				for j := range 100 {
					body := fmt.Sprintf("%d-%d", i, j)
					got, err := w.call(body)
					for errors.Is(err, http1.ErrUnsent) {
						got, err = w.call(body)
					}
					if err == nil && got != body {
						w.t.Errorf("the answer to %s is %q", body, got)
					}
				}
			})
		}
		all.Wait()
	})
}

// watched is a body of a request that counts its Close calls.
type watched struct {
	io.Reader
	closed atomic.Int32
}

func (b *watched) Close() error {
	b.closed.Add(1)
	return nil
}
