// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tap is a reverse proxy between two programs of a test. It records what passes, and
// may change or refuse it.
package tap

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Tap is a running proxy. Its fields must be set before the first request, its methods may
// be called concurrently.
type Tap struct {
	// URL is the proxy's, of the form http://127.0.0.1:PORT.
	URL string

	// KeepHost is whether a server sees the headers Host and Origin as the client sent them.
	// Otherwise the port of the proxy in them is replaced by that of the server.
	KeepHost bool

	// Change may change a request before it is sent. If it is nil, nothing is changed.
	Change func(*http.Request)

	server *httptest.Server
	mu     sync.Mutex
	fault  Fault
	target *url.URL
	passed []*Exchange
}

// Exchange is one request and its response.
type Exchange struct {
	Method, Path string
	Query        url.Values
	Header       http.Header // as it was sent to the server
	Body         string

	// Status is 0 while there is no response. Of a response that has not ended, Response is
	// what has passed.
	Status         int
	ResponseHeader http.Header
	Response       string
}

// Form returns the body as the fields of a form.
func (e *Exchange) Form() url.Values {
	v, _ := url.ParseQuery(e.Body) // what is no form has none of the fields
	return v
}

// New starts a proxy that ends with the test. It has no server before To.
func New(t testing.TB) *Tap {
	t.Helper()
	p := new(Tap)
	proxy := &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: p.respond,
		FlushInterval:  -1,
		// A client that leaves is no error of a test.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault != nil && fault(w, r) {
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.URL = p.server.URL
	return p
}

// Before starts a proxy before a server. The path of the address is that of the server, and
// not of the proxy: a request has the path that its client sent.
func Before(t testing.TB, address string) *Tap {
	t.Helper()
	p := New(t)
	p.To(t, address)
	return p
}

// To sets the server, for all requests from now on.
func (p *Tap) To(t testing.TB, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u
}

// Fault may answer a request in place of the server, and then returns true. It is called
// concurrently.
type Fault func(http.ResponseWriter, *http.Request) bool

// Fail sets the fault of all requests from now on. If it is nil, the server answers all.
func (p *Tap) Fail(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

type exchangeKey struct{}

func (p *Tap) rewrite(r *httputil.ProxyRequest) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
	r.Out.Host = r.In.Host
	if !p.KeepHost {
		r.Out.Host = p.translate(r.In.Host, target)
		if scheme, host, ok := strings.Cut(r.In.Header.Get("Origin"), "://"); ok {
			r.Out.Header.Set("Origin", scheme+"://"+p.translate(host, target))
		}
	}
	if p.Change != nil {
		p.Change(r.Out)
	}
	body, err := io.ReadAll(r.In.Body)
	if err == nil {
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
	}
	e := &Exchange{
		Method: r.Out.Method, Path: r.Out.URL.Path, Query: r.Out.URL.Query(), Header: r.Out.Header.Clone(), Body: string(body),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed = append(p.passed, e)
	r.Out = r.Out.WithContext(contextWith(r.Out.Context(), e))
}

// translate replaces the port of the proxy in the address of this machine.
func (p *Tap) translate(host string, target *url.URL) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil || !strings.HasSuffix(p.URL, ":"+port) || name != "127.0.0.1" && name != "localhost" && name != "::1" {
		return host
	}
	return net.JoinHostPort(name, target.Port())
}

func (p *Tap) respond(res *http.Response) error {
	e := exchangeOf(res.Request.Context())
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Status, e.ResponseHeader = res.StatusCode, res.Header.Clone()
	res.Body = &recorded{ReadCloser: res.Body, tap: p, to: e}
	return nil
}

// recorded is a body that adds what is read of it to an exchange.
type recorded struct {
	io.ReadCloser

	tap *Tap
	to  *Exchange
}

func (r *recorded) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.tap.mu.Lock()
	defer r.tap.mu.Unlock()
	r.to.Response += string(b[:n])
	return n, err
}

// Passed returns copies of the exchanges, in the order of the requests.
func (p *Tap) Passed() []Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Exchange, len(p.passed))
	for i, e := range p.passed {
		all[i] = *e
	}
	return all
}
