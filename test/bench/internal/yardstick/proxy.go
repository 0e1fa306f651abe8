// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package yardstick

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// transport keeps as many connections as a gateway keeps to a backend, and does not buffer
// responses.
func transport() *http.Transport {
	return &http.Transport{
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// Proxy is [httputil.ReverseProxy] in front of a backend: the yardstick. It is as fast as
// possible without custom code: connections and buffers are reused. It reaches the backend
// in the given number of ways, each with connections of its own, like as many backends, and
// uses them in turn.
func Proxy(backend *url.URL, ways int, logger *slog.Logger) http.Handler {
	p := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = backend, "" },
		Transport:  newTurns(ways),
		BufferPool: &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}},
		ErrorLog:   slog.NewLogLogger(logger.Handler(), slog.LevelError),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The backend may respond before the proxy has read the end of the request. Without
		// this, net/http then closes the connection during the response, and some responses
		// are cut off.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			logger.ErrorContext(r.Context(), "no full duplex", slog.Any("error", err))
		}
		p.ServeHTTP(w, r)
	})
}

// turns is a RoundTripper that uses one transport after the other.
type turns struct {
	ways []*http.Transport
	n    atomic.Uint64
}

func newTurns(ways int) *turns {
	t := new(turns)
	for range max(1, ways) {
		t.ways = append(t.ways, transport())
	}
	return t
}

func (t *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.ways[t.n.Add(1)%uint64(len(t.ways))].RoundTrip(r)
}

// bufferSize is the size that ReverseProxy uses without a pool, too.
const bufferSize = 32 << 10

// buffers is a [httputil.BufferPool].
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return b.pool.Get().(*[bufferSize]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }

// Hop is the minimum of any program on net/http for a call: it reads the request, sends it
// on, and forwards the response. Allocations of a gateway beyond that are its own.
func Hop(backend *url.URL) http.Handler {
	t := transport()
	pool := &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readAll(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := http.NewRequestWithContext(r.Context(), r.Method, backend.String(), body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		pass(out.Header, r.Header, "Content-Type", "Accept", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name")
		answer, err := t.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		pass(w.Header(), answer.Header, "Content-Type", "Content-Length", "Mcp-Session-Id")
		w.WriteHeader(answer.StatusCode)
		buf := pool.Get()
		defer pool.Put(buf)
		// Fails only if the client has disconnected.
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{answer.Body}, buf)
	})
}

// pass copies header fields unmodified.
func pass(to, from http.Header, names ...string) {
	for _, name := range names {
		if v, ok := from[name]; ok {
			to[name] = v
		}
	}
}

// readAll reads a body, and returns it for a request with a content length.
func readAll(r *http.Request) (*bytes.Reader, error) {
	if r.ContentLength < 0 {
		return nil, errors.New("body without a content length")
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return bytes.NewReader(body), err
}
