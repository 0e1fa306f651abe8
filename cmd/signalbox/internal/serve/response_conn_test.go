// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// serveAnswers serves a handler on a responseListener, and returns a function that calls it.
// Both end with the test.
func serveAnswers(t *testing.T, h http.HandlerFunc) func() (*http.Response, error) {
	t.Helper()
	l := memnet.Listen()
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { // ends with the server
		defer close(done)
		_ = s.Serve(responseListener{Listener: l})
	}()
	tr := l.Transport()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		s.Close()
		<-done
	})
	return func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway.test/", nil)
		if err != nil {
			return nil, err
		}
		return tr.RoundTrip(req)
	}
}

// announced writes the header of a response with a Content-Length.
func announced(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.WriteHeader(http.StatusOK)
}

// Responses of all lengths near that of net/http's buffer arrive completely, one after
// another, even before their handlers return.
func TestResponsesOfAllLengths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		length := 0
		gate := make(chan struct{})
		call := serveAnswers(t, func(w http.ResponseWriter, _ *http.Request) {
			announced(w, length)
			_, _ = io.WriteString(w, strings.Repeat("x", length))
			_ = http.NewResponseController(w).Flush()
			<-gate
		})
		check := func(n int) {
			length = n
			res, err := call()
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if len(got) != n || err != nil {
				t.Fatalf("%d bytes: %d arrived, %v", n, len(got), err)
			}
			gate <- struct{}{}
		}
		for n := firstBufferSize - 300; n <= firstBufferSize+10; n++ {
			check(n)
		}
		for _, n := range []int{0, 1, 100, 2*firstBufferSize - 200, 2 * firstBufferSize, 32 << 10, 1 << 20} {
			check(n)
		}
	})
}

// A flushed response is not held back.
func TestFlushedResponseDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		call := serveAnswers(t, func(w http.ResponseWriter, _ *http.Request) {
			announced(w, 3*firstBufferSize)
			for _, piece := range []string{strings.Repeat("a", 2*firstBufferSize), strings.Repeat("b", firstBufferSize)} {
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		})
		res, err := call()
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for _, want := range []string{strings.Repeat("a", 2*firstBufferSize), strings.Repeat("b", firstBufferSize)} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, got); string(got) != want || err != nil {
				t.Errorf("%.10q arrived, %v; want %.10q", got, err, want)
			}
			next <- struct{}{}
		}
	})
}

// A truncated response is recognized as such, wherever it ends.
func TestTruncatedResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := 0
		call := serveAnswers(t, func(w http.ResponseWriter, _ *http.Request) {
			announced(w, 1<<20)
			_, _ = io.WriteString(w, strings.Repeat("x", written))
			panic(http.ErrAbortHandler) // the usual way with net/http
		})
		for _, written = range []int{0, 100, firstBufferSize - 100, firstBufferSize, 3 * firstBufferSize} {
			res, err := call()
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err == nil {
				t.Errorf("after %d bytes: %v, want an error", written, err)
			}
		}
	})
}

// net/http closes a connection for writing first, if possible: otherwise unread data of the
// request would make the system discard the response.
func TestConnectionsCanBeHalfClosed(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := responseListener{Listener: l}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	half, ok := near.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("it has no CloseWrite, which net/http looks for")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the peer reads %d, %v; want the end", n, err)
	}
	if _, err := io.WriteString(far, "x"); err != nil {
		t.Fatal(err)
	}
	if n, err := near.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("what the peer still writes is not read: %d, %v", n, err)
	}
}

func TestIsFirstBuffer(t *testing.T) {
	full := func(format string, args ...any) string {
		text := fmt.Sprintf(format, args...)
		return text + strings.Repeat("x", max(0, firstBufferSize-len(text)))
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nDate: x\r\n\r\n"
	inFront := firstBufferSize - len(fmt.Sprintf(head, 4000))
	tests := []struct {
		name string
		text string
		want bool
	}{
		{"more follows", full(head, 9000), true},
		{"one byte follows", full(head, inFront+1), true},
		{"all of it", full(head, inFront), false},
		{"smaller: it was flushed", full(head, 9000)[:firstBufferSize-1], false},
		{"larger", full(head, 9000) + "x", false},
		{"without a length", full("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), false},
		{"without an end of its head", full("HTTP/1.1 200 OK\r\nContent-Length: 9000\r\nX: "), false},
		{"a head alone", full("HTTP/1.1 200 OK\r\nX: ")[:firstBufferSize-26] + "\r\nContent-Length: 9000\r\n\r\n", false},
		{"in the middle of one", full("x"), false},
		{"a length that is none", full("HTTP/1.1 200 OK\r\nContent-Length: 1e9\r\n\r\n"), false},
		{"nothing", "", false},
	}
	for _, tt := range tests {
		if n := len(tt.text); n != firstBufferSize && !strings.Contains("smaller: it was flushed, larger, nothing", tt.name) {
			t.Fatalf("%s: has %d bytes, and tells nothing by that", tt.name, n)
		}
		if got := isFirstBuffer([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
