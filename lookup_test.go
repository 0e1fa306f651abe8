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
