// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// small is the body of a call and of its response.
var small = []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)

// caller repeats a small call. Its server does not allocate, so all allocations are those of
// the client.
type caller struct {
	tb   testing.TB
	by   http.RoundTripper
	form *http.Request
	body bytes.Reader
	in   []byte
}

func newCaller(tb testing.TB, choose func(dialing) http.RoundTripper) *caller {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { answerSmall(conn) }) // ends with the connection
		}
	})
	c := &caller{tb: tb, by: choose(new(net.Dialer).DialContext), in: make([]byte, 1<<10)}
	c.form, err = http.NewRequest(http.MethodPost, "http://"+ln.Addr().String()+"/mcp", nil)
	if err != nil {
		tb.Fatal(err)
	}
	c.form.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	c.form.Body, c.form.ContentLength = c, int64(len(small))
	tb.Cleanup(func() {
		c.by.(interface{ CloseIdleConnections() }).CloseIdleConnections() //nolint:forcetypeassert // both have it
		_ = ln.Close()
		all.Wait()
	})
	return c
}

// answerSmall responds to everything that ends like a call.
func answerSmall(conn net.Conn) {
	defer conn.Close()
	reply := []byte(answer(string(small)))
	for buf, n := make([]byte, 4<<10), 0; ; {
		m, err := conn.Read(buf[n:])
		if err != nil {
			return
		}
		if n += m; bytes.HasSuffix(buf[:n], small) {
			_, _ = conn.Write(reply)
			n = 0
		}
	}
}

// Read implements the request's body, which is the caller itself.
func (c *caller) Read(p []byte) (int, error) { return c.body.Read(p) }

// Close implements the request's body.
func (c *caller) Close() error { return nil }

func (c *caller) call() {
	c.body.Reset(small)
	resp, err := c.by.RoundTrip(c.form)
	if err != nil {
		c.tb.Fatal(err)
	}
	n := 0
	for err == nil {
		var m int
		m, err = resp.Body.Read(c.in[n:])
		n += m
	}
	_ = resp.Body.Close()
	if err != io.EOF || n != len(small) { //nolint:errorlint // as io.Reader requires
		c.tb.Fatalf("%d bytes, %v", n, err)
	}
}

type dialing = func(context.Context, string, string) (net.Conn, error)

func byHTTP1(dial dialing) http.RoundTripper {
	return &http1.Transport{Dial: dial, WriteTimeout: time.Minute, MaxHeaderBytes: maxHead, MaxIdle: 8, IdleTimeout: time.Minute}
}

func byNetHTTP(dial dialing) http.RoundTripper {
	return &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHead, DisableCompression: true}
}

func BenchmarkCall(b *testing.B) {
	for name, choose := range map[string]func(dialing) http.RoundTripper{"http1": byHTTP1, "net/http": byNetHTTP} {
		b.Run(name, func(b *testing.B) {
			c := newCaller(b, choose)
			c.call()
			b.ReportAllocs()
			for b.Loop() {
				c.call()
			}
		})
	}
}

// A call allocates less than a third of what it does with net/http's transport: what that
// package allocates for a response, and three more. These are the exchange, and two for its
// end with the context. With the race detector, pools
// drop some of their items.
func TestCallAllocatesLittle(t *testing.T) {
	allocs := func(choose func(dialing) http.RoundTripper) float64 {
		c := newCaller(t, choose)
		c.call()
		return testing.AllocsPerRun(1000, c.call)
	}
	if got, of := allocs(byHTTP1), allocs(byNetHTTP); got > of-28 {
		t.Errorf("%v allocations, and net/http has %v; want at least 28 fewer", got, of)
	}
}
