// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A server that answers nothing costs a call the time of one handshake, with the probe
// included. Concurrent calls wait for the same handshake (fault 51).
func TestSilentServerCostsOneHandshake(t *testing.T) {
	silentHTTP := func(t *testing.T, cfg client.Config) *client.Client {
		hold := func(x *faultyserver.Exchange) { x.Hold() }
		return dialHTTP(t, &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"server/discover": hold, "initialize": hold}}, cfg)
	}
	silentLines := func(t *testing.T, cfg client.Config) *client.Client {
		mute := func(*faultyserver.Line) {}
		c, _ := dialLines(t, &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"server/discover": mute, "initialize": mute}}, cfg)
		return c
	}
	for name, dial := range map[string]func(*testing.T, client.Config) *client.Client{"http": silentHTTP, "lines": silentLines} {
		for _, bound := range []time.Duration{0, 6 * time.Second} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					c := dial(t, client.Config{Handshake: bound})
					if bound == 0 {
						bound = 30 * time.Second
					}
					began := time.Now()
					var calls []*running
					for range 3 {
						calls = append(calls, launch(t, c, echo(t), &recorder{}))
					}
					for _, call := range calls {
						<-call.done
						wantFault(t, call.err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "did not answer initialize within")
					}
					if took := time.Since(began); took > bound+time.Second || took < bound {
						t.Errorf("the calls took %v, want %v", took, bound)
					}
				})
			})
		}
	}
}

// A program that is not a server prints text and waits. The error contains that text,
// which explains it (fault 51).
func TestHungServerThatPrintsText(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		mute := func(*faultyserver.Line) {}
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"server/discover": func(x *faultyserver.Line) { x.Send("Welcome to \x1b[1mmy server") },
			"initialize":      mute,
		}}
		c, _ := dialLines(t, s, client.Config{})
		if got := c.OtherOutput(); got != "" {
			t.Errorf("before it has written: %s", got)
		}
		call := launch(t, c, echo(t), &recorder{})
		const want = `it wrote "Welcome to \x1b[1mmy server" to its output, which is not a message`
		synctest.Wait()
		if got := c.OtherOutput(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		<-call.done
		wantFault(t, call.err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "did not answer initialize within 30s (limits.handshake); "+want)
	})
}

// The probe's time is taken from the first handshake only. Once the server has
// answered, later sessions have the full time.
func TestTimeOfLaterHandshakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := 0 * time.Second
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"server/discover": func(*faultyserver.Line) {},
			"initialize": func(x *faultyserver.Line) {
				time.Sleep(slow)
				x.Polite()
			},
		}}
		c, _ := dialLines(t, s, client.Config{Handshake: 30 * time.Second})
		for _, slow = range []time.Duration{26 * time.Second, 29 * time.Second} {
			scope := mcp.NewScope("s", nil)
			res, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			scope.End()
			synctest.Wait()
		}
	})
}

// The error for endless headers names them, in either version of HTTP and without TLS.
func TestHeadersTooLong(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set("X-Many-"+strconv.Itoa(i), strings.Repeat("x", 80))
		}
		w.WriteHeader(http.StatusOK)
	})
	for _, http2 := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(h)
		srv.EnableHTTP2 = http2
		srv.StartTLS()
		t.Cleanup(srv.Close)
		pool := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert // httptest's type
		tr := &http.Transport{ForceAttemptHTTP2: http2, MaxResponseHeaderBytes: 4 << 10, TLSClientConfig: &tls.Config{RootCAs: pool}}
		t.Cleanup(tr.CloseIdleConnections)
		wantHeadersTooLong(t, srv.URL, tr)
	}
	plain := serve(t, h).HTTP1()
	plain.MaxHeaderBytes = 4 << 10
	wantHeadersTooLong(t, "http://backend.test/mcp", plain)
}

func wantHeadersTooLong(t *testing.T, url string, tr http.RoundTripper) {
	t.Helper()
	_, err := within(t, own(t, url, client.Config{Transport: tr, Version: mcp.V20260728}), echo(t), &recorder{})
	wantFault(t, err, mcp.CodeLimit, mcp.Unknown, "the headers of its answer are too long")
}
