// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// site is an endpoint on an in-memory network, in a synctest bubble.
type site struct {
	t   *testing.T
	e   *endpoint
	gw  *signalbox.Gateway
	net *memnet.Listener
}

// onMemory runs f with an endpoint with default limits and the backend h, and shuts it down as
// the command does.
func onMemory(t *testing.T, h mcp.Handler, f func(*site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := new(config.Config).Effective()
		own := ""
		gw, err := signalbox.New(*cfg, signalbox.Options{
			Logger:    slog.New(slog.DiscardHandler),
			InProcess: []signalbox.InProcess{{Name: "b", Prefix: &own, Handler: h}},
		})
		if err != nil {
			t.Fatal(err)
		}
		l := memnet.Listen()
		s := &site{t: t, gw: gw, net: l, e: newEndpoint(l, cfg)}
		s.e.serve(gw, slog.New(slog.DiscardHandler))
		f(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := gw.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		s.e.close(ctx)
		time.Sleep(time.Minute) // net/http keeps closed connections for a while
	})
}

// pass advances the time of the bubble.
func pass(d time.Duration) { time.Sleep(d) }

func (s *site) call(tr http.RoundTripper, tool string) (*http.Response, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(commandtest.CallOf(tool)))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range commandtest.CallHeader(tool) {
		req.Header.Set(f[0], f[1])
	}
	return tr.RoundTrip(req)
}

// echo checks that another client is served.
func (s *site) echo() {
	s.t.Helper()
	tr := s.net.Transport()
	defer tr.CloseIdleConnections()
	res, err := s.call(tr, "echo")
	if err != nil {
		s.t.Fatalf("another client: %v", err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), `"content":[]`) {
		s.t.Errorf("another client gets %d %s, %v", res.StatusCode, body, err)
	}
}

// waiting has a tool that responds, and one that waits until its client has left. It counts
// the waiting calls.
func waiting(n *atomic.Int64) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if name, _ := req.Params.Text(mcp.FieldName); req.Method == "tools/call" && name == "wait" {
			n.Add(1)
			defer n.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":1,"cacheScope":"public"}`))
		case "tools/list":
			return mcp.NewResult([]byte(`{"resultType":"complete","ttlMs":1,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"wait","inputSchema":{"type":"object"}}]}`))
		case "tools/call":
			return mcp.NewResult([]byte(`{"resultType":"complete","content":[]}`))
		}
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	})
}

// A client that begins with HTTP/2 is served with it, on one connection. An upgrade from
// HTTP/1.1 is not accepted: proxies that forward it allow requests to be smuggled.
func TestServesHTTP2(t *testing.T) {
	t.Parallel()
	onMemory(t, waiting(new(atomic.Int64)), func(s *site) {
		tr := s.net.HTTP2()
		defer tr.CloseIdleConnections()
		for range 3 {
			res, err := s.call(tr, "echo")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.ProtoMajor != 2 || string(body) != `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}` {
				t.Errorf("%s: %d %s, %v", res.Proto, res.StatusCode, body, err)
			}
		}
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://localhost/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Connection", "Upgrade, HTTP2-Settings")
		req.Header.Set("Upgrade", "h2c")
		req.Header.Set("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")
		one := s.net.Transport()
		defer one.CloseIdleConnections()
		res, err := one.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.ProtoMajor != 1 {
			t.Errorf("an offer to change over is answered %s %d", res.Proto, res.StatusCode)
		}
	})
}

// HTTP/2 clients are notified of a shutdown, and the connection closes.
func TestShutdownEndsHTTP2(t *testing.T) {
	t.Parallel()
	onMemory(t, waiting(new(atomic.Int64)), func(s *site) {
		c := s.dial(true)
		defer c.Close()
		c.headers(1, flagEnd, http.MethodGet, "/healthz", nil)
		c.until(frameHeaders)
		if err := s.gw.Shutdown(s.t.Context()); err != nil {
			t.Error(err)
		}
		start := time.Now()
		s.e.close(s.t.Context())
		if took := time.Since(start); took >= closeTimeout {
			t.Errorf("closing took %v", took)
		}
		c.until(frameGoAway)
		for range c.read { // ends with the connection
		}
		if !errors.Is(c.err, io.EOF) {
			t.Errorf("the connection ended with %v", c.err)
		}
	})
}

// The error codes of HTTP/2 (RFC 9113, 7), or noError if the connection stays open.
const (
	noError        = 0
	protocolError  = 1
	frameSizeError = 6
	refusedStream  = 7 // of a stream
)

// ATTACKS 84: attacks that exhaust an HTTP/2 server are rejected, or end their connection.
// Other clients are served meanwhile, and no resources remain in use.
func TestTortureByHTTP2(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		hears bool
		do    func(*rawHTTP2)
		ends  uint32
	}{
		{"resets", true, func(c *rawHTTP2) {
			for i := range uint32(5000) {
				c.headers(2*i+1, 0, http.MethodPost, "/mcp", commandtest.CallHeader("wait"))
				c.frame(frameData, flagEnd, 2*i+1, []byte(commandtest.CallOf("wait")))
				c.frame(frameReset, 0, 2*i+1, []byte{0, 0, 0, 8})
			}
		}, noError},
		{"a header without an end", true, func(c *rawHTTP2) {
			c.frame(frameHeaders, flagEnd, 1, requestHead(http.MethodGet, "/mcp"))
			for range 5000 {
				c.frame(frameContinuation, 0, 1, literal("x-more", strings.Repeat("x", 1000)))
			}
		}, protocolError},
		{"a large header", true, func(c *rawHTTP2) {
			c.headers(1, flagEnd, http.MethodPost, "/mcp", slices.Repeat([][2]string{{"x-more", strings.Repeat("x", 1000)}}, 200))
		}, noError},
		{"a large frame", true, func(c *rawHTTP2) { c.frame(frameOfNoKind, 0, 0, make([]byte, largestFrame+1)) }, frameSizeError},
		{"more streams than there may be", true, func(c *rawHTTP2) {
			for i := range uint32(streamsPerConnection + 50) {
				c.headers(2*i+1, 0, http.MethodPost, "/mcp", commandtest.CallHeader("wait"))
				c.frame(frameData, flagEnd, 2*i+1, []byte(commandtest.CallOf("wait")))
			}
			for why := noError; why != refusedStream; {
				why = int(binary.BigEndian.Uint32(c.until(frameReset).payload))
			}
		}, noError},
		{"pings whose answers are not read", false, func(c *rawHTTP2) {
			for range 8000 { // twice as many as the network holds, and fewer than end the connection at once
				c.frame(framePing, 0, 0, make([]byte, 8))
			}
		}, noError},
		{"settings over and over", true, func(c *rawHTTP2) {
			for range 50_000 {
				c.frame(frameSettings, 0, 0, nil)
			}
		}, noError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var left atomic.Int64
			onMemory(t, waiting(&left), func(s *site) {
				c := s.dial(tt.hears)
				defer c.Close()
				tt.do(c)
				s.echo()
				if tt.ends != noError {
					if why := c.until(frameGoAway).payload; binary.BigEndian.Uint32(why[4:]) != tt.ends {
						t.Errorf("the connection ends for %d, want %d", why, tt.ends)
					}
				}
				time.Sleep(time.Minute)
				s.echo()
				if !tt.hears && !c.isGivenUp() {
					t.Error("a connection on which nothing can be written is kept")
				}
				_ = c.Close()
				synctest.Wait()
				if got := left.Load(); got != 0 {
					t.Errorf("%d calls of it are left", got)
				}
			})
		})
	}
}

const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameContinuation = 9
	frameOfNoKind     = 0x40

	flagEnd        = 1 // of a stream
	flagEndHeaders = 4
)

// rawHTTP2 is an HTTP/2 client that sends arbitrary frames (RFC 9113).
type rawHTTP2 struct {
	net.Conn
	t    *testing.T
	read chan rawFrame // closed when the connection has ended; nil if the client does not read
	err  error         // of reading; after read is closed
	lost error         // of the last write
}

type rawFrame struct {
	kind    byte
	payload []byte
}

// dial connects and sends the preface.
func (s *site) dial(hears bool) *rawHTTP2 {
	s.t.Helper()
	conn, err := s.net.Dial(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := &rawHTTP2{Conn: conn, t: s.t}
	if hears {
		frames := make(chan rawFrame, 1<<16)
		c.read = frames
		go func() { // ends with the connection
			defer close(frames)
			c.err = c.hear(frames)
		}()
	}
	c.write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	c.frame(frameSettings, 0, 0, nil)
	return c
}

func (c *rawHTTP2) hear(frames chan<- rawFrame) error {
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			return err
		}
		frames <- rawFrame{head[3], payload}
	}
}

// until returns the next frame of a kind.
func (c *rawHTTP2) until(kind byte) rawFrame {
	c.t.Helper()
	for f := range c.read {
		if f.kind == kind {
			return f
		}
	}
	c.t.Fatalf("the connection ended with %v before a frame of kind %d", c.err, kind)
	return rawFrame{}
}

// isGivenUp reports whether the server has closed the connection for writing.
func (c *rawHTTP2) isGivenUp() bool {
	c.frame(framePing, 0, 0, make([]byte, 8))
	return c.lost != nil
}

// write writes b, and records the error.
func (c *rawHTTP2) write(b []byte) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
	_, c.lost = c.Write(b)
}

func (c *rawHTTP2) frame(kind, flags byte, stream uint32, payload []byte) {
	b := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(b, uint32(len(payload))<<8|uint32(kind))
	b[4] = flags
	binary.BigEndian.PutUint32(b[5:], stream)
	c.write(append(b, payload...))
}

// headers begins a request.
func (c *rawHTTP2) headers(stream uint32, flags byte, method, path string, fields [][2]string) {
	block := requestHead(method, path)
	for _, f := range fields {
		block = append(block, literal(f[0], f[1])...)
	}
	kind := byte(frameHeaders)
	for len(block) > largestFrame {
		c.frame(kind, flags, stream, block[:largestFrame])
		kind, flags, block = frameContinuation, 0, block[largestFrame:]
	}
	c.frame(kind, flags|flagEndHeaders, stream, block)
}

func requestHead(method, path string) []byte {
	return slices.Concat(literal(":method", method), literal(":scheme", "http"), literal(":path", path), literal(":authority", "localhost"))
}

// literal returns a field that is not indexed (RFC 7541, 6.2.2).
func literal(name, value string) []byte {
	b := appendLength([]byte{0}, len(name))
	return append(appendLength(append(b, name...), len(value)), value...)
}

// appendLength appends an integer with a prefix of seven bits (RFC 7541, 5.1).
func appendLength(b []byte, n int) []byte {
	if n < 0x7f {
		return append(b, byte(n))
	}
	return binary.AppendUvarint(append(b, 0x7f), uint64(n-0x7f))
}
