// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

var (
	errPlain = errors.New("plain")
	errOther = errors.New("other")
	errProxy = errors.New("no proxy can be had")
)

// A plain request is made here. One that needs TLS or a proxy, or that sets how it is to be
// sent, is made by net/http.
func TestTransportOfRequests(t *testing.T) {
	proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.test"})
	wrong := func(*http.Request) (*url.URL, error) { return nil, errProxy }
	for _, tt := range []struct {
		name, url string
		header    http.Header
		proxy     func(*http.Request) (*url.URL, error)
		want      error
	}{
		{"plain", "http://b.test/mcp", nil, http.ProxyURL(nil), errPlain},
		{"plain without proxies", "http://b.test/mcp", nil, nil, errPlain},
		{"TLS", "https://b.test/mcp", nil, http.ProxyURL(nil), errOther},
		{"proxy", "http://b.test/mcp", nil, proxy, errOther},
		{"proxy and TLS", "https://b.test/mcp", nil, proxy, errOther},
		{"no such proxy", "http://b.test/mcp", nil, wrong, errProxy},
		{"header", "http://b.test/mcp", http.Header{"Expect": {"100-continue"}}, http.ProxyURL(nil), errOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := &Transport{Proxy: tt.proxy, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errPlain }}
			tr.std().DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errOther }
			for method, body := range map[string]string{http.MethodPost: "message", http.MethodGet: ""} {
				req, err := http.NewRequestWithContext(t.Context(), method, tt.url, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				maps.Copy(req.Header, tt.header)
				if resp, err := tr.RoundTrip(req); resp != nil || !errors.Is(err, tt.want) {
					t.Errorf("%s: got %v, want %v", method, err, tt.want)
				}
			}
		})
	}
}

// CloseIdleConnections closes the idle connections of net/http, too.
func TestIdleConnectionsOfNetHTTP(t *testing.T) {
	closed := make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	tr := &Transport{Dial: new(net.Dialer).DialContext, WriteTimeout: time.Minute, MaxHeaderBytes: 1 << 20, MaxIdle: 1, IdleTimeout: time.Minute}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, io.NopCloser(strings.NewReader("of any length")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "of any length" || err != nil {
		t.Errorf("the answer is %q, %v", got, err)
	}
	select {
	case <-closed:
		t.Fatal("the connection is not kept")
	default:
	}
	tr.CloseIdleConnections()
	<-closed
}
