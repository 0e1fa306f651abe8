// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// startsIn returns a backend with a tool x that delays its first answer.
func startsIn(slow time.Duration) *faultyserver.HTTP {
	ready := time.Now().Add(slow)
	s := gatewaytest.ServerWithTools(false, "x")
	s.On["initialize"] = func(x *faultyserver.Exchange) {
		select {
		case <-time.After(time.Until(ready)):
			x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"use x"}`)
		case <-x.R.Context().Done():
		}
	}
	s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[],"by":"x"}`)
	return s
}

// startingIn returns a gateway with backends b0, b1, ... that take these times to
// start.
func startingIn(t *testing.T, change func(*config.Config), slow ...time.Duration) *signalbox.Gateway {
	t.Helper()
	var cfg config.Config
	backends := make(map[string]http.Handler)
	for i, d := range slow {
		name := fmt.Sprintf("b%d", i)
		backends["/"+name] = startsIn(d)
		cfg.Servers = append(cfg.Servers, config.Backend{Name: name, URL: "http://backends.test/" + name, Era: "legacy"})
	}
	if change != nil {
		change(&cfg)
	}
	way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { backends[r.URL.Path].ServeHTTP(w, r) }))
	return gatewaytest.New(t, cfg, signalbox.Options{Transport: way})
}

// answered sends a request as a modern client, and returns the response and its
// duration.
func answered(t *testing.T, g *signalbox.Gateway, method, params string) (answer string, took time.Duration) {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: mcp.LatestModern}
	began := time.Now()
	res, err := g.Serve(t.Context(), req, nil)
	if err != nil {
		return err.Error(), time.Since(began)
	}
	return string(res.Bytes()), time.Since(began)
}

// A client that lists once, at the start, receives the tools of every backend, in the
// time of the slowest of them.
func TestFirstListHasAll(t *testing.T) {
	for _, slow := range [][]time.Duration{
		{0, 900 * time.Millisecond, 1700 * time.Millisecond},
		{3 * time.Second, 3200 * time.Millisecond},
		{0, 25 * time.Second, 9 * time.Second},
	} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startingIn(t, nil, slow...)
				var slowest time.Duration
				for _, d := range slow {
					slowest = max(slowest, d)
				}
				list, took := answered(t, g, "tools/list", "")
				if n := strings.Count(list, `"name"`); n != len(slow) || took > slowest*11/10 {
					t.Errorf("%d tools after %v, want %d within %v", n, took, len(slow), slowest*11/10)
				}
			})
		})
	}
}

// A backend that is starting is shown with the elapsed time.
func TestStartingBackendShowsElapsedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startingIn(t, nil, time.Hour)
		synctest.Wait()
		if b := g.Status().Backends[0]; b.State != "starting" || b.Reason != "" {
			t.Errorf("at once: %s, %q", b.State, b.Reason)
		}
		time.Sleep(7500 * time.Millisecond)
		if b := g.Status().Backends[0]; b.State != "starting" || b.Reason != "no response for 7s" {
			t.Errorf("after 7.5 s: %s, %q", b.State, b.Reason)
		}
	})
}

// A backend that does not answer is waited for until its start has taken
// limits.handshake, or for a list limits.firstList, and not at all after that.
func TestFrozenBackendIsWaitedForOnce(t *testing.T) {
	for _, tt := range []struct {
		firstList, list time.Duration
	}{{0, 20 * time.Second}, {time.Second, time.Second}} {
		t.Run(tt.firstList.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startingIn(t, func(cfg *config.Config) {
					cfg.Limits.Handshake, cfg.Limits.FirstList = 20*time.Second, tt.firstList
				}, 0, time.Hour)
				for _, want := range []time.Duration{tt.list, 0} {
					list, took := answered(t, g, "tools/list", "")
					if n := strings.Count(list, `"name"`); n != 1 || took != want {
						t.Errorf("%d tools after %v, want 1 after %v", n, took, want)
					}
				}
				if got, took := answered(t, g, "tools/call", `{"name":"b1__x"}`); !strings.Contains(got, "not sent") || took != 20*time.Second-tt.list {
					t.Errorf("a call to it: %s after %v, want that it was not sent after %v", got, took, 20*time.Second-tt.list)
				}
				if got, took := answered(t, g, "tools/call", `{"name":"b1__x"}`); !strings.Contains(got, "not sent") || took != 0 {
					t.Errorf("another: %s after %v, want the same at once", got, took)
				}
			})
		})
	}
}

// A backend that has failed is retried, and not waited for.
func TestFailedBackendIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusUnauthorized)
		}))
		cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://backends.test/b"}}}
		g := gatewaytest.New(t, cfg, signalbox.Options{Transport: way})
		for _, method := range []string{"tools/list", "server/discover", "tools/call"} {
			if got, took := answered(t, g, method, `{"name":"b__x"}`); took > 100*time.Millisecond {
				t.Errorf("%s: %s after %v", method, got, took)
			}
		}
	})
}

// A backend that a reload adds is waited for as after a start; the others are not.
func TestReloadedBackendIsWaitedFor(t *testing.T) {
	const slow = 5 * time.Second
	for method, want := range map[string]string{"tools/list": `"b1__x"`, "tools/call": `"by":"x"`} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all config.Config
				g := startingIn(t, func(cfg *config.Config) {
					all = *cfg
					cfg.Servers = cfg.Servers[:1]
				}, 0, slow)
				answered(t, g, "tools/list", "")
				if err := g.Reload(t.Context(), all); err != nil {
					t.Fatal(err)
				}
				if got, took := answered(t, g, "tools/call", `{"name":"b0__x"}`); took != 0 {
					t.Errorf("a call to the other: %s after %v", got, took)
				}
				if got, took := answered(t, g, method, `{"name":"b1__x"}`); !strings.Contains(got, want) || took != slow {
					t.Errorf("%s after %v, want %s after %v", got, took, want, slow)
				}
			})
		})
	}
}

// server/discover waits for instructions and capabilities, at most 3 s.
func TestDiscoverWaitsAMoment(t *testing.T) {
	for slow, want := range map[time.Duration]time.Duration{0: 0, 2 * time.Second: 2 * time.Second, time.Minute: 3 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startingIn(t, nil, slow)
				got, took := answered(t, g, "server/discover", "")
				if took != want || strings.Contains(got, "use x") != (slow == want) {
					t.Errorf("%s after %v, want it after %v", got, took, want)
				}
				if _, took := answered(t, g, "server/discover", ""); took != 0 {
					t.Errorf("another took %v", took)
				}
			})
		})
	}
}
