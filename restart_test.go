// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A restart lets a call in progress end, and its lists stay offered meanwhile. A call that
// has not ended within drain.timeout is cancelled, and its outcome is unknown.
func TestRestartLetsCallsEnd(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  string
	}{{5 * time.Second, `"content"`}, {time.Minute, `"outcome":"unknown"`}} {
		synctest.Test(t, func(t *testing.T) {
			s := gatewaytest.ServerWithTools(true, "x")
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				time.Sleep(tt.takes)
				x.Result(`{"resultType":"complete","content":[]}`)
			}
			h := gatewaytest.Backends{"b": s}.Open(t, func(cfg *config.Config) { cfg.Drain.Timeout = 10 * time.Second })
			body, header := gatewaytest.ModernRequest("1", "tools/call", "b__x", "")
			inFlight := h.Async(body, header)
			time.Sleep(time.Second)
			b, err := h.G.RestartBackend(t.Context(), "b")
			if err != nil || b.State != "live" || b.Tools != 1 {
				t.Errorf("after the restart: %+v, %v", b, err)
			}
			if got := h.PostModern("2", "tools/list", "", "").Body; !strings.Contains(got, `"b__x"`) {
				t.Errorf("listed: %s", got)
			}
			if got := <-inFlight; !strings.Contains(got.Body, tt.want) {
				t.Errorf("a call that takes %v has the response %s", tt.takes, got.Body)
			}
			time.Sleep(tt.takes) // the server ends
		})
	}
}

// A backend that has failed is reached at once after a retry, and the state that is
// returned is that after it.
func TestRetryReachesABackendNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		s := gatewaytest.ServerWithTools(true, "x")
		h := gatewaytest.Backends{"b": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				http.Error(w, "not now", http.StatusBadGateway)
				return
			}
			s.ServeHTTP(w, r)
		})}.Open(t, nil)
		time.Sleep(time.Hour) // the attempts are far apart now
		began := time.Now()
		if b, err := h.G.RetryBackend(t.Context(), "b"); err != nil || b.State != "down" || b.Reason == "" {
			t.Errorf("it is %+v, %v while it is broken", b, err)
		}
		broken.Store(false)
		b, err := h.G.RetryBackend(t.Context(), "b")
		if err != nil || b.State != "live" || b.Tools != 1 {
			t.Errorf("it is %+v, %v when it works", b, err)
		}
		if b, err := h.G.RetryBackend(t.Context(), "b"); err != nil || b.State != "live" {
			t.Errorf("it is %+v, %v when it is live", b, err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("three retries took %v", d)
		}
		if _, err := h.G.RetryBackend(t.Context(), "c"); !errors.Is(err, signalbox.ErrNoBackend) {
			t.Errorf("unknown name: %v", err)
		}
		if _, err := h.G.StopBackend("b"); err == nil {
			t.Error("a backend on HTTP was stopped")
		}
	})
}

// A gateway with the folder of an earlier one offers the lists of that one before its
// backends have answered, also those for a set of capabilities. No file contains a secret.
func TestListsAreKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "lists")
	open := func(t *testing.T, h http.Handler) *gatewaytest.Gateway {
		cfg := config.Config{Servers: []config.Backend{{
			Name: "b", URL: "http://b/mcp", Headers: map[string]config.Secret{"Authorization": config.NewSecret("Bearer very-secret")},
		}}}
		return gatewaytest.Open(t, cfg, signalbox.Options{
			Transport: gatewaytest.ServeBackends(t, h), ListsFolder: folder,
		})
	}
	s := gatewaytest.ServerWithTools(true, "x", "y")
	synctest.Test(t, func(t *testing.T) {
		h := open(t, s)
		if got := h.PostModern("1", "tools/list", "", "").Body; !strings.Contains(got, `"b__y"`) {
			t.Fatal(got)
		}
		if b := h.G.Status().Backends[0]; b.State != "live" {
			t.Errorf("the state is %q", b.State)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		silent.Store(true)
		later := gatewaytest.ServerWithTools(true, "x", "z")
		h := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for silent.Load() && r.Context().Err() == nil {
				time.Sleep(time.Second)
			}
			later.ServeHTTP(w, r)
		}))
		began := time.Now()
		if got := h.PostModern("1", "tools/list", "", "").Body; !strings.Contains(got, `"b__y"`) || !strings.Contains(got, `"b__x"`) {
			t.Errorf("listed at the start: %s", got)
		}
		if b := h.G.Status().Backends[0]; b.State != "kept" || b.Tools != 2 || time.Since(began) > time.Second {
			t.Errorf("after %v it is %+v", time.Since(began), b)
		}
		silent.Store(false)
		time.Sleep(5 * time.Second)
		if b := h.G.Status().Backends[0]; b.State != "live" {
			t.Errorf("later it is %+v", b)
		}
		if got := h.PostModern("2", "tools/list", "", "").Body; strings.Contains(got, `"b__y"`) || !strings.Contains(got, `"b__z"`) {
			t.Errorf("listed later: %s", got)
		}
	})
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 2 { // for all clients, and for those without capabilities
		t.Errorf("the folder has %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), "secret") || strings.Contains(file, "secret") {
			t.Errorf("%s: %v: %s", file, err, text)
		}
	}
}

// Of two restarts at once, both return the state after the later one.
func TestTwoRestartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true, "x")
		answer := s.On["tools/list"]
		s.On["tools/list"] = func(x *faultyserver.Exchange) {
			time.Sleep(time.Second)
			answer(x)
		}
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		time.Sleep(time.Minute)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 400 * time.Millisecond) // during the one before
				b, err := h.G.RestartBackend(t.Context(), "b")
				if err != nil || b.State != "live" || b.Tools != 1 || b.Reason != "" {
					t.Errorf("restart %d: %+v, %v", i, b, err)
				}
			})
		}
		began := time.Now()
		all.Wait()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the restarts took %v", d)
		}
	})
}
