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

// transport keeps as many connections as a gateway keeps towards a backend, and has
// answers pass as they come.
func transport() *http.Transport {
	return &http.Transport{
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// Proxy is [httputil.ReverseProxy] in front of a backend: the yardstick. It is as
// good as it can be had without code of its own: it keeps its connections and uses
// its buffers again. It reaches the backend in as many ways, each with connections of
// its own, as if they were so many, and takes them in turns.
func Proxy(backend *url.URL, ways int, logger *slog.Logger) http.Handler {
	p := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = backend, "" },
		Transport:  newTurns(ways),
		BufferPool: &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}},
		ErrorLog:   slog.NewLogLogger(logger.Handler(), slog.LevelError),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The backend may have answered before the proxy has seen the end of the
		// request. Without this net/http then closes the connection with the answer
		// still on its way, and some answers are cut off.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			logger.ErrorContext(r.Context(), "no full duplex", slog.Any("error", err))
		}
		p.ServeHTTP(w, r)
	})
}

// turns is a RoundTripper that has requests go by one transport after the other.
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

// bufferSize is what ReverseProxy copies at a time without a pool, too.
const bufferSize = 32 << 10

// buffers is a [httputil.BufferPool].
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return b.pool.Get().(*[bufferSize]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }

// Hop is the least that any program on net/http does for a call: it reads the request,
// sends it on, and passes the answer back. What a gateway allocates beyond that is
// its own.
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
		// A client that has gone away has nobody to be told.
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{answer.Body}, buf)
	})
}

// pass takes header fields over as they are.
func pass(to, from http.Header, names ...string) {
	for _, name := range names {
		if v, ok := from[name]; ok {
			to[name] = v
		}
	}
}

// readAll reads a body, and returns it for a request that can be sent with its length.
func readAll(r *http.Request) (*bytes.Reader, error) {
	if r.ContentLength < 0 {
		return nil, errors.New("a body that does not say how long it is")
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return bytes.NewReader(body), err
}
