// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
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

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// lines are the connections of an endpoint, each a pipe whose other end the test has: one
// read there returns what one write has sent.
type lines struct {
	*endpoint
	ends    chan net.Conn
	wrap    func(net.Conn) net.Conn
	refused error // of the next connections
}

func newLines(t *testing.T) *lines {
	t.Helper()
	l := &lines{endpoint: newEndpoint(newSetup(Config{Name: "b"}), "http://b.test/mcp"), ends: make(chan net.Conn, 10)}
	l.wrap = func(c net.Conn) net.Conn { return c }
	tr, ok := l.trip.(*http.Transport)
	if !ok {
		t.Fatal("the endpoint has no transport of its own")
	}
	tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
		if l.refused != nil {
			return nil, l.refused
		}
		near, far := net.Pipe()
		l.ends <- far
		return &connection{Conn: l.wrap(near), write: l.Write}, nil
	}
	t.Cleanup(tr.CloseIdleConnections)
	return l
}

// posting posts a parcel; what becomes of it is sent.
func (l *lines) posting(ctx context.Context, p *parcel) <-chan error {
	got := make(chan error, 1)
	go func() { // ends with its answer, or with the context
		resp, err := l.post(ctx, l.posts, p)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		got <- err
	}()
	return got
}

// once reads what one write has sent.
func once(t *testing.T, end net.Conn) string {
	t.Helper()
	b := make([]byte, 1<<20)
	n, err := end.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return string(b[:n])
}

func respond(t *testing.T, end net.Conn) {
	t.Helper()
	if _, err := io.WriteString(end, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
}

// A small request leaves in one write, each time.
func TestSmallRequestIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		var end net.Conn
		for range 3 {
			got := l.posting(t.Context(), &parcel{msg: []byte(`{"jsonrpc":"2.0"}`)})
			if end == nil {
				end = <-l.ends
				defer end.Close()
			}
			sent := once(t, end)
			if !strings.HasPrefix(sent, "POST /mcp HTTP/1.1\r\n") || !strings.HasSuffix(sent, "\r\n\r\n"+`{"jsonrpc":"2.0"}`) {
				t.Errorf("the first write has %q, want head and body", sent)
			}
			respond(t, end)
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A request of any length arrives as it is.
func TestRequestsOfAnyLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		var end net.Conn
		var r *bufio.Reader
		for _, size := range []int{1, 4 << 10, pieceSize - 300, pieceSize, pieceSize + 1, 3 * pieceSize, 1<<20 + 7} {
			msg := strings.Repeat("x", size)
			got := l.posting(t.Context(), &parcel{msg: []byte(msg)})
			if end == nil {
				end = <-l.ends
				defer end.Close()
				r = bufio.NewReader(end)
			}
			req, err := http.ReadRequest(r)
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
	})
}

// Of a call that was taken back before its body was begun, the server sees nothing.
func TestNothingGoesOutOfACallTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		var calls session.Calls
		p := &parcel{msg: []byte("message"), call: opened(t, &calls)}
		p.call.Withdraw(session.Terminal{Err: io.EOF})
		got := l.posting(t.Context(), p)
		if sent := once(t, <-l.ends); sent != "" {
			t.Errorf("the server saw %q, want nothing", sent)
		}
		if err := <-got; !errors.Is(err, errTakenBack) || p.left.Load() {
			t.Errorf("got %v, left %v; want %v", err, p.left.Load(), errTakenBack)
		}
	})
}

// A peer that does not read is not waited for longer than a write may take.
func TestConnectionOfAPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		start := time.Now()
		err := <-l.posting(t.Context(), &parcel{msg: []byte("message")})
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != l.Write {
			t.Errorf("got %v after %v, want %v after %v", err, took, os.ErrDeadlineExceeded, l.Write)
		}
		if fault, ok := errors.AsType[*mcp.Fault](err); !ok || fault.Outcome != mcp.Unknown {
			t.Errorf("got %v, want the outcome %v", err, mcp.Unknown)
		}
	})
}

// severed is a connection that can be cut for writing alone, as it is for a moment when
// its peer has just gone.
type severed struct {
	net.Conn
	cut *bool
}

func (s severed) Write(p []byte) (int, error) {
	if *s.cut {
		return 0, &net.OpError{Op: "write", Net: "pipe", Err: net.ErrClosed}
	}
	return s.Conn.Write(p)
}

// A request of which nothing could be sent over a connection that was kept is sent over
// another one, once, and also if there are several such connections.
func TestUnsentRequestIsSentOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		var cuts []*bool
		l.wrap = func(c net.Conn) net.Conn {
			cuts = append(cuts, new(bool))
			return severed{c, cuts[len(cuts)-1]}
		}
		var ends []net.Conn
		var answers []<-chan error
		for range 2 { // at a time, so that there are two connections
			answers = append(answers, l.posting(t.Context(), &parcel{msg: []byte("first")}))
			ends = append(ends, <-l.ends)
			once(t, ends[len(ends)-1])
		}
		for i, end := range ends {
			defer end.Close()
			respond(t, end)
			if err := <-answers[i]; err != nil {
				t.Fatal(err)
			}
			*cuts[i] = true
		}
		synctest.Wait()
		got := l.posting(t.Context(), &parcel{msg: []byte("second")})
		fresh := <-l.ends
		defer fresh.Close()
		if sent := once(t, fresh); !strings.HasSuffix(sent, "\r\n\r\nsecond") {
			t.Errorf("the third connection has %q, want the request", sent)
		}
		respond(t, fresh)
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// Where there is no other connection, a request of which nothing was sent has not reached
// the server.
func TestUnsentRequestThatFindsNoOtherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		cut := false
		l.wrap = func(c net.Conn) net.Conn { return severed{c, &cut} }
		got := l.posting(t.Context(), &parcel{msg: []byte("first")})
		end := <-l.ends
		defer end.Close()
		once(t, end)
		respond(t, end)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cut, l.refused = true, errors.New("refused")
		err := <-l.posting(t.Context(), &parcel{msg: []byte("second")})
		if fault, ok := errors.AsType[*mcp.Fault](err); !ok || fault.Outcome != mcp.NotDispatched || !errors.Is(err, l.refused) {
			t.Errorf("got %v, want the outcome %v", err, mcp.NotDispatched)
		}
	})
}

// Where a connection is new, that nothing could be sent is an error.
func TestUnsentRequestOfANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(t)
		cut := true
		l.wrap = func(c net.Conn) net.Conn { return severed{c, &cut} }
		err := <-l.posting(t.Context(), &parcel{msg: []byte("message")})
		if !errors.Is(err, net.ErrClosed) || len(l.ends) != 1 {
			t.Errorf("got %v over %d connections, want %v over one", err, len(l.ends), net.ErrClosed)
		}
	})
}

// What is no head of a request with a body that follows by itself does not wait.
func TestWhatDoesNotWait(t *testing.T) {
	long := "POST / HTTP/1.1\r\nContent-Length: 5\r\nX: " + strings.Repeat("x", pieceSize) + "\r\n\r\n"
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
		"DELETE / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: b\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 5\r\nX-Long: ",
		"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
		"Content-Length: 5\r\n\r\n",
		long, "\x16\x03\x01", "x",
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			c := &connection{Conn: near, write: time.Minute}
			done := make(chan struct{})
			go func() { // ends when it has been read
				defer close(done)
				if n, err := io.WriteString(c, text); n != len(text) || err != nil {
					t.Errorf("%.80q: wrote %d, %v", text, n, err)
				}
			}()
			got := make([]byte, len(text))
			if _, err := io.ReadFull(far, got); string(got) != text || err != nil {
				t.Errorf("%.80q: %.80q arrived, %v", text, got, err)
			}
			<-done
		})
	}
}

// A body that is written, and not read from, goes out behind its head, too.
func TestHeadAndBodyThatAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &connection{Conn: near, write: time.Minute}
		done := make(chan struct{})
		go func() { // ends when both have been read
			defer close(done)
			for _, text := range []string{"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "hello"} {
				if n, err := io.WriteString(c, text); n != len(text) || err != nil {
					t.Errorf("%q: wrote %d, %v", text, n, err)
				}
			}
		}()
		if got := once(t, far); got != "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello" {
			t.Errorf("%q arrived in one write, want all", got)
		}
		<-done
	})
}
