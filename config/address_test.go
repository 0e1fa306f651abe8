// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"
)

// judged reports whether a Config is valid, and fails the test if a problem has another path.
func judged(t *testing.T, c Config, path string) bool {
	t.Helper()
	err := c.Validate()
	problems, _ := errors.AsType[Problems](err)
	for _, p := range problems {
		if p.Path != path {
			t.Errorf("%s: a problem of %s: %v", path, p.Path, p)
		}
	}
	return err == nil
}

// TestListenAddresses checks the form of listen addresses, with authentication.
func TestListenAddresses(t *testing.T) {
	auth := Auth{Tokens: []Token{{Principal: "p", Env: "T", Value: NewSecret("sesame-open-sesame")}}}
	tests := map[string]bool{
		"": true, "127.0.0.1:0": true, "127.0.0.1:65535": true, ":80": true, "0.0.0.0:80": true, "[::]:80": true, "[::1]:80": true,
		"[fe80::1%eth0]:80": true, "localhost:80": true, "mcp.example.com:443": true,
		"127.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:65536": false, "127.0.0.1:-1": false, "127.0.0.1:http": false, "::1:80": false,
		"[::1]": false, "::1": false, "7777": false, "http://127.0.0.1:80": false, "127.0.0.1:80/mcp": false, "127.0.0.1: 80": false,
		"127.0.0.1:+80": true, // accepted by strconv and by net
	}
	for listen, want := range tests {
		if got := judged(t, Config{Listen: listen, Auth: auth}, "listen"); got != want {
			t.Errorf("listen %q: sound %t, want %t", listen, got, want)
		}
	}
}

// TestEndpointPaths checks that only paths are accepted that no router, proxy or client
// rewrites and that the gateway does not use itself.
func TestEndpointPaths(t *testing.T) {
	tests := map[string]bool{
		"": true, "/": true, "/mcp": true, "/a/b/c": true, "/mcp.json": true, "/.well": true, "/größe": true, "/healthz/x": true, "/STATUS": true,
		"mcp": false, "/mcp/": false, "//mcp": false, "/a//b": false, "/./a": false, "/a/..": false, "/a/../b": false, "/a?b": false, "/a#b": false,
		"/a%20b": false, "/{id}": false, "/a b": false, "http://h/mcp": false, "?": false,
		"/healthz": false, "/readyz": false, "/status": false, "/metrics": false, "/sse": false,
		"/oauth": false, "/oauth/callback": false, "/oauth/x": false, "/oauthx": true, "/signin": false, "/signin/x": false, "/x/signin": true,
	}
	for path, want := range tests {
		if got := judged(t, Config{Path: path}, "path"); got != want {
			t.Errorf("path %q: sound %t, want %t", path, got, want)
		}
	}
}

// TestAllowedHosts checks the accepted values of allowedHosts. A value that no request can
// have would be misleading.
func TestAllowedHosts(t *testing.T) {
	tests := map[string]bool{
		"h": true, "mcp.example.com": true, "mcp.example.com:8443": true, "10.0.0.1": true, "10.0.0.1:80": true, "[2001:db8::1]": true,
		"[2001:db8::1]:80": true, "localhost": true, "H.Example.COM": true, "a_b": true, "xn--gre-6ka8i.example": true,
		"": false, "*": false, "*.example.com": false, "h/": false, "h/mcp": false, "http://h": false, "//h": false, "user@h": false, "h?x": false,
		"h#x": false, "a b": false, " h": false, "h:x": false, "2001:db8::1": false, "[2001:db8::1": false, "h,i": true,
	}
	for host, want := range tests {
		if got := judged(t, Config{AllowedHosts: []string{host}}, "allowedHosts[0]"); got != want {
			t.Errorf("allowedHosts %q: sound %t, want %t", host, got, want)
		}
	}
}

// TestAllowedOrigins checks the accepted values of allowedOrigins: scheme, host and port, and
// nothing that matches more than one site.
func TestAllowedOrigins(t *testing.T) {
	tests := map[string]bool{
		"https://app.example.com": true, "http://localhost:3000": true, "https://[2001:db8::1]:8443": true, "vscode-webview://abc": true,
		"chrome-extension://abcdef": true, "http://10.0.0.1": true,
		"": false, "*": false, "null": false, "https://*": false, "https://*.example.com": false, "https://app.example.com/": false,
		"https://app.example.com/x": false, "app.example.com": false, "https://": false, "https:app": false, "https://u@app.example.com": false,
		"https://app.example.com?x": false, "https://app.example.com#x": false, "//app.example.com": false, "HTTPS://app.example.com": false,
		"file://": false, " https://app.example.com": false,
	}
	for origin, want := range tests {
		if got := judged(t, Config{AllowedOrigins: []string{origin}}, "allowedOrigins[0]"); got != want {
			t.Errorf("allowedOrigins %q: sound %t, want %t", origin, got, want)
		}
	}
}

// TestAddressesOfServers checks the accepted URLs, and that no message shows a part of one, as
// it may contain a key.
func TestAddressesOfServers(t *testing.T) {
	tests := map[string]bool{
		"https://h": true, "http://h/": true, "https://h/mcp?key=hunter2": true, "https://h:8443/a/b": true, "http://127.0.0.1:1": true,
		"http://[::1]:80/mcp": true, "HTTPS://H/": true, "https://h/a%20b": true, "https://größe.example/": true, "http://h:65535": true,
		"h": false, "h/mcp": false, "hunter2": false, "ftp://h/": false, "ws://h/": false, "file:///hunter2": false, "https://": false, "https:///hunter2": false,
		"https://:80/": false, "https://h:0/": false, "https://h:65536/": false, "https://h:hunter2/": false, "https://hunter2@h/": false,
		"https://u:hunter2@h/": false, "https://h/#hunter2": false, "https://h/%zz": false, "http://[::1/": false, " https://h/": false,
		"https://h/\x01": false, "http://a b/": false,
	}
	for url, want := range tests {
		c := Config{Servers: []Backend{{Name: "a", URL: url}}}
		if got := judged(t, c, "mcpServers.a.url"); got != want {
			t.Errorf("url %q: sound %t, want %t", url, got, want)
		}
		if err := c.Validate(); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("url %q: %v", url, err)
		}
	}
}

// TestPrefixesOfServers checks which servers may have the same prefix, in every order.
func TestPrefixesOfServers(t *testing.T) {
	empty, own, other := "", "t_", "a__"
	tests := []struct {
		name string
		a, b *string
		want bool
	}{
		{"both their default", nil, nil, true},
		{"both empty", &empty, &empty, true},
		{"both the same", &own, &own, false},
		{"one the default of the other", nil, &other, false},
		{"one empty", &empty, &own, true},
		{"one of their own", nil, &own, true},
	}
	for _, tt := range tests {
		a, b := Backend{Name: "a", Command: "x", Prefix: tt.a}, Backend{Name: "b", Command: "x", Prefix: tt.b}
		for _, servers := range [][]Backend{{a, b}, {b, a}} {
			c := Config{Servers: servers}
			if got := c.Validate() == nil; got != tt.want {
				t.Errorf("%s, %s first: %v, want sound %t", tt.name, servers[0].Name, c.Validate(), tt.want)
			}
			c.Servers[0].Disabled = true
			if err := c.Validate(); err != nil {
				t.Errorf("%s, and %s is disabled: %v", tt.name, servers[0].Name, err)
			}
		}
	}
}
