// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/bubble"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

var errGivenUp = errors.New("the caller has given up")

// ending returns a context and a function that ends it.
func ending() (ctx context.Context, end func()) {
	c, cancel := context.WithCancelCause(context.Background())
	return c, func() { cancel(errGivenUp) }
}

// If its context ends, a request fails with the cause at any stage, its connection is closed,
// and no goroutine is left.
func TestContextEnds(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		buffer     int
		serve      func(p *peer)
		dial       func(ctx context.Context, network, address string) (net.Conn, error)
	}{
		{name: "while dialling", dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{name: "while dialling, with a body", body: "x", dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{name: "while a small request is written", body: "small", buffer: 16, serve: func(p *peer) { <-p.w.over }},
		{name: "while a large request is written", body: large, serve: func(p *peer) { <-p.w.over }},
		{name: "while a large request is read", body: large, serve: func(p *peer) {
			_, _ = io.CopyN(io.Discard, p.in, 1<<20)
			<-p.w.over
		}},
		{name: "before the answer", serve: func(p *peer) { p.gone() }},
		{name: "in the head", serve: func(p *peer) { p.request(); p.write("HTTP/1.1 200"); p.gone() }},
		{name: "behind a provisional answer", serve: func(p *peer) { p.request(); p.write(head("HTTP/1.1 100 Continue")); p.gone() }},
		{name: "before the body", serve: func(p *peer) { p.request(); p.write(head("HTTP/1.1 200 OK")); p.gone() }},
		{name: "in the body", serve: func(p *peer) { p.request(); p.write(head("HTTP/1.1 200 OK", "Content-Length: 5") + "ab"); p.gone() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, func(w *world) {
				w.ln.(*memnet.Listener).Buffer = tt.buffer //nolint:forcetypeassert // in memory
				if tt.dial != nil {
					w.http1.Dial = tt.dial
				}
				w.serve(func(p *peer) { tt.serve(p) })
				before := bubble.Goroutines(w.t)
				ctx, end := ending()
				time.AfterFunc(time.Second, end)
				start := time.Now()
				_, err := read(w.http1.RoundTrip(w.request(ctx, tt.body)))
				if took := time.Since(start); !errors.Is(err, errGivenUp) || took != time.Second {
					w.t.Errorf("got %v after %v, want %v after 1s", err, took, errGivenUp)
				}
				if n := bubble.Goroutines(w.t) - int(w.served.Load()); n > before {
					w.t.Errorf("%d goroutines are left of %d", n, before)
				}
			})
		})
	}
}

// With a context that has ended, no connection is dialed or used.
func TestContextHasEnded(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		w.want("x", "x")
		ctx, end := ending()
		end()
		for _, body := range []string{"", "y"} {
			if _, err := w.http1.RoundTrip(w.request(ctx, body)); !errors.Is(err, errGivenUp) {
				w.t.Errorf("got %v, want %v", err, errGivenUp)
			}
		}
		w.wantNext(true)
	})
}

// A context that ends together with the response closes the connection or not, but never a
// connection that another request uses.
func TestContextEndsWithItsAnswer(t *testing.T) {
	onTCP(t, func(w *world) {
		w.serve(echo)
		for i := range 1000 {
			ctx, end := ending()
			var both sync.WaitGroup
			both.Go(func() { // ends by itself
				for range i % 50 {
					runtime.Gosched()
				}
				end()
			})
			_, err := read(w.http1.RoundTrip(w.request(ctx, "first")))
			if err != nil && !errors.Is(err, errGivenUp) {
				w.t.Errorf("got %v", err)
			}
			// A POST, which is not repeated if its connection is closed.
			w.want("next", "next")
			both.Wait()
		}
	})
}

// slowClose is a connection with a first Close that takes until the test has ended.
type slowClose struct {
	*memnet.Conn
	calls atomic.Int32
	over  <-chan struct{}
}

func (c *slowClose) Close() error {
	if c.calls.Add(1) == 1 {
		<-c.over
	}
	return c.Conn.Close()
}

// A connection that is about to be closed is not reused.
func TestContextIsAboutToEnd(t *testing.T) {
	inMemory(t, func(w *world) {
		dial := w.http1.Dial
		w.http1.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return &slowClose{Conn: c.(*memnet.Conn), over: w.over}, err //nolint:forcetypeassert // of this network
		}
		w.serve(echo)
		ctx, end := ending()
		resp, err := w.http1.RoundTrip(w.request(ctx, "x"))
		end()
		w.settle(time.Millisecond)
		if got, err := read(resp, err); got != "x" || err != nil {
			w.t.Errorf("the answer is %q, %v", got, err)
		}
		w.wantNext(false)
	})
}

// After the end of the response, the end of the context does not affect the connection.
func TestContextEndsBehindItsAnswer(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		for range 10 {
			ctx, end := ending()
			if got, err := read(w.http1.RoundTrip(w.request(ctx, "x"))); got != "x" || err != nil {
				w.t.Errorf("the answer is %q, %v", got, err)
			}
			end()
			w.settle(time.Millisecond)
		}
		w.wantConnections(1)
	})
}

// The body may be closed by another goroutine while it is read.
func TestBodyIsClosedWhileItIsRead(t *testing.T) {
	onBoth(t, func(w *world) {
		ended := make(chan struct{})
		w.serve(func(p *peer) {
			if p.number > 1 {
				echo(p)
				return
			}
			p.request()
			p.write(head("HTTP/1.1 200 OK") + "begun")
			p.gone()
			close(ended)
		})
		resp, err := w.http1.RoundTrip(w.request(w.t.Context(), ""))
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			w.t.Error(err)
		}
		var both sync.WaitGroup
		both.Go(func() { // ends with the Close below
			if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
				w.t.Errorf("Read = %d, %v; want an error", n, err)
			}
		})
		w.settle(time.Millisecond)
		if err := resp.Body.Close(); err != nil {
			w.t.Error(err)
		}
		both.Wait()
		<-ended
		w.wantNext(false)
	})
}

// A request fails after WriteTimeout if the server does not read it, with an error that
// names the timeout, for any part of the request.
func TestWriteTimeout(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		read       time.Duration // the time between two reads; 0 means that nothing is read
		err        error
	}{
		{name: "small", body: "small", err: os.ErrDeadlineExceeded},
		{name: "large", body: large[:1<<20], err: os.ErrDeadlineExceeded},
		{name: "slow, but not too slow", body: large[:1<<20], read: 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inMemory(t, func(w *world) {
				w.ln.(*memnet.Listener).Buffer = 64 //nolint:forcetypeassert // in memory
				w.serve(func(p *peer) {
					if tt.read == 0 {
						<-p.w.over
						return
					}
					left := len(tt.body) + 200
					for buf := make([]byte, 32<<10); left > 32<<10; left -= len(buf) {
						_, _ = io.ReadFull(p, buf)
						p.w.settle(tt.read)
					}
					p.write(ok)
					p.gone()
				})
				start := time.Now()
				got, err := w.call(tt.body)
				took := time.Since(start)
				if tt.err == nil && (got != "ok" || err != nil) {
					w.t.Errorf("the answer is %q, %v after %v", got, err, took)
				}
				if tt.err != nil && (!errors.Is(err, tt.err) || took != time.Minute || !strings.Contains(err.Error(), "did not read the request within 1m0s")) {
					w.t.Errorf("got %v after %v, want %v after 1m", err, took, tt.err)
				}
			})
		})
	}
}

// The write deadline of a request does not affect the next one.
func TestWriteTimeoutIsOver(t *testing.T) {
	inMemory(t, func(w *world) {
		w.http1.WriteTimeout = 10 * time.Second
		w.serve(echo)
		for _, body := range []string{large, "x", large} {
			w.want(body, body)
			w.settle(30 * time.Second)
		}
		w.wantConnections(1)
	})
}

// mute is a connection to a peer that neither reads nor writes.
type mute struct{ *memnet.Conn }

func (c mute) Write([]byte) (int, error) { return 0, &net.OpError{Op: "write", Err: syscall.EPIPE} }

// The response of a server that no longer reads is awaited for a second at most.
func TestResponseGraceIsBounded(t *testing.T) {
	inMemory(t, func(w *world) {
		dial := w.http1.Dial
		w.http1.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return mute{c.(*memnet.Conn)}, err //nolint:forcetypeassert // of this network
		}
		w.serve(func(p *peer) { p.gone() })
		start := time.Now()
		_, err := w.call(large)
		if took := time.Since(start); !errors.Is(err, syscall.EPIPE) || took != time.Second {
			w.t.Errorf("got %v after %v, want EPIPE after 1s", err, took)
		}
	})
}

// After the end of a body, each Read returns the same error, even if another exchange uses the
// connection and the buffer. A closed body cannot be read.
func TestReadBehindTheEnd(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		first, err := w.http1.RoundTrip(w.request(w.t.Context(), "first"))
		if err != nil {
			w.t.Fatal(err)
		}
		if got, err := io.ReadAll(first.Body); string(got) != "first" || err != nil {
			w.t.Fatalf("the answer is %q, %v", got, err)
		}
		second, err := w.http1.RoundTrip(w.request(w.t.Context(), "second"))
		if err != nil {
			w.t.Fatal(err)
		}
		b := make([]byte, 10)
		if n, err := first.Body.Read(b); n != 0 || !errors.Is(err, io.EOF) {
			w.t.Errorf("behind the end there are %d bytes, %v", n, err)
		}
		if n, err := io.ReadFull(second.Body, b[:3]); string(b[:n]) != "sec" || err != nil {
			w.t.Errorf("the other answer begins with %q, %v", b[:n], err)
		}
		_ = second.Body.Close()
		if n, err := second.Body.Read(b); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			w.t.Errorf("behind its Close there are %d bytes, %v", n, err)
		}
		w.want("third", "third")
		w.wantConnections(2)
	})
}
