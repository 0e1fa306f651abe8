// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A dual-era client probes with server/discover. Any answer that is not a modern one
// leads to initialize (2026-07-28, basic/versioning; requirement V3).
//
// V3+ 2026-07-28 basic/versioning: "attempt a modern request and inspect the body of a
// 400 Bad Request before falling back."
//
// V3- 2026-07-28 basic/versioning: "Anything else identifies a legacy server."
//
// V4+ 2026-07-28 basic/transports/streamable-http: "If the body is empty or is not a
// recognized modern JSON-RPC error, fall back to initialize and continue with the
// legacy version for subsequent requests."
func TestV3ProbeOverHTTP(t *testing.T) {
	html := func(x *faultyserver.Exchange) { x.Status(200, "text/html", "<html>") }
	tests := []struct {
		name     string
		discover func(x *faultyserver.Exchange)
		want     mcp.Era
	}{
		{"method not found", func(x *faultyserver.Exchange) { x.Error(-32601, "no") }, mcp.EraLegacy},
		{"invalid params", func(x *faultyserver.Exchange) { x.Error(-32602, "no") }, mcp.EraLegacy},
		{"server error", func(x *faultyserver.Exchange) { x.Error(-32000, "no") }, mcp.EraLegacy},
		{"400 without a message", func(x *faultyserver.Exchange) { x.Status(400, "text/plain", "no session") }, mcp.EraLegacy},
		{"400 with a legacy error", func(x *faultyserver.Exchange) {
			x.Status(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}`)
		}, mcp.EraLegacy},
		{"HTML", html, mcp.EraLegacy},
		{"404", func(x *faultyserver.Exchange) { x.Status(404, "text/plain", "nothing") }, mcp.EraLegacy},
		{"500", func(x *faultyserver.Exchange) { x.Status(500, "text/plain", "oops") }, mcp.EraLegacy},
		{"silence", func(x *faultyserver.Exchange) { x.Hold() }, mcp.EraLegacy},
		{"broken connection", func(x *faultyserver.Exchange) { x.Abort() }, mcp.EraLegacy},
		{"an empty result", func(x *faultyserver.Exchange) { x.Result("{}") }, mcp.EraLegacy},
		{"legacy versions only", func(x *faultyserver.Exchange) { x.Result(`{"supportedVersions":["2025-11-25"],"capabilities":{}}`) }, mcp.EraLegacy},
		{"-32022 naming a legacy version", func(x *faultyserver.Exchange) {
			x.Status(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}}`)
		}, mcp.EraLegacy},
		{"both eras", func(x *faultyserver.Exchange) {
			x.Result(`{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`)
		}, mcp.EraModern},
		{"both eras, as a stream", func(x *faultyserver.Exchange) {
			x.Response(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		}, mcp.EraModern},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"server/discover": tt.discover}}
				c := dialHTTP(t, s, client.Config{})
				got, err := c.Probe(t.Context())
				if err != nil || got.Era != tt.want || string(got.Capabilities) != `{"tools":{}}` {
					t.Fatalf("Probe = %+v, %v; want era %v", got, err, tt.want)
				}
				if n := s.Count("initialize"); (n == 1) != (tt.want == mcp.EraLegacy) {
					t.Errorf("initialize was sent %d times", n)
				}
			})
		})
	}
}

// A recognised modern error keeps the client modern (requirement V4).
//
// V4- 2026-07-28 basic/transports/streamable-http: "On 400 Bad Request, the client
// SHOULD inspect the response body before falling back"
func TestV4ModernErrorsDoNotFallBack(t *testing.T) {
	for _, code := range []string{"-32020", "-32021", "-32022"} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"server/discover": func(x *faultyserver.Exchange) {
				x.Status(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":`+code+`,"message":"no","data":{"supported":["2026-07-28"]}}}`)
			}}}
			c := dialHTTP(t, s, client.Config{})
			_, err := c.Serve(t.Context(), echo(t), &recorder{})
			if err != nil || s.Count("initialize") != 0 {
				t.Errorf("code %s: error %v, %d handshakes; want a modern call", code, err, s.Count("initialize"))
			}
		})
	}
}

// "The client SHOULD select a mutually supported version from the supported list and
// retry the request, or surface an error to the user if no compatible version exists."
// (2026-07-28, basic/versioning, "Protocol Version Negotiation") A server that keeps
// refusing a version that it lists is not asked for ever.
func TestRefusedSupportedVersion(t *testing.T) {
	tests := []struct {
		name     string
		refusals int64
		ok       bool
	}{
		{"once", 1, true},
		{"for ever", 1 << 20, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var asked atomic.Int64
				s := &faultyserver.HTTP{Modern: true}
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if asked.Add(1) > tt.refusals {
						s.ServeHTTP(w, r)
						return
					}
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`)
				})
				c := dialHTTP(t, h, client.Config{})
				_, err := c.Serve(t.Context(), echo(t), &recorder{})
				if (err == nil) != tt.ok {
					t.Errorf("got error %v, want none: %v", err, tt.ok)
				}
				if n := asked.Load(); !tt.ok && n > 6 {
					t.Errorf("it was asked %d times", n)
				}
			})
		})
	}
}

// An answer that is no evidence of either era is an error and is not remembered.
func TestInconclusiveProbe(t *testing.T) {
	tests := []struct {
		name   string
		status int
		code   int64
		text   string
	}{
		{"401", 401, mcp.CodeBackendUnavailable, "rejected our credentials"},
		{"403", 403, mcp.CodeBackendUnavailable, "are not sufficient"},
		{"503", 503, mcp.CodeBackendUnavailable, "HTTP status 503"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var repaired atomic.Bool
				s := &faultyserver.HTTP{Modern: true}
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !repaired.Load() {
						w.WriteHeader(tt.status)
						return
					}
					s.ServeHTTP(w, r)
				})
				c := dialHTTP(t, h, client.Config{})
				_, err := c.Serve(t.Context(), echo(t), &recorder{})
				wantFault(t, err, tt.code, mcp.NotDispatched, tt.text)
				repaired.Store(true)
				if got, err := c.Probe(t.Context()); err != nil || got.Era != mcp.EraModern {
					t.Errorf("Probe after the repair = %v, %v; want modern", got.Era, err)
				}
			})
		})
	}
}

// If the server supports none of our versions, the error lists its versions.
func TestNoCommonVersion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"server/discover": func(x *faultyserver.Exchange) {
			x.Result(`{"supportedVersions":["2099-01-01"],"capabilities":{}}`)
		}}}
		c := dialHTTP(t, s, client.Config{})
		_, err := c.Serve(t.Context(), echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "2099-01-01")
		if f, _ := errors.AsType[*mcp.Fault](err); f == nil || f.Reason != code.TalkRevision {
			t.Errorf("error %#v, want the code %s", err, code.TalkRevision)
		}
	})
}

// The probe over lines: an error, silence and an exit all mean legacy (2026-07-28,
// basic/transports/stdio, "Backward Compatibility").
//
// V3- 2026-07-28 basic/transports/stdio: "The fallback MUST NOT be keyed to one
// specific error code: legacy servers respond to unknown pre-initialize requests with
// implementation-defined errors (commonly -32601 or -32602) or not at all."
func TestV3ProbeOverLines(t *testing.T) {
	tests := []struct {
		name     string
		discover func(x *faultyserver.Line)
		opened   int
	}{
		{"error", func(x *faultyserver.Line) { x.Error(-32601, "no") }, 1},
		{"invalid params", func(x *faultyserver.Line) { x.Error(-32602, "no") }, 1},
		{"server error", func(x *faultyserver.Line) { x.Error(-32000, "not initialized") }, 1},
		{"an error of its own", func(x *faultyserver.Line) { x.Error(7, "what?") }, 1},
		{"silence", func(*faultyserver.Line) {}, 1},
		{"exit", func(x *faultyserver.Line) { x.Close() }, 2},
		{"junk", func(x *faultyserver.Line) { x.Send("what?") }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"server/discover": tt.discover}}
				c, opened := dialLines(t, s, client.Config{})
				began := time.Now()
				got, err := c.Probe(t.Context())
				if err != nil || got.Era != mcp.EraLegacy || got.Version != mcp.V20251125 {
					t.Fatalf("Probe = %+v, %v; want legacy", got, err)
				}
				if opened() != tt.opened {
					t.Errorf("opened %d pipes, want %d", opened(), tt.opened)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// A modern server that is slow to start is not mistaken for a legacy one: its late
// answer to the probe counts, and its process is kept.
//
// V3+ 2026-07-28 basic/transports/stdio: "The server returns a DiscoverResult: the
// server is modern."
func TestSlowModernServerOverLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var late *faultyserver.Line
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){}}
		s.On["server/discover"] = func(x *faultyserver.Line) { late = x }
		s.On["initialize"] = func(x *faultyserver.Line) {
			late.Polite()
			x.Error(-32601, "this server is modern")
		}
		c, opened := dialLines(t, s, client.Config{})
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if got := c.Stats().Era; got != mcp.EraModern || opened() != 1 {
			t.Errorf("era %v over %d pipes, want modern over one", got, opened())
		}
	})
}

// A slow server of both eras completes the handshake and answers the probe too, each
// time it is started. It is modern all the same: the era must not depend on the load of
// a machine.
func TestSlowServerOfBothErasOverLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){}}
		s.On["server/discover"] = func(x *faultyserver.Line) {
			time.Sleep(5 * time.Second)
			x.Polite()
		}
		s.On["initialize"] = func(x *faultyserver.Line) {
			x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"zoo","version":"1"}}`)
		}
		c, opened := dialLines(t, s, client.Config{})
		began := time.Now()
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if got := c.Stats().Era; got != mcp.EraModern || opened() != 2 || s.Count("initialize") != 1 {
			t.Errorf("era %v over %d pipes with %d handshakes, want modern over the second, with one", got, opened(), s.Count("initialize"))
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v, want two starts of 5s", took)
		}
	})
}

// probeTime is how long a server may leave a probe over HTTP unanswered.
const probeTime = 10 * time.Second

// The same over HTTP: what the first probe leaves open, another one finds out after the
// handshake, while calls go on.
func TestSlowServerOfBothErasOverHTTP(t *testing.T) {
	for name, first := range map[string]func(*faultyserver.Exchange){
		"slow":   func(x *faultyserver.Exchange) { x.Hold() },
		"broken": func(x *faultyserver.Exchange) { x.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){}}
				s.On["server/discover"] = func(x *faultyserver.Exchange) {
					if s.Count("server/discover") == 1 {
						first(x)
					}
					x.Result(`{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`)
				}
				c := dialHTTP(t, s, client.Config{})
				for range 2 {
					res, err := within(t, c, echo(t), &recorder{})
					wantResult(t, res, err, `{"content":[]}`)
					synctest.Wait()
				}
				if got := c.Stats().Era; got != mcp.EraModern || s.Count("initialize") != 1 {
					t.Errorf("era %v after %d handshakes, want modern after one", got, s.Count("initialize"))
				}
			})
		})
	}
}

// A listen of the legacy era goes on when the second probe has shown that the server is modern.
func TestListenOutlivesTheSecondProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = `{"tools":{"listChanged":true}}`
		ready := make(chan struct{})
		s.On["server/discover"] = func(x *faultyserver.Exchange) {
			if s.Count("server/discover") == 1 {
				x.Abort()
			}
			<-ready
			x.Result(`{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{"listChanged":true}}}`)
		}
		c, ear := dialHTTP(t, s, client.Config{}), &recorder{}
		launch(t, c, request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`), ear)
		<-s.open
		synctest.Wait()
		close(ready)
		synctest.Wait()
		_, err := within(t, c, echo(t), &recorder{})
		if got := c.Stats().Era; err != nil || got != mcp.EraModern {
			t.Fatalf("era %v, %v", got, err)
		}
		s.listen <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		time.Sleep(time.Minute)
		wantStrings(t, "the listen", ear.notifications(), []string{
			`subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}`, "tools/list_changed",
		})
	})
}

// A legacy server that answers nothing that it does not know gets two probes, however many
// sessions are opened.
func TestSilentLegacyServerOverHTTP(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){}}
		s.On["server/discover"] = func(x *faultyserver.Exchange) { x.Hold() }
		c := dialHTTP(t, s, client.Config{})
		for i := range 3 {
			scope := mcp.NewScope(string(rune('a'+i)), &recorder{})
			began := time.Now()
			res, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if took := time.Since(began); took > probeTime {
				t.Errorf("took %v", took)
			}
			time.Sleep(time.Minute)
			scope.End()
		}
		if got := c.Stats().Era; got != mcp.EraLegacy || s.Count("server/discover") != 2 {
			t.Errorf("era %v after %d probes, want legacy after two", got, s.Count("server/discover"))
		}
	})
}

// A server that answers the probe only in its first process is used as a legacy server
// and not started over and over.
func TestSlowFirstProcessOverLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){}}
		s.On["server/discover"] = func(x *faultyserver.Line) {
			if s.Count("server/discover") == 1 {
				time.Sleep(5 * time.Second)
				x.Polite()
			}
		}
		s.On["initialize"] = func(x *faultyserver.Line) {
			x.Result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"zoo","version":"1"}}`)
		}
		c, opened := dialLines(t, s, client.Config{})
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if got := c.Stats().Era; got != mcp.EraLegacy || opened() != 2 {
			t.Errorf("era %v over %d pipes, want legacy over the second", got, opened())
		}
	})
}

// A backend that was upgraded under traffic is probed again, and the call that failed
// for that reason is made in the new era (requirement V5, fault 73).
//
// V5- 2026-07-28 basic/versioning: "re-probing if the cached assumption later fails."
func TestV5BackendChangesItsEra(t *testing.T) {
	for _, first := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			legacy, modern := &faultyserver.HTTP{Sessions: true}, &faultyserver.HTTP{Modern: true}
			modern.On = map[string]func(*faultyserver.Exchange){
				"initialize": func(x *faultyserver.Exchange) {
					x.Status(404, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`)
				},
			}
			var changed atomic.Bool
			current := http.Handler(legacy)
			other := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Session-Id") != "" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				modern.ServeHTTP(w, r)
			}))
			if first {
				current, other = modern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Mcp-Method") != "" {
						http.Error(w, "Bad Request: no session", http.StatusBadRequest)
						return
					}
					legacy.ServeHTTP(w, r)
				})
			}
			c := dialHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if changed.Load() {
					other.ServeHTTP(w, r)
					return
				}
				current.ServeHTTP(w, r)
			}), client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			if _, err := c.Serve(t.Context(), in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			before := c.Stats().Era
			changed.Store(true)
			if _, err := c.Serve(t.Context(), in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatalf("after the change: %v", err)
			}
			if after := c.Stats().Era; after == before {
				t.Errorf("era is still %v", after)
			}
		})
	}
}

// Concurrent first requests cause one probe and, in one scope, one handshake (M105).
//
// V5+ 2026-07-28 basic/versioning: "Clients SHOULD cache the result for the lifetime
// of the server process (stdio) or origin (HTTP)"
func TestM105OneHandshakeForManyFirstCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := &faultyserver.HTTP{Sessions: true}
		s.On = map[string]func(*faultyserver.Exchange){"initialize": func(x *faultyserver.Exchange) {
			<-gate
			x.Initialize()
		}}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		var calls []*running
		for range 10 {
			calls = append(calls, launch(t, c, in(scope, echo(t)), &recorder{}))
		}
		synctest.Wait()
		close(gate)
		for _, r := range calls {
			r.wantResult(t, `{"content":[]}`)
		}
		if n, d := s.Count("initialize"), s.Count("server/discover"); n != 1 || d != 1 {
			t.Errorf("%d handshakes and %d probes, want one of each", n, d)
		}
		scope.End()
		synctest.Wait()
		if n := s.Count(http.MethodDelete); n != 1 {
			t.Errorf("%d sessions were ended, want 1", n)
		}
	})
}

// With a configured version there is no probe.
func TestPinnedVersion(t *testing.T) {
	for v, method := range map[mcp.Version]string{mcp.V20250618: "initialize", mcp.V20260728: "tools/call"} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: v.Era() == mcp.EraModern}
			c := dialHTTP(t, s, client.Config{Version: v})
			if _, err := c.Serve(t.Context(), echo(t), &recorder{}); err != nil {
				t.Fatal(err)
			}
			if got := s.Seen()[0]; got.Method != method {
				t.Errorf("%s: the first message was %q, want %q", v, got.Method, method)
			}
		})
	}
}

// If the request that leads a handshake gives up, its followers still get the session
// (M168).
func TestM168LeaderGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"initialize": func(x *faultyserver.Exchange) {
			<-gate
			x.Initialize()
		}}}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ctx, cancel := context.WithCancel(t.Context())
		leader := make(chan error, 1)
		go func() { // ends with the request
			_, err := c.Serve(ctx, in(scope, echo(t)), &recorder{})
			leader <- err
		}()
		synctest.Wait()
		follower := launch(t, c, in(scope, echo(t)), &recorder{})
		synctest.Wait()
		cancel()
		wantFault(t, <-leader, mcp.CodeBackendFailed, mcp.NotDispatched, "cancelled")
		close(gate)
		follower.wantResult(t, `{"content":[]}`)
	})
}
