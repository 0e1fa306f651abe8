// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// A request of any size arrives unmodified, and its body is closed once.
func TestRequestArrives(t *testing.T) {
	onBoth(t, func(w *world) {
		seen := make(chan *http.Request, 1)
		w.serve(func(p *peer) {
			for {
				req, body, more := p.request()
				if !more {
					return
				}
				seen <- req
				p.write(answer(body))
			}
		})
		for _, size := range []int{1, 4 << 10, 28<<10 - 300, 28 << 10, 28<<10 + 1, 32 << 10, 64 << 10, 1 << 20} {
			req := w.request(w.t.Context(), large[:size])
			body := &watched{Reader: strings.NewReader(large[:size])}
			req.Body = body
			req.Header["aAzZ09-_!#$%&'*+.^`|~"] = []string{"a\tkind"} // all characters that a name may have
			req.Header["X-Many"] = []string{"", "1", "zwölf"}
			got, err := read(w.http1.RoundTrip(req))
			if got != large[:size] || err != nil || body.closed.Load() != 1 {
				w.t.Errorf("%d bytes came back, %v, and the body was closed %d times; want %d, and 1", len(got), err, body.closed.Load(), size)
			}
			h := (<-seen).Header
			if h.Get("aAzZ09-_!#$%&'*+.^`|~") != "a\tkind" || strings.Join(h["X-Many"], ",") != ",1,zwölf" {
				w.t.Errorf("the headers are %q", h)
			}
		}
		w.wantConnections(1)
	})
}

// A header larger than the buffer is sent completely.
func TestLongHeadArrives(t *testing.T) {
	onBoth(t, func(w *world) {
		w.serve(echo)
		for _, body := range []string{"", "small", large[:40<<10]} {
			req := w.request(w.t.Context(), body)
			req.Header.Set("X-Long", large[:200<<10])
			if got, err := read(w.http1.RoundTrip(req)); got != cmp.Or(body, "ok") || err != nil {
				w.t.Errorf("the answer has %d bytes, %v", len(got), err)
			}
		}
		w.wantConnections(1)
	})
}

// A request that HTTP cannot express is rejected with the name of the field, before dialing.
func TestRequestIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(req *http.Request)
		names string
	}{
		{name: "a value with an end of line", spoil: func(r *http.Request) { r.Header.Set("X-Key", "secret\r\nEvil: 1") }, names: "X-Key"},
		{name: "a value with a line feed", spoil: func(r *http.Request) { r.Header["X-Key"] = []string{"fine", "secret\nEvil: 1"} }, names: "X-Key"},
		{name: "a value with a zero byte", spoil: func(r *http.Request) { r.Header.Set("X-Key", "secret\x00") }, names: "X-Key"},
		{name: "a value with DEL", spoil: func(r *http.Request) { r.Header.Set("X-Key", "secret\x7f") }, names: "X-Key"},
		{name: "a name with a space", spoil: func(r *http.Request) { r.Header["X Key"] = []string{"secret"} }, names: `"X Key"`},
		{name: "a name with a colon", spoil: func(r *http.Request) { r.Header["X:Key"] = []string{"secret"} }, names: `"X:Key"`},
		{name: "a name with an end of line", spoil: func(r *http.Request) { r.Header["X\r\nEvil"] = []string{"secret"} }, names: `"X\r\nEvil"`},
		{name: "a name with brackets", spoil: func(r *http.Request) { r.Header["X(Key)"] = []string{"secret"} }, names: `"X(Key)"`},
		{name: "a name that is not ASCII", spoil: func(r *http.Request) { r.Header["Schlüssel"] = []string{"secret"} }, names: `"Schlüssel"`},
		{name: "no name", spoil: func(r *http.Request) { r.Header[""] = []string{"secret"} }, names: `""`},
		{name: "a method with an end of line", spoil: func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\nEvil: 1\r\n\r\nGET" }, names: "method"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, new(net.TCPListener), func(context.Context, string, string) (net.Conn, error) {
				t.Error("a connection was dialled")
				return nil, net.ErrClosed
			})
			req, body := posted(t)
			tt.spoil(req)
			for name, by := range map[string]http.RoundTripper{"http1": w.http1, "net/http": w.std} {
				body.closed.Store(0)
				_, err := by.RoundTrip(req)
				if err == nil || name == "http1" && !strings.Contains(err.Error(), tt.names) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: got %v, want an error that names %s, and nothing else", name, err, tt.names)
				}
				if n := body.closed.Load(); n != 1 {
					t.Errorf("%s: the body was closed %d times, want 1", name, n)
				}
			}
		})
	}
}

// posted returns a request with a watched body.
func posted(t *testing.T) (*http.Request, *watched) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/", strings.NewReader("12345"))
	if err != nil {
		t.Fatal(err)
	}
	body := &watched{Reader: req.Body}
	req.Body = body
	return req, body
}

// The error of Dial is returned unmodified.
func TestDialFails(t *testing.T) {
	why := &net.OpError{Op: "dial", Err: errors.New("no route")}
	w := newWorld(t, new(net.TCPListener), func(context.Context, string, string) (net.Conn, error) { return nil, why })
	req, body := posted(t)
	if _, err := w.http1.RoundTrip(req); err != error(why) || body.closed.Load() != 1 { //nolint:errorlint // not wrapped
		t.Errorf("got %v, and the body was closed %d times; want %v, and 1", err, body.closed.Load(), why)
	}
}

// failing returns n bytes, and then an error.
type failing struct {
	n   int
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.n == 0 {
		return 0, f.err
	}
	n := min(len(p), f.n)
	f.n -= n
	return n, nil
}

// If reading the body fails, the connection is closed, and the client does not wait for a
// response. If it fails at once, nothing was sent.
func TestRequestBodyFails(t *testing.T) {
	errBody := errors.New("the body is broken")
	for _, tt := range []struct {
		name         string
		length, upTo int
		err          error
		sent         bool
		hidden       bool // by net/http, which reads after the end by itself
	}{
		{name: "small, at once", length: 100, err: errBody},
		{name: "small, in the middle", length: 100, upTo: 50, err: errBody},
		{name: "small, at its end", length: 100, upTo: 100, err: errBody, hidden: true},
		{name: "small, too short", length: 100, upTo: 50, err: io.EOF},
		{name: "small, too long", length: 100, upTo: 101, err: io.EOF},
		{name: "large, at once", length: 1 << 20, err: errBody},
		{name: "large, in the middle", length: 1 << 20, upTo: 1 << 19, err: errBody, sent: true},
		{name: "large, too short", length: 1 << 20, upTo: 1 << 19, err: io.EOF, sent: true},
		{name: "large, too long", length: 1 << 20, upTo: 1<<20 + 1, err: io.EOF, sent: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onBoth(t, func(w *world) {
				got := make(chan string, 2)
				w.serve(func(p *peer) {
					if p.number > 1 {
						echo(p)
						return
					}
					echo1(p)
					got <- p.gone()
				})
				w.want("x", "x")
				req := w.request(w.t.Context(), "x")
				body := &watched{Reader: &failing{tt.upTo, tt.err}}
				req.Body, req.ContentLength = body, int64(tt.length)
				_, err := w.http1.RoundTrip(req)
				if err == nil || errors.Is(tt.err, errBody) && !errors.Is(err, errBody) && !tt.hidden || errors.Is(err, http1.ErrUnsent) {
					w.t.Errorf("got %v, want %v", err, tt.err)
				}
				if n := body.closed.Load(); n != 1 {
					w.t.Errorf("the body was closed %d times, want 1", n)
				}
				if sent := <-got; (sent != "") != tt.sent || strings.HasSuffix(sent, "\r\n\r\n") {
					w.t.Errorf("%d bytes were sent", len(sent))
				}
				w.wantNext(false)
			})
		})
	}
}

// echo1 is echo for one request.
func echo1(p *peer) {
	_, body, _ := p.request()
	p.write(answer(body))
}

// The body is closed eventually, wherever the request ends.
func TestRequestBodyIsClosed(t *testing.T) {
	for _, body := range []string{"small", large} {
		inMemory(t, func(w *world) {
			w.serve(func(p *peer) { <-p.w.over })
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
			defer cancel()
			req := w.request(ctx, body)
			closed := &watched{Reader: strings.NewReader(body)}
			req.Body = closed
			if _, err := w.http1.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
				w.t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			w.settle(time.Millisecond)
			if n := closed.closed.Load(); n != 1 {
				w.t.Errorf("the body was closed %d times, want 1", n)
			}
		})
	}
}

// A request that needs more than HTTP/1.1 on a plain connection is not plain.
func TestPlainRequests(t *testing.T) {
	for name, spoil := range map[string]func(r *http.Request){
		"TLS":                  func(r *http.Request) { r.URL.Scheme = "https" },
		"no host":              func(r *http.Request) { r.URL.Host = "" },
		"a host in Unicode":    func(r *http.Request) { r.URL.Host = "bücher.test" },
		"an end":               func(r *http.Request) { r.Close = true },
		"trailers":             func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
		"an encoding":          func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		"Expect":               func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"Upgrade":              func(r *http.Request) { r.Header.Set("Upgrade", "x") },
		"Connection":           func(r *http.Request) { r.Header.Set("Connection", "close") },
		"Transfer-Encoding":    func(r *http.Request) { r.Header.Set("Transfer-Encoding", "chunked") },
		"Trailer":              func(r *http.Request) { r.Header.Set("Trailer", "x") },
		"a body of any length": func(r *http.Request) { r.ContentLength = -1 },
		"a body of no length":  func(r *http.Request) { r.ContentLength = 0 },
		"a length, no body":    func(r *http.Request) { r.Body = nil },
	} {
		req, _ := posted(t)
		if !http1.IsPlain(req) {
			t.Fatal("a plain request is not served")
		}
		if spoil(req); http1.IsPlain(req) {
			t.Errorf("a request with %s is served", name)
		}
	}
	for _, body := range []io.Reader{nil, http.NoBody} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", body)
		if err != nil || !http1.IsPlain(req) {
			t.Errorf("a request without a body is not served, %v", err)
		}
	}
}
