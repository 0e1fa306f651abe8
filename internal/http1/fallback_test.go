// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
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
