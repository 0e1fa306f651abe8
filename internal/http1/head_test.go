// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// recorded is a connection that records everything that is written to it, and responds
// after all bytes.
type recorded struct {
	*canned
	all  int          // minimum number of bytes before the response
	wire bytes.Buffer // owned by the writing goroutine until the response
	most atomic.Int64 // size of the largest write
}

// record returns a recorded connection, and a transport that sends one request on it.
func record() (*recorded, *http1.Transport) {
	r := &recorded{canned: newCanned([][]byte{[]byte(head("HTTP/1.1 204 No Content"))})}
	dial := func(context.Context, string, string) (net.Conn, error) { return r, nil }
	return r, &http1.Transport{Dial: dial, WriteTimeout: time.Minute, MaxHeaderBytes: maxHead}
}

// Write records p.
func (r *recorded) Write(p []byte) (int, error) {
	r.wire.Write(p)
	r.most.Store(max(r.most.Load(), int64(len(p))))
	if r.wire.Len() < r.all {
		return len(p), nil
	}
	return r.canned.Write(p)
}

// TryWrite records p.
func (r *recorded) TryWrite(p []byte) (int, error) { return r.Write(p) }

// post describes a request.
type post struct {
	method      string
	host, asked string // of the URL, and of the request if it differs
	path, query string
	force       bool // a question mark without a query
	header      http.Header
	body        string
	length      int64 // added to the length of the body
}

func (p *post) request(ctx context.Context) *http.Request {
	req := &http.Request{
		Method: p.method, URL: &url.URL{Scheme: "http", Host: p.host, Path: p.path, RawQuery: p.query, ForceQuery: p.force}, Host: p.asked,
		Header: p.header, ContentLength: int64(len(p.body)) + p.length,
	}
	if p.body != "" {
		req.Body = io.NopCloser(strings.NewReader(p.body))
	}
	return req.WithContext(ctx)
}

// wire returns the bytes that http1 and net/http send for a request. A failure adds the same
// text to both.
func (p *post) wire(ctx context.Context, t *testing.T) (ours, std string) {
	t.Helper()
	const failed = "an error"
	conn, by := record()
	_, err := read(by.RoundTrip(p.request(ctx)))
	if ours = conn.wire.String(); err != nil {
		ours += failed
	}
	var b bytes.Buffer
	if err := p.request(ctx).Write(&b); err != nil {
		return ours, failed
	}
	return ours, b.String()
}

// The bytes of a request are those of net/http, for any request.
func TestHeadsAreThoseOfNetHTTP(t *testing.T) {
	const at = "example.com:8080"
	many := http.Header{}
	for i := range 20 {
		many.Set(fmt.Sprintf("X-%d", 31*i%20), "x")
	}
	for _, tt := range []struct {
		name string
		post post
	}{
		{name: "plain", post: post{host: at, path: "/mcp", body: "{}"}},
		{name: "without a path", post: post{host: at, body: "{}"}},
		{name: "with a query", post: post{host: at, path: "/mcp", query: "a=b c&d", body: "{}"}},
		{name: "with a question mark alone", post: post{host: at, path: "/mcp", force: true, body: "{}"}},
		{name: "with a tab in the query", post: post{host: at, path: "/mcp", query: "a\tb", body: "{}"}},
		{name: "with an end of line in the query", post: post{host: at, path: "/mcp", query: "a\r\nb", body: "{}"}},
		{name: "with a path to be escaped", post: post{host: at, path: "/m\r\n ü%/x", body: "{}"}},
		{name: "of an address of IPv6", post: post{host: "[::1]:80", path: "/", body: "{}"}},
		{name: "of an address with a zone", post: post{host: "[fe80::1%25lo]:80", path: "/", body: "{}"}},
		{name: "of another host", post: post{host: at, asked: "other_one.example", path: "/", body: "{}"}},
		{name: "of an invalid host", post: post{host: at, asked: "no host/at all", path: "/", body: "{}"}},
		{name: "of a host with an umlaut", post: post{host: at, asked: "zwölf.example", path: "/", body: "{}"}},
		{name: "of a host with an end of line", post: post{host: at, asked: "a\r\nEvil: 1", path: "/", body: "{}"}},
		{name: "with headers", post: post{host: at, body: "{}", header: http.Header{
			"Mcp-Method": {"tools/call"}, "Accept": {"a", "b"}, "accept": {"c"}, "X-None": nil, "X-Empty": {""}, "X-Wide": {" \ta\tb "},
		}}},
		{name: "with headers that are fields of the request", post: post{host: at, body: "{}", header: http.Header{
			"Host": {"evil"}, "Content-Length": {"7"}, "content-length": {"8"}, "User-Agent": {" agent ", "b"},
		}}},
		{name: "with an empty agent", post: post{host: at, body: "{}", header: http.Header{"User-Agent": {""}}}},
		{name: "without an agent", post: post{host: at, body: "{}", header: http.Header{"User-Agent": nil}}},
		{name: "with a blank agent", post: post{host: at, body: "{}", header: http.Header{"User-Agent": {" "}}}},
		{name: "with many headers", post: post{host: at, body: "{}", header: many}},
		{name: "with a long header", post: post{host: at, body: "{}", header: http.Header{"X-Long": {large[:8<<10]}}}},
		{name: "without a body", post: post{host: at, path: "/"}},
		{name: "of another method", post: post{method: http.MethodPut, host: at, path: "/", body: "{}"}},
		{name: "with a body shorter than its length", post: post{host: at, path: "/", body: "{}", length: 1}},
		{name: "with a body longer than its length", post: post{host: at, path: "/", body: "{}", length: -1}},
		{name: "large", post: post{host: at, path: "/", body: large[:28<<10]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.post.method == "" {
				tt.post.method = http.MethodPost
			}
			ours, std := tt.post.wire(t.Context(), t)
			if diff := cmp.Diff(ours, std); diff != "" {
				t.Errorf("(-http1 +net/http):\n%s", diff)
			}
		})
	}
}

// A long head is written in pieces: each write has its own deadline.
func TestLongHeadIsWrittenInPieces(t *testing.T) {
	p := post{method: http.MethodPost, host: "example.com", path: "/", body: large[:40<<10], header: http.Header{"X-Long": {large[:40<<10]}}}
	conn, by := record()
	conn.all = 80 << 10
	if _, err := read(by.RoundTrip(p.request(t.Context()))); err != nil {
		t.Fatal(err)
	}
	if most := conn.most.Load(); most > 32<<10 {
		t.Errorf("%d bytes were written at once, want at most 32 KiB", most)
	}
}

// unclosable is a body that cannot be closed.
type unclosable struct{ io.Reader }

var errUnclosable = errors.New("it cannot be closed")

// Close fails.
func (unclosable) Close() error { return errUnclosable }

// If the body cannot be closed, it may be incomplete: nothing is sent.
func TestBodyCannotBeClosed(t *testing.T) {
	p := post{method: http.MethodPost, host: "example.com", path: "/", body: "{}"}
	req := p.request(t.Context())
	req.Body = unclosable{strings.NewReader("{}")}
	conn, by := record()
	if _, err := read(by.RoundTrip(req)); !errors.Is(err, errUnclosable) || conn.wire.Len() > 0 {
		t.Errorf("got %v, and %q was sent; want %v, and nothing", err, conn.wire.String(), errUnclosable)
	}
}

// The httptrace of a request is called.
func TestRequestIsTraced(t *testing.T) {
	var events []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { events = append(events, "connection") },
		WroteHeaderField: func(name string, _ []string) { events = append(events, name) },
		WroteRequest:     func(httptrace.WroteRequestInfo) { events = append(events, "request") },
	})
	p := post{method: http.MethodPost, host: "example.com", path: "/", body: "{}"}
	_, by := record()
	if _, err := read(by.RoundTrip(p.request(ctx))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, []string{"connection", "Host", "User-Agent", "Content-Length", "request"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// FuzzHead compares the bytes that are sent with those of net/http.
func FuzzHead(f *testing.F) {
	f.Add("example.com:80", "", "/mcp", "a=b", "Mcp-Name", "x", "Accept", "y", "agent", "{}")
	f.Add("[::1]", "other", "/ü", "\x7f", "accept", " x ", "Accept", "\ty", "", "body")
	f.Fuzz(func(t *testing.T, host, asked, path, query, name1, value1, name2, value2, agent, body string) {
		p := post{method: http.MethodPost, host: host, asked: asked, path: path, query: query, body: body,
			header: http.Header{name1: {value1, value2}, name2: {value2}, "User-Agent": {agent}}}
		if !http1.IsPlain(p.request(t.Context())) {
			return // net/http sends it
		}
		ours, std := p.wire(t.Context(), t)
		if isRefused(&p) {
			std = "an error" // net/http omits or changes the headers that http1 refuses
		}
		if diff := cmp.Diff(ours, std); diff != "" {
			t.Errorf("(-http1 +net/http):\n%s", diff)
		}
	})
}

// token matches the name of a header (RFC 9110, section 5.6.2).
var token = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// isRefused reports whether a header of the request cannot be expressed in HTTP.
func isRefused(p *post) bool {
	for name, values := range p.header {
		if !token.MatchString(name) {
			return true
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return true
			}
		}
	}
	return false
}
