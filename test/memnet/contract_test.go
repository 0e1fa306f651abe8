// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// parked is a blocked read or write.
type parked struct {
	done chan struct{}
	n    int
	err  error
}

// park starts f, which must still be blocked when all goroutines are. It must be called in
// a bubble.
func park(t *testing.T, f func() (int, error)) *parked {
	t.Helper()
	p := &parked{done: make(chan struct{})}
	go func() { // ends with f, for which the test waits
		defer close(p.done)
		p.n, p.err = f()
	}()
	synctest.Wait()
	select {
	case <-p.done:
		t.Fatalf("it did not wait: %d, %v", p.n, p.err)
	default:
	}
	return p
}

func (p *parked) want(t *testing.T, n int, err error) {
	t.Helper()
	<-p.done
	if p.n != n || !errors.Is(p.err, err) {
		t.Errorf("got %d, %v; want %d, %v", p.n, p.err, n, err)
	}
}

// The end of a connection wakes all blocked calls at both ends.
func TestCloseWakesBlockedCalls(t *testing.T) {
	for _, tt := range []struct {
		name                                       string
		end                                        func(a *memnet.Conn)
		readHere, readThere, writeHere, writeThere error
	}{
		{name: "Close", end: func(a *memnet.Conn) { _ = a.Close() },
			readHere: net.ErrClosed, readThere: io.EOF, writeHere: net.ErrClosed, writeThere: io.ErrClosedPipe},
		{name: "Close, twice", end: func(a *memnet.Conn) { _ = a.Close(); _ = a.Close() },
			readHere: net.ErrClosed, readThere: io.EOF, writeHere: net.ErrClosed, writeThere: io.ErrClosedPipe},
		{name: "Close, and then Reset", end: func(a *memnet.Conn) { _ = a.Close(); a.Reset() },
			readHere: net.ErrClosed, readThere: io.EOF, writeHere: net.ErrClosed, writeThere: io.ErrClosedPipe},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				read := func(c *memnet.Conn) func() (int, error) {
					return func() (int, error) { return c.Read(make([]byte, 8)) }
				}
				write := func(c *memnet.Conn) func() (int, error) {
					return func() (int, error) { return c.Write([]byte("12345678")) }
				}
				a, b := memnet.Pipe(4)
				readers := []*parked{park(t, read(a)), park(t, read(b))}
				tt.end(a)
				readers[0].want(t, 0, tt.readHere)
				readers[1].want(t, 0, tt.readThere)

				a, b = memnet.Pipe(4)
				writers := []*parked{park(t, write(a)), park(t, write(b))}
				tt.end(a)
				writers[0].want(t, 4, tt.writeHere)
				writers[1].want(t, 4, tt.writeThere)
			})
		})
	}
}

func TestResetWakesBlockedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(4)
		reader := park(t, func() (int, error) { return b.Read(make([]byte, 8)) })
		writer := park(t, func() (int, error) { return b.Write([]byte("12345678")) })
		a.Reset()
		<-reader.done
		<-writer.done
		if reader.err == nil || errors.Is(reader.err, io.EOF) || writer.err == nil {
			t.Errorf("a read ended with %v, a write with %v; want errors, and no EOF", reader.err, writer.err)
		}
		if n, err := a.Read(make([]byte, 8)); n != 0 || err == nil {
			t.Errorf("what was written before was read: %d, %v", n, err)
		}
	})
}

// A deadline can be moved or removed while a call is blocked.
func TestDeadlineIsMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(4)
		start := time.Now()
		if err := a.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		reader := park(t, func() (int, error) { return a.Read(make([]byte, 8)) })
		if err := a.SetReadDeadline(start.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		reader.want(t, 0, os.ErrDeadlineExceeded)
		if got := time.Since(start); got != time.Minute {
			t.Errorf("the read gave up after %v, want 1m", got)
		}
		if err := a.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		reader = park(t, func() (int, error) { return a.Read(make([]byte, 8)) })
		time.Sleep(time.Hour)
		if _, err := b.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		reader.want(t, 4, nil)
	})
}

// net/http recognizes the error of a deadline as a timeout, and the two directions have
// separate deadlines.
func TestWriteDeadlineLeavesReadsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(4)
		if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := a.Write([]byte("12345678"))
		var late net.Error
		if n != 4 || !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("Write = %d, %v; want the 4 bytes that fit and a timeout", n, err)
		}
		if _, err := b.Write([]byte("ok")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4)
		if n, err := a.Read(buf); string(buf[:n]) != "ok" || err != nil {
			t.Errorf("Read = %q, %v", buf[:n], err)
		}
		if err := a.SetDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read after the deadline = %v, although there is something to read", err)
		}
	})
}

// Bytes arrive in the order in which they were written, in pieces of any size and with
// concurrent use of both ends.
func TestBytesKeepTheirOrder(t *testing.T) {
	for _, size := range []int{1, 7, 64, memnet.DefaultBuffer} {
		a, b := memnet.Pipe(size)
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1024)
		var both sync.WaitGroup
		for _, c := range []*memnet.Conn{a, b} {
			both.Go(func() { // ends when all is written; both waits
				for rest := sent; len(rest) > 0; {
					n, err := c.Write(rest[:min(len(rest), 100)])
					if err != nil {
						t.Errorf("Write: %v", err)
						return
					}
					rest = rest[n:]
				}
				if err := c.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			both.Go(func() { // ends at the end of what the other writes
				if got, err := io.ReadAll(c); !bytes.Equal(got, sent) || err != nil {
					t.Errorf("size %d: %d bytes, %v; want %d, and the same", size, len(got), err, len(sent))
				}
			})
		}
		both.Wait()
	}
}

func TestNothingIsReadAndWrittenAtOnce(t *testing.T) {
	a, b := memnet.Pipe(4)
	if n, err := a.Write(nil); n != 0 || err != nil {
		t.Errorf("Write of nothing = %d, %v", n, err)
	}
	if n, err := b.Read(nil); n != 0 || err != nil {
		t.Errorf("Read of nothing = %d, %v", n, err)
	}
}

// The listener's address is valid in a URL and counts as loopback, at both ends of each
// connection.
func TestAddresses(t *testing.T) {
	l := memnet.Listen()
	a, b := memnet.Pipe(1)
	for _, addr := range []net.Addr{l.Addr(), a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr()} {
		host, port, err := net.SplitHostPort(addr.String())
		if err != nil || !net.ParseIP(host).IsLoopback() || port != "80" || addr.Network() != "memory" {
			t.Errorf("address %s %s, %v", addr.Network(), addr, err)
		}
	}
}

func TestCloseWakesAcceptAndDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		accept := park(t, func() (int, error) { _, err := l.Accept(); return 0, err })
		_ = l.Close()
		_ = l.Close()
		accept.want(t, 0, net.ErrClosed)

		l = memnet.Listen()
		dial := park(t, func() (int, error) { _, err := l.Dial(t.Context()); return 0, err })
		_ = l.Close()
		dial.want(t, 0, net.ErrClosed)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l = memnet.Listen()
		dial = park(t, func() (int, error) { _, err := l.Dial(ctx); return 0, err })
		dial.want(t, 0, context.DeadlineExceeded)
		var op *net.OpError
		_ = l.Close()
		if _, err := l.Dial(t.Context()); !errors.As(err, &op) || op.Op != "dial" {
			t.Errorf("Dial = %v, want an error that says what was tried", err)
		}
	})
}

// A small buffer blocks the server that writes: this is how tests make a slow client.
func TestListenerBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		l.Buffer = 8
		accepted := make(chan net.Conn, 1)
		go func() { // ends with the Dial below
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		client, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server := <-accepted
		write := park(t, func() (int, error) { return server.Write(make([]byte, 9)) })
		if n, err := client.Read(make([]byte, 16)); n != 8 || err != nil {
			t.Errorf("Read = %d, %v; want the 8 bytes that fit", n, err)
		}
		write.want(t, 9, nil)
	})
}

// The transport connects to the listener for every host of a URL: a test never leaves the
// process.
func TestTransportIgnoresHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }() // ends with Close below
		tr := l.Transport()
		for _, host := range []string{"127.0.0.1", "example.test:7777", "[2001:db8::1]"} {
			res, err := (&http.Client{Transport: tr}).Get("http://" + host + "/")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); string(got) != host || err != nil {
				t.Errorf("%s was reached as %q, %v", host, got, err)
			}
		}
		tr.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}
