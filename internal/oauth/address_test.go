// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// corpusEntry is a line of testdata/addresses.txt.
type corpusEntry struct {
	class string
	addr  netip.Addr
}

func corpus(t *testing.T) (entries []corpusEntry) {
	t.Helper()
	file, err := os.Open("testdata/addresses.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		class, addr, found := strings.Cut(lines.Text(), " ")
		if !found || class == "#" {
			continue
		}
		entries = append(entries, corpusEntry{class, netip.MustParseAddr(strings.TrimSpace(addr))})
	}
	if len(entries) < 200 {
		t.Fatalf("the corpus has %d addresses, fewer than 200", len(entries))
	}
	return entries
}

// I13, identity attack 19: each address has the class of its range, or of the address in it.
func TestAddresses(t *testing.T) {
	for _, e := range corpus(t) {
		want := e.class
		switch want {
		case "public":
			want = ""
		case "shared":
			want = "shared (RFC 6598)"
		}
		if got := oauth.ClassOf(e.addr); got != want {
			t.Errorf("the class of %s is %q, want %q", e.addr, got, want)
		}
	}
}

// canary is a listener that counts connections.
type canary struct {
	net.Listener
	connections atomic.Int32
}

// newCanary listens, and fails the test if there was a connection at its end.
func newCanary(t *testing.T, ln net.Listener) *canary {
	c := &canary{Listener: ln}
	done := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.connections.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
		if n := c.connections.Load(); n != 0 {
			t.Errorf("the canary has %d connections", n)
		}
	})
	return c
}

// loopbackListeners returns a listener on 127.0.0.1, and one on ::1 where there is IPv6.
func loopbackListeners(t *testing.T) []net.Listener {
	v4, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listeners := []net.Listener{v4}
	if v6, err := net.Listen("tcp", "[::1]:0"); err == nil {
		listeners = append(listeners, v6)
	}
	t.Cleanup(func() {
		for _, ln := range listeners {
			_ = ln.Close()
		}
	})
	return listeners
}

func (c *canary) port() string {
	_, port, _ := net.SplitHostPort(c.Addr().String())
	return port
}

// I13, identity attack 19: nothing is sent to an address of the corpus that is not public,
// neither as it is in a URL nor when a name resolves to it. The canary listens where some
// of them lead.
func TestCanary(t *testing.T) {
	dns, resolver := newNames(t)
	c := newClient(t, oauth.Config{Backend: "https://mcp.example.com/mcp", Resolver: resolver})
	dns.set("mcp.example.com", addrs("93.184.215.14"))
	for _, ln := range loopbackListeners(t) {
		t.Run(ln.Addr().String(), func(t *testing.T) {
			port := newCanary(t, ln).port()
			for _, e := range corpus(t) {
				if e.class == "public" {
					if err := c.CheckAddr(t.Context(), e.addr); err != nil {
						t.Errorf("%s: %v", e.addr, err)
					}
					continue
				}
				dns.set("as.example.com", []netip.Addr{e.addr.WithZone("")})
				for _, host := range []string{e.addr.WithZone("").String(), "as.example.com"} {
					issuer := "https://" + net.JoinHostPort(host, port)
					_, err := c.Server(t.Context(), issuer, true)
					wantCheck(t, err, oauth.CheckAddress)
				}
			}
		})
	}
}

// Forms of 127.0.0.1 that some resolvers know, and a name that has a public address beside
// it or changes its address after the first question (rebinding).
func TestCanaryBehindNames(t *testing.T) {
	dns, resolver := newNames(t)
	c := newClient(t, oauth.Config{Backend: "https://mcp.example.com/mcp", Resolver: resolver})
	dns.set("mcp.example.com", addrs("93.184.215.14"))
	port := newCanary(t, loopbackListeners(t)[0]).port()
	for _, host := range []string{"localhost", "a.localhost", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "ⓛocalhost"} {
		dns.set(host, addrs("127.0.0.1"))
		dns.set(strings.ToLower(host), addrs("127.0.0.1"))
		if _, err := c.Server(t.Context(), "https://"+host+":"+port, true); err == nil || oauth.IsTemporary(err) && !strings.Contains(err.Error(), "no such host") {
			t.Errorf("%s: %v", host, err)
		}
	}
	dns.set("rebind.example.com", addrs("192.0.2.1"), addrs("127.0.0.1"))
	_, err := c.Server(t.Context(), "https://[fe80::1%25eth0]:"+port, true)
	wantCheck(t, err, oauth.CheckEndpoint)
	for range 2 {
		_, err := c.Server(t.Context(), "https://rebind.example.com:"+port, true)
		wantCheck(t, err, oauth.CheckAddress)
	}
	dns.set("both.example.com", addrs("127.0.0.1", "::1", "169.254.169.254"))
	_, err = c.Server(t.Context(), "https://both.example.com:"+port, true)
	failed := failedCheck(t, err, oauth.CheckAddress)
	if !strings.Contains(failed.Error(), "oauth.issuer") {
		t.Errorf("the error does not name the cure: %v", failed)
	}
}

// What lifts the check: the class of the backend's own address, and a pinned issuer.
func TestAddressesAllowed(t *testing.T) {
	dns, resolver := newNames(t)
	dns.set("public.example.com", addrs("93.184.215.14"))
	dns.set("crm.internal", addrs("10.0.0.5", "fd00::5"))
	dns.set("half.internal", addrs("10.0.0.5", "93.184.215.14"))
	dns.set("tail.internal", addrs("100.64.0.5"))
	dns.set("here.internal", addrs("127.0.0.1"))
	dns.set("link.internal", addrs("169.254.1.1"))
	tests := map[string]struct {
		backend, addr string
		want          bool
	}{
		"private from private":                     {"https://crm.internal/mcp", "10.9.9.9", true},
		"another private range":                    {"https://crm.internal/mcp", "192.168.1.1", true},
		"private in NAT64 from private":            {"https://crm.internal/mcp", "64:ff9b::a00:1", true},
		"loopback from private":                    {"https://crm.internal/mcp", "127.0.0.1", false},
		"link-local from private":                  {"https://crm.internal/mcp", "169.254.169.254", false},
		"shared from private":                      {"https://crm.internal/mcp", "100.64.0.9", false},
		"private from an address":                  {"https://10.0.0.5/mcp", "10.9.9.9", true},
		"private from public":                      {"https://public.example.com/mcp", "10.9.9.9", false},
		"private from a backend that is both":      {"https://half.internal/mcp", "10.9.9.9", false},
		"private from an unknown name":             {"https://unknown.internal/mcp", "10.9.9.9", false},
		"shared from shared":                       {"https://tail.internal/mcp", "100.64.0.9", true},
		"private from shared":                      {"https://tail.internal/mcp", "10.9.9.9", false},
		"loopback from loopback":                   {"http://127.0.0.1/mcp", "127.0.0.2", true},
		"IPv6 loopback from localhost":             {"http://localhost:1/mcp", "::1", true},
		"private from loopback":                    {"http://localhost:1/mcp", "10.0.0.1", false},
		"loopback from a name that resolves to it": {"https://here.internal/mcp", "127.0.0.1", false},
		"link-local from a name":                   {"https://link.internal/mcp", "169.254.169.254", false},
		"link-local from an address":               {"https://169.254.1.1/mcp", "169.254.169.254", true},
		"unspecified from loopback":                {"http://127.0.0.1/mcp", "0.0.0.0", false},
		"multicast from private":                   {"https://crm.internal/mcp", "239.1.1.1", false},
		"public from private":                      {"https://crm.internal/mcp", "8.8.8.8", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, oauth.Config{Backend: tt.backend, Resolver: resolver})
			err := c.CheckAddr(t.Context(), netip.MustParseAddr(tt.addr))
			if tt.want && err != nil {
				t.Error(err)
			}
			if !tt.want {
				wantCheck(t, err, oauth.CheckAddress)
			}
		})
	}
}

// Identity attack 19: a pinned issuer may have any address, its endpoints included, and
// nothing else may: not the metadata that the backend names.
func TestPinnedIssuerMayBePrivate(t *testing.T) {
	dns, resolver := newNames(t)
	dns.set("mcp.example.com", addrs("93.184.215.14"))
	dns.set("as.example.com", addrs("127.0.0.1"))
	as := newTLSPeer(t)
	_, port, _ := net.SplitHostPort(as.Listener.Addr().String())
	issuer := "https://as.example.com:" + port
	as.answer(wellKnownServer, 200, metadata(issuer))
	roots := as.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs

	free := newClient(t, oauth.Config{Backend: "https://mcp.example.com/mcp", Resolver: resolver, RootCAs: roots})
	_, err := free.Server(t.Context(), issuer, true)
	wantCheck(t, err, oauth.CheckAddress)
	if n := len(as.received()); n != 0 {
		t.Fatalf("%d requests were sent", n)
	}

	pinned := newClient(t, oauth.Config{Backend: "https://mcp.example.com/mcp", Issuer: issuer, Resolver: resolver, RootCAs: roots})
	s, err := pinned.Server(t.Context(), issuer, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := issuer + "/token"; s.TokenEndpoint != want {
		t.Errorf("the token endpoint is %q, want %q", s.TokenEndpoint, want)
	}
	_, err = pinned.Discover(t.Context(), oauth.DiscoverOptions{Challenge: oauth.Bearer{ResourceMetadata: issuer + "/elsewhere"}})
	wantCheck(t, err, oauth.CheckAddress)
	_, err = pinned.Server(t.Context(), issuer+"/other", true)
	wantCheck(t, err, oauth.CheckAddress)
}

// The variable of a proxy may have a password, and is not in an error.
func TestInvalidProxy(t *testing.T) {
	c := newClient(t, oauth.Config{
		Backend: "https://mcp.example.com/mcp",
		Proxy:   func(*http.Request) (*url.URL, error) { return nil, errors.New("invalid proxy address \"u:canary@:x\"") },
	})
	_, err := c.Server(t.Context(), "https://as.example.com", true)
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "HTTPS_PROXY") {
		t.Errorf("the error is %v", err)
	}
}

// With a proxy, names are for the proxy, and addresses are still checked here. The proxy
// of the operator may have any address.
func TestProxy(t *testing.T) {
	proxy := newPeer(t)
	via, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	dns, resolver := newNames(t)
	dns.set("mcp.example.com", addrs("93.184.215.14"))
	dns.set("inside.example.com", addrs("10.0.0.1"))
	c := newClient(t, oauth.Config{
		Backend: "https://mcp.example.com/mcp", Resolver: resolver,
		Proxy: func(*http.Request) (*url.URL, error) { return via, nil },
	})
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254", "localhost", "127.1", "0x7f.0x1", "2130706433", "0177.0.0.1."} {
		_, err := c.Server(t.Context(), "https://"+host, true)
		wantCheck(t, err, oauth.CheckAddress)
	}
	for _, host := range []string{"１６９.２５４.１６９.２５４", "127。0。0。1", "①②⑦.0.0.1", "ｌocalhost"} { // net/http would send them in ASCII
		_, err := c.Server(t.Context(), "https://"+host, true)
		wantCheck(t, err, oauth.CheckEndpoint)
	}
	if paths := proxy.paths(); paths != nil {
		t.Fatalf("the proxy was asked for %q", paths)
	}
	if _, err := c.Server(t.Context(), "https://inside.example.com", true); !oauth.IsTemporary(err) {
		t.Errorf("the error is %v, want that the proxy has refused", err)
	}
	if got := proxy.last(); got.method != http.MethodConnect {
		t.Errorf("the proxy was sent %s %s", got.method, got.path)
	}
}
