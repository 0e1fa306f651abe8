// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// lister is a backend with a tool x, a prompt p and a resource. It delays its lists.
func lister(name string, slow time.Duration) *faultyserver.HTTP {
	list := func(text string) func(*faultyserver.Exchange) {
		return func(x *faultyserver.Exchange) {
			if slow > 0 {
				select {
				case <-time.After(slow):
				case <-x.R.Context().Done(): // the gateway has closed
				}
			}
			x.Result(text)
		}
	}
	return &faultyserver.HTTP{Sessions: true, Capabilities: `{"tools":{},"prompts":{},"resources":{}}`, On: map[string]func(*faultyserver.Exchange){
		"tools/list":               list(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`),
		"prompts/list":             list(`{"prompts":[{"name":"p"}]}`),
		"resources/list":           list(fmt.Sprintf(`{"resources":[{"uri":"%s://listed","name":"r"}]}`, name)),
		"resources/templates/list": list(fmt.Sprintf(`{"resourceTemplates":[{"uriTemplate":"%s://{id}","name":"t"}]}`, name)),
		"tools/call":               func(x *faultyserver.Exchange) { x.Result(fmt.Sprintf(`{"content":[],"by":%q}`, name)) },
		"prompts/get":              func(x *faultyserver.Exchange) { x.Result(fmt.Sprintf(`{"messages":[],"by":%q}`, name)) },
		"resources/read":           func(x *faultyserver.Exchange) { x.Result(fmt.Sprintf(`{"contents":[],"by":%q}`, name)) },
		"completion/complete":      func(x *faultyserver.Exchange) { x.Result(fmt.Sprintf(`{"completion":{"values":[]},"by":%q}`, name)) },
	}}
}

// starting returns a gateway that knows the backend "quick" and not yet "slow".
func starting(t *testing.T, slow time.Duration, change func(*config.Config)) *signalbox.Gateway {
	t.Helper()
	quick, late := lister("quick", 0), lister("slow", slow)
	way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			late.ServeHTTP(w, r)
		case "/broken":
			<-time.After(time.Second)
			http.Error(w, "no", http.StatusInternalServerError)
		default:
			quick.ServeHTTP(w, r)
		}
	}))
	cfg := config.Config{Servers: []config.Backend{
		{Name: "quick", URL: "http://backends.test/quick"}, {Name: "slow", URL: "http://backends.test/slow"},
	}}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.New(t, cfg, signalbox.Options{Transport: way})
	synctest.Wait()
	return g
}

// Right after the start a request waits only for backends that may offer its item, and
// no longer than until they have answered.
func TestLookupWaitsForBackendsThatMayOfferIt(t *testing.T) {
	const slow = 10 * time.Second
	for _, tt := range []struct {
		name, method, params string
		by                   string
		took                 time.Duration
	}{
		{"a tool that is known", "tools/call", `{"name":"quick__x"}`, "quick", 0},
		{"a tool that a known backend does not have", "tools/call", `{"name":"quick__nope"}`, `error: unknown tool: "quick__nope"`, 0},
		{"a prompt that a known backend does not have", "prompts/get", `{"name":"quick__nope"}`, `error: unknown prompt: "quick__nope"`, 0},
		{"a tool that no backend can have", "tools/call", `{"name":"nobody__x"}`, `error: unknown tool: "nobody__x"`, 0},
		{"a tool that is coming", "tools/call", `{"name":"slow__x"}`, "slow", slow},
		{"a prompt that is coming", "prompts/get", `{"name":"slow__p"}`, "slow", slow},
		{"a tool that might have come", "tools/call", `{"name":"slow__nope"}`, `error: unknown tool: "slow__nope"`, slow},
		{"a resource that is listed", "resources/read", `{"uri":"quick://listed"}`, "quick", 0},
		{"a resource that is coming", "resources/read", `{"uri":"slow://listed"}`, "slow", slow},
		{"a resource of a template, which may yet be listed", "resources/read", `{"uri":"quick://7"}`, "quick", slow},
		{"a resource that no backend has", "resources/read", `{"uri":"other://x"}`, "error: unknown resource", slow},
		{"a completion for a known prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"quick__p"},"argument":{"name":"a","value":""}}`, "quick", 0},
		{"a completion for a prompt that no backend can have", "completion/complete",
			`{"ref":{"type":"ref/prompt","name":"nobody__p"},"argument":{"name":"a","value":""}}`, "error: completion/complete: ref names no", 0},
		{"a completion for a template that is coming", "completion/complete",
			`{"ref":{"type":"ref/resource","uri":"slow://{id}"},"argument":{"name":"id","value":""}}`, "slow", slow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				by, took := gatewaytest.Serve(t, starting(t, slow, nil), tt.method, tt.params)
				// Its lists are fetched one after another: the slow backend is known
				// after several times as long.
				if !strings.HasPrefix(by, tt.by) || (took > 0) != (tt.took > 0) || took >= time.Minute {
					t.Errorf("%s after %v, want %s after %v", by, took, tt.by, tt.took)
				}
			})
		})
	}
}

// A backend without a prefix may offer any name, and one that renames an item offers
// that name.
func TestLookupByPrefixAndRename(t *testing.T) {
	none := ""
	for _, tt := range []struct {
		name, tool string
		change     func(*config.Backend)
		by         string
		waits      bool
	}{
		{"no prefix", "x", func(b *config.Backend) { b.Prefix = &none }, "slow", true},
		{"no prefix, a name of another", "quick__nope", func(b *config.Backend) { b.Prefix = &none }, "error: unknown tool", true},
		{"renamed", "the_x", func(b *config.Backend) { b.Rename = map[string]string{"x": "the_x"} }, "slow", true},
		{"another prefix", "slow__x", func(b *config.Backend) { p := "s."; b.Prefix = &p }, "error: unknown tool", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := starting(t, time.Second, func(cfg *config.Config) { tt.change(&cfg.Servers[1]) })
				by, took := gatewaytest.Serve(t, g, "tools/call", fmt.Sprintf(`{"name":%q}`, tt.tool))
				if !strings.HasPrefix(by, tt.by) || (took > 0) != tt.waits {
					t.Errorf("%s after %v, want %s, waiting: %v", by, took, tt.by, tt.waits)
				}
			})
		})
	}
}

// A request waits for a backend that does not answer until its start has taken too
// long, and the error gives the reason. A shorter limit for lists does not apply.
func TestLookupEndsWithTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := starting(t, time.Hour, func(cfg *config.Config) {
			cfg.Limits.FirstList, cfg.Limits.Handshake = time.Second, 3*time.Second
		})
		if by, took := gatewaytest.Serve(t, g, "tools/call", `{"name":"slow__x"}`); by != "fault: slow" || took != 3*time.Second {
			t.Errorf("%s after %v, want a fault of the backend after 3s", by, took)
		}
		if by, took := gatewaytest.Serve(t, g, "tools/call", `{"name":"slow__x"}`); by != "fault: slow" || took != 0 {
			t.Errorf("again: %s after %v, want the same at once", by, took)
		}
	})
}

// A backend that turns out to offer nothing is no longer waited for, although no list
// has changed.
func TestLookupLearnsThatThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := starting(t, time.Hour, func(cfg *config.Config) {
			cfg.Servers = append(cfg.Servers, config.Backend{Name: "broken", URL: "http://backends.test/broken"})
		})
		if by, took := gatewaytest.Serve(t, g, "tools/call", `{"name":"broken__x"}`); by != "fault: broken" || took == 0 || took > 30*time.Second {
			t.Errorf("%s after %v, want a fault of the backend as soon as it has failed", by, took)
		}
	})
}

// A wait ends with the request, and with the gateway.
func TestLookupEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := starting(t, time.Hour, nil)
		closed := make(chan struct{})
		go func() { // ends with the gateway
			defer close(closed)
			<-time.After(2 * time.Second)
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}()
		if by, took := gatewaytest.Serve(t, g, "tools/call", `{"name":"slow__x"}`); by != "fault: slow" || took != 2*time.Second {
			t.Errorf("%s after %v, want a fault when the gateway is closed", by, took)
		}
		<-closed
	})
}

// startsIn returns a backend with a tool x that delays its first answer.
func startsIn(slow time.Duration) *faultyserver.HTTP {
	ready := time.Now().Add(slow)
	s := gatewaytest.ServerWithTools(false, "x")
	s.On["initialize"] = func(x *faultyserver.Exchange) {
		if backoff.Sleep(x.R.Context(), time.Until(ready)) {
			x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"use x"}`)
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
	synctest.Test(t, func(t *testing.T) {
		g := starting(t, time.Minute, nil)
		time.Sleep(7500 * time.Millisecond)
		if b := g.Status().Backends[1]; b.State != "starting" || b.Reason != "no response to the requests for its lists for 7s" {
			t.Errorf("a server without lists: %s, %q", b.State, b.Reason)
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

// A server that starts slowly, for example because it is being installed, is waited
// for, at most as long as configured.
func TestServerThatStartsSlowly(t *testing.T) {
	for within, want := range map[time.Duration]string{
		0:                `"content":[]`, // a minute
		2 * time.Minute:  `"content":[]`,
		40 * time.Second: "within 40s (limits.handshake)",
	} {
		t.Run(within.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := gatewaytest.ServerWithTools(false, "x")
				s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[]}`)
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body) // or the server would not detect that its client disconnects
					r.Body = io.NopCloser(bytes.NewReader(body))
					if r.Header.Get("Mcp-Session-Id") == "" {
						select {
						case <-time.After(50 * time.Second):
						case <-r.Context().Done():
							return
						}
					}
					s.ServeHTTP(w, r)
				})
				h := gatewaytest.Backends{"b": slow}.Open(t, func(cfg *config.Config) {
					cfg.Servers[0].Era = "legacy"
					cfg.Limits.Handshake = within
					cfg.Limits.CallIdle = 5 * time.Second // a start is not a call
				})
				time.Sleep(10 * time.Minute) // and attempts
				got := h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`), h.Legacy())
				if !strings.Contains(got.Body, want) {
					t.Errorf("with %v: %s, want %s in it", within, got.Body, want)
				}
			})
		})
	}
}

// With "firstList: none" the first list waits for a backend however long it takes.
func TestFirstListWithoutLimit(t *testing.T) {
	const slow = 10 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list": func(x *faultyserver.Exchange) {
				<-time.After(slow)
				x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`)
			},
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Limits.FirstList, cfg.Limits.CallIdle, cfg.Limits.CallMax = -1, -1, -1
		g, err := signalbox.New(cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		began := time.Now()
		req, err := mcp.NewRequest("tools/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Serve(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < slow {
			t.Errorf("the first list came after %v, without the backend: %s", took, res.Bytes())
		}
	})
}

// A backend that becomes unreachable causes one warning, whatever it responds with, and then
// one a minute with the number of attempts in between. None has the page that it sent.
func TestOneWarningForAnUnreachableBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>"+strings.Repeat("<p>page</p>", 1000))
		}))
		var log logtest.Log
		g := gatewaytest.New(t, config.Config{Servers: []config.Backend{{Name: "b", URL: "http://backends.test/"}}},
			signalbox.Options{Transport: way, Logger: slog.New(log.Handler())})
		warnings := func() (found []string) {
			synctest.Wait()
			for _, line := range log.Lines() {
				if strings.HasPrefix(line, "level=WARN") {
					found = append(found, line)
				}
				if len(line) > 1000 {
					t.Errorf("a record of %d bytes", len(line))
				}
			}
			return found
		}
		time.Sleep(30 * time.Second)
		if got := warnings(); len(got) != 1 || !strings.Contains(got[0], "backend not reachable") || !strings.Contains(got[0], "code=SB_NET_STATUS") || strings.Contains(got[0], "<p>") {
			t.Errorf("warnings: %q", got)
		}
		time.Sleep(time.Minute)
		if got := warnings(); len(got) != 2 || !strings.Contains(got[1], "notLogged=") {
			t.Errorf("warnings after a minute: %q", got)
		}
		if b := g.Status().Backends[0]; b.State != "down" {
			t.Errorf("state %s", b.State)
		}
	})
}
