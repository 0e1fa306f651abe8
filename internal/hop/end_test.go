// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package hop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/bubble"
	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

var errGivenUp = errors.New("the caller has given up")

// ending is a context and what ends it: one of the standard library's, or one that calls
// its functions where it is ended.
func ending(ours bool) (ctx context.Context, end func()) {
	if ours {
		c := new(life.Context)
		return c, func() { c.End(errGivenUp) }
	}
	c, cancel := context.WithCancelCause(context.Background())
	return c, func() { cancel(errGivenUp) }
}

// Wherever a request is when its context ends, it ends with the cause, the server has its
// connection closed, and no goroutine is left.
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
		{name: "in the head", serve: func(p *peer) { p.request(); p.say("HTTP/1.1 200"); p.gone() }},
		{name: "behind a provisional answer", serve: func(p *peer) { p.request(); p.say(head("HTTP/1.1 100 Continue")); p.gone() }},
		{name: "before the body", serve: func(p *peer) { p.request(); p.say(head("HTTP/1.1 200 OK")); p.gone() }},
		{name: "in the body", serve: func(p *peer) { p.request(); p.say(head("HTTP/1.1 200 OK", "Content-Length: 5") + "ab"); p.gone() }},
	} {
		for _, ours := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ours %v", tt.name, ours), func(t *testing.T) {
				inMemory(t, func(w *world) {
					w.ln.(*memnet.Listener).Buffer = tt.buffer //nolint:forcetypeassert // in memory
					if tt.dial != nil {
						w.hop.Dial = tt.dial
					}
					w.serve(func(p *peer) { tt.serve(p) })
					before := bubble.Goroutines(w.t)
					ctx, end := ending(ours)
					time.AfterFunc(time.Second, end)
					start := time.Now()
					_, err := read(w.hop.RoundTrip(w.request(ctx, tt.body)))
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
}

// Nothing is dialled, and no connection used, for a context that has ended.
func TestContextHasEnded(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		w.want("x", "x")
		ctx, end := ending(false)
		end()
		for _, body := range []string{"", "y"} {
			if _, err := w.hop.RoundTrip(w.request(ctx, body)); !errors.Is(err, errGivenUp) {
				w.t.Errorf("got %v, want %v", err, errGivenUp)
			}
		}
		w.wantNext(true)
	})
}

// A context that ends just when its answer does takes the connection along, or nothing:
// never the one that somebody else has now.
func TestContextEndsWithItsAnswer(t *testing.T) {
	for _, ours := range []bool{false, true} {
		onTCP(t, func(w *world) {
			w.serve(echo)
			for i := range 1000 {
				ctx, end := ending(ours)
				var both sync.WaitGroup
				both.Go(func() { // ends by itself
					for range i % 50 {
						runtime.Gosched()
					}
					end()
				})
				_, err := read(w.hop.RoundTrip(w.request(ctx, "first")))
				if err != nil && !errors.Is(err, errGivenUp) {
					w.t.Errorf("got %v", err)
				}
				// A POST, which is not made again where its connection is closed.
				w.want("next", "next")
				both.Wait()
			}
		})
	}
}

// tooLate is a context that is about to call its function whenever somebody would rather
// have it not called.
type tooLate struct {
	context.Context
	f func()
}

func (c *tooLate) AfterFunc(f func()) (stop func() bool) {
	c.f = f
	return func() bool { return false }
}

// A connection that is about to be closed is nobody else's.
func TestContextIsAboutToEnd(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		ctx := &tooLate{Context: w.t.Context()}
		if got, err := read(w.hop.RoundTrip(w.request(ctx, "x"))); got != "x" || err != nil {
			w.t.Errorf("the answer is %q, %v", got, err)
		}
		w.wantNext(false)
		ctx.f()
	})
}

// The end of the context is nothing to a connection whose answer is read.
func TestContextEndsBehindItsAnswer(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		for range 10 {
			ctx, end := ending(false)
			if got, err := read(w.hop.RoundTrip(w.request(ctx, "x"))); got != "x" || err != nil {
				w.t.Errorf("the answer is %q, %v", got, err)
			}
			end()
			w.settle(time.Millisecond)
		}
		w.wantConnections(1)
	})
}

// The body may be closed while it is read, by another goroutine.
func TestBodyIsClosedWhileItIsRead(t *testing.T) {
	onBoth(t, func(w *world) {
		ended := make(chan struct{})
		w.serve(func(p *peer) {
			if p.number > 1 {
				echo(p)
				return
			}
			p.request()
			p.say(head("HTTP/1.1 200 OK") + "begun")
			p.gone()
			close(ended)
		})
		resp, err := w.hop.RoundTrip(w.request(w.t.Context(), ""))
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

// A server that does not read a request is given up after WriteTimeout, and that is what
// the error says, for whatever part of the request is left.
func TestWriteTimeout(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		read       time.Duration // between two pieces; 0 for nothing is read
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
					p.say(ok)
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

// The time in which a request had to be written is over with it.
func TestWriteTimeoutIsOver(t *testing.T) {
	inMemory(t, func(w *world) {
		w.hop.WriteTimeout = 10 * time.Second
		w.serve(echo)
		for _, body := range []string{large, "x", large} {
			w.want(body, body)
			w.settle(30 * time.Second)
		}
		w.wantConnections(1)
	})
}

// mute is a connection whose other end reads no more and says nothing either.
type mute struct{ *memnet.Conn }

func (c mute) Write([]byte) (int, error) { return 0, &net.OpError{Op: "write", Err: syscall.EPIPE} }

// Who has stopped to read is heard for a second more, and not for longer.
func TestLastWordsAreBounded(t *testing.T) {
	inMemory(t, func(w *world) {
		dial := w.hop.Dial
		w.hop.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
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

// What a body ended with, each further Read returns: also when another exchange has the
// connection, and what was read into, by then. One that was closed can be read no more.
func TestReadBehindTheEnd(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		first, err := w.hop.RoundTrip(w.request(w.t.Context(), "first"))
		if err != nil {
			w.t.Fatal(err)
		}
		if got, err := io.ReadAll(first.Body); string(got) != "first" || err != nil {
			w.t.Fatalf("the answer is %q, %v", got, err)
		}
		second, err := w.hop.RoundTrip(w.request(w.t.Context(), "second"))
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
