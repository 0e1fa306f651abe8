// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// own returns a client that makes its own transport. It ends with the test.
func own(t *testing.T, url string, cfg client.Config) *client.Client {
	t.Helper()
	cfg.Name = "b"
	c := client.NewHTTP(url, cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// Over real connections, with the client's own transport: a server that is available
// answers, and each kind of unavailability has its own error text (faults 54 and 55).
func TestOwnTransport(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(&faultyserver.HTTP{Modern: true})
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(&faultyserver.HTTP{Modern: true})
	secure.Config.ErrorLog = discardLog()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	silent := listenTCP(t) // accepts nothing, so that no TLS handshake is answered
	gone := listenTCP(t)
	gone.Close()
	for _, tt := range []struct {
		name, url, text string
		connect         time.Duration
	}{
		{"there", plain.URL, "", 0},
		{"nobody listens", "http://" + gone.Addr().String(), "connection refused", 0},
		{"unknown authority", secure.URL, "is signed by an unknown authority", 0},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), "it does not speak TLS", 0},
		{"no answer to TLS", "https://" + silent.Addr().String(), "no connection in time (limits.connect)", 50 * time.Millisecond},
		{"no such scheme", "gopher://127.0.0.1/", "no connection", 0},
		{"no URL", "http://%zz/", "its URL is not usable", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // each waits between its attempts
			began := time.Now()
			res, err := within(t, own(t, tt.url, client.Config{Connect: tt.connect}), echo(t), &recorder{})
			if tt.text == "" {
				wantResult(t, res, err, `{"content":[]}`)
				return
			}
			wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, tt.text)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("after %v", took)
			}
		})
	}
}

// The error for a certificate of another host names the requested host.
func TestCertificateOfAnotherHost(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(&faultyserver.HTTP{Modern: true})
	srv.Config.ErrorLog = discardLog()
	srv.StartTLS()
	defer srv.Close()
	tr := srv.Client().Transport.(*http.Transport).Clone() //nolint:forcetypeassert // httptest's type
	tr.TLSClientConfig = &tls.Config{RootCAs: tr.TLSClientConfig.RootCAs, ServerName: "elsewhere.test"}
	_, err := within(t, own(t, srv.URL, client.Config{Transport: tr}), echo(t), &recorder{})
	wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, `is for another host than "elsewhere.test"`)
}

// A server that accepts a connection and reads nothing of a large message fails the
// request after the write deadline. It may have received a part of it, unless already
// the headers did not fit.
func TestServerThatReadsNothing(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 8<<20)
	for _, tt := range []struct {
		name, params string
		code         int64
		outcome      mcp.Outcome
	}{
		{"message", `{"name":"q","arguments":{"a":"` + large + `"}}`, mcp.CodeBackendFailed, mcp.Unknown},
		{"headers", `{"name":"` + large + `"}`, mcp.CodeBackendUnavailable, mcp.NotDispatched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // each waits for the deadline
			ln := listenTCP(t)
			c := own(t, "http://"+ln.Addr().String(), client.Config{Write: 50 * time.Millisecond, Version: mcp.V20260728})
			_, err := within(t, c, request(t, "tools/call", tt.params), &recorder{})
			wantFault(t, err, tt.code, tt.outcome, "the connection broke")
		})
	}
}
