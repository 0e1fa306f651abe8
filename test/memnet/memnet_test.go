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
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWriteDoesNotWaitForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(16)
		for _, c := range []*memnet.Conn{a, b} {
			if n, err := c.Write([]byte("hello")); n != 5 || err != nil {
				t.Fatalf("Write = %d, %v; want 5, nil", n, err)
			}
		}
		buf := make([]byte, 16)
		if n, err := b.Read(buf); string(buf[:n]) != "hello" || err != nil {
			t.Errorf("Read = %q, %v; want \"hello\", nil", buf[:n], err)
		}
	})
}

func TestWriteBlocksWhenBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memnet.Pipe(4)
		done := make(chan int, 1)
		go func() { // ends when all is written
			n, _ := a.Write([]byte("0123456789"))
			done <- n
		}()
		synctest.Wait()
		select {
		case n := <-done:
			t.Fatalf("Write returned %d before anything was read", n)
		default:
		}
		got := make([]byte, 10)
		if _, err := io.ReadFull(b, got); err != nil || string(got) != "0123456789" {
			t.Errorf("read %q, %v; want all ten digits", got, err)
		}
		if n := <-done; n != 10 {
			t.Errorf("Write = %d, want 10", n)
		}
	})
}

func TestCloseKeepsWrittenBytes(t *testing.T) {
	a, b := memnet.Pipe(16)
	if _, err := a.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); string(got) != "last" || err != nil {
		t.Errorf("ReadAll = %q, %v; want \"last\", nil", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write to a closed connection: %v, want io.ErrClosedPipe", err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read on the closed end: %v, want net.ErrClosed", err)
	}
}

// As on a socket, a closed end reads nothing, neither what had arrived nor that the other
// end has closed before.
func TestCloseDiscardsUnreadBytes(t *testing.T) {
	for _, closed := range []bool{false, true} {
		a, b := memnet.Pipe(16)
		if _, err := b.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		if closed {
			_ = b.Close()
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Read(make([]byte, 8)); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed before: %v: Read = %d, %v; want 0, net.ErrClosed", closed, n, err)
		}
	}
}

// TryWrite writes what fits and does not block.
func TestTryWrite(t *testing.T) {
	a, b := memnet.Pipe(4)
	for _, want := range []int{4, 0} {
		if n, err := a.TryWrite([]byte("012345")); n != want || err != nil {
			t.Errorf("TryWrite = %d, %v; want %d, nil", n, err, want)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := a.TryWrite([]byte("x")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("TryWrite to a closed connection = %d, %v; want 0, io.ErrClosedPipe", n, err)
	}
}

func TestIsQuiet(t *testing.T) {
	for name, stir := range map[string]func(b *memnet.Conn){
		"bytes": func(b *memnet.Conn) { _, _ = b.Write([]byte("x")) },
		"half":  func(b *memnet.Conn) { _ = b.CloseWrite() },
		"end":   func(b *memnet.Conn) { _ = b.Close() },
		"reset": func(b *memnet.Conn) { b.Reset() },
	} {
		a, b := memnet.Pipe(4)
		if !a.IsQuiet() {
			t.Errorf("%s: not quiet before", name)
		}
		if stir(b); a.IsQuiet() {
			t.Errorf("%s: quiet", name)
		}
	}
}

func TestCloseWriteLeavesTheOtherDirectionOpen(t *testing.T) {
	a, b := memnet.Pipe(16)
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read = %v, want io.EOF", err)
	}
	if _, err := b.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := a.Read(buf); string(buf[:n]) != "answer" || err != nil {
		t.Errorf("Read = %q, %v; want \"answer\", nil", buf[:n], err)
	}
}

func TestResetDiscardsWrittenBytes(t *testing.T) {
	a, b := memnet.Pipe(16)
	if _, err := a.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	a.Reset()
	if n, err := b.Read(make([]byte, 8)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Read = %d, %v; want 0 and an error that is not EOF", n, err)
	}
	if _, err := b.Write([]byte("x")); err == nil {
		t.Error("Write after Reset succeeded")
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := memnet.Pipe(4)
		start := time.Now()
		if err := a.SetDeadline(start.Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want os.ErrDeadlineExceeded", err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("Read gave up after %v, want 3s", got)
		}
		if n, err := a.Write([]byte("0123456789")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v; want 0, os.ErrDeadlineExceeded", n, err)
		}
	})
}

// net/http ends a blocked read by moving its deadline into the past.
func TestDeadlineMovesWhileReadBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := memnet.Pipe(4)
		got := make(chan error, 1)
		go func() { // ends with the deadline
			_, err := a.Read(make([]byte, 1))
			got <- err
		}()
		synctest.Wait()
		if err := a.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want os.ErrDeadlineExceeded", err)
		}
	})
}

// A real server and a real client communicate in a bubble, with a stream that lasts a
// minute and a graceful shutdown.
func TestHTTPInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			for range 3 {
				_, _ = w.Write(body)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Second)
			}
		})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }() // ends with Shutdown below
		tr := l.Transport()
		client := &http.Client{Transport: tr}
		sent := strings.Repeat("x", 3*memnet.DefaultBuffer)
		res, err := client.Post("http://example.test/", "text/plain", strings.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if want := strings.Repeat(sent, 3); !bytes.Equal(got, []byte(want)) || err != nil {
			t.Errorf("read %d bytes, %v; want %d bytes", len(got), err, len(want))
		}
		tr.CloseIdleConnections()
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v, want http.ErrServerClosed", err)
		}
	})
}

func TestDialAfterClose(t *testing.T) {
	l := memnet.Listen()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial = %v, want net.ErrClosed", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept = %v, want net.ErrClosed", err)
	}
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	l := memnet.Listen()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial = %v, want context.Canceled", err)
	}
}
