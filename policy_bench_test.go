// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// manyTools is a backend with that many tools.
func manyTools(n int) mcp.Handler {
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"name":"tool%d","description":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%t}}`, i, strings.Repeat("what it does ", 20), i%2 == 0))
	}
	list := `{"tools":[` + strings.Join(tools, ",") + `]}`
	return mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case "tools/list":
			return mcp.NewResult([]byte(list))
		default:
			return mcp.NewResult([]byte(`{"content":[]}`))
		}
	})
}

// manyRules are n rules, and one of them reads arguments.
func manyRules(n int) config.Policy {
	p := config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "args", Deny: `args.env == "prod" && !("sre" in principal.claims.groups)`, On: []string{"*__tool7"}},
	}}
	for i := len(p.Rules); i < n; i++ {
		r := config.PolicyRule{Name: fmt.Sprintf("r%d", i)}
		switch i % 3 {
		case 0:
			r.Allow = fmt.Sprintf(`"group%d" in principal.claims.groups`, i)
		case 1:
			r.Deny = fmt.Sprintf(`item.name.endsWith("%d0") && principal.name != "ann"`, i)
		default:
			r.Needs, r.When = []string{"write"}, `!item.annotations.readOnlyHint`
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func benchIdentity(name string) *mcp.Identity {
	return &mcp.Identity{Principal: name, Scopes: []string{"write"}, Claims: map[string]any{"groups": []any{"a", "b", "group3", "group6"}}}
}

func benchGateway(tb testing.TB, p config.Policy, tools int) *Gateway {
	tb.Helper()
	g, err := New(config.Config{Policy: p}, Options{InProcess: []InProcess{{Name: "b", Handler: manyTools(tools)}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.Close() })
	return g
}

func benchRequest(tb testing.TB, id *mcp.Identity, method, params string) *mcp.Request {
	tb.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		tb.Fatal(err)
	}
	req.Client, req.Identity, req.Principal = &mcp.Peer{Version: mcp.V20260728}, id, id.Principal
	return req
}

// I19: 2,000 items and 20 rules make a view in at most 100 ms.
func TestViewIsMadeInTime(t *testing.T) {
	g := benchGateway(t, manyRules(20), 2000)
	first := benchRequest(t, benchIdentity("p"), "tools/list", `{}`)
	if _, err := g.Serve(t.Context(), first, nil); err != nil {
		t.Fatal(err)
	}
	const limit = 100 * time.Millisecond
	best := time.Hour
	for i := 0; i < 50 && best > limit; i++ { // other programs may use the machine for a while
		id := benchIdentity(fmt.Sprintf("p%d", i)) // a class of its own: a rule reads the name
		began := time.Now()
		if _, err := g.Serve(t.Context(), benchRequest(t, id, "tools/list", `{}`), nil); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	info, ok := debug.ReadBuildInfo()
	isRace := ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	// Beside other tests it measures them, too, and with the race detector that.
	if best > limit && !testing.Short() && !isRace {
		t.Errorf("a view takes %v", best)
	}
}

// A view is made once for all connections of the senders that see the same (I5).
func TestViewsOfManyConnections(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules config.Policy
		views int
	}{
		{"without a policy", config.Policy{}, 1},
		{"one class", config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{{Name: "a", Allow: `"a" in principal.claims.groups`}}}, 1},
		{"a class for each principal", manyRules(20), 5},
	} {
		g := benchGateway(t, tt.rules, 50)
		seen := make(map[*view]bool)
		for i := range 100 {
			req := benchRequest(t, benchIdentity(fmt.Sprint("p", i%5)), "tools/list", `{}`)
			req.Scope = mcp.NewScope(fmt.Sprint(i), nil)
			if _, err := g.Serve(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			seen[g.viewFor(viewerOf(req))] = true
			req.Scope.End()
		}
		if len(seen) != tt.views {
			t.Errorf("%s: %d views of 100 connections, want %d", tt.name, len(seen), tt.views)
		}
	}
}

// BenchmarkPolicy measures a list, a call, and a call with judged arguments, with and
// without a policy, and a view that is made anew.
func BenchmarkPolicy(b *testing.B) {
	for _, tc := range []struct {
		name  string
		rules config.Policy
	}{{"none", config.Policy{}}, {"20 rules", manyRules(20)}} {
		g := benchGateway(b, tc.rules, 2000)
		id := benchIdentity("ann")
		for _, call := range []struct{ name, method, params string }{
			{"list", "tools/list", `{}`},
			{"call", "tools/call", `{"name":"b__tool4","arguments":{"env":"test","n":1}}`},
			{"call with arguments", "tools/call", `{"name":"b__tool7","arguments":{"env":"test","n":1}}`},
		} {
			req := benchRequest(b, id, call.method, call.params)
			b.Run(tc.name+"/"+call.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if res, err := g.Serve(b.Context(), req, nil); err != nil || len(res.Bytes()) == 0 {
						b.Fatal(err)
					}
				}
			})
		}
	}
	g := benchGateway(b, manyRules(20), 2000)
	b.Run("view", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			if _, err := g.Serve(b.Context(), benchRequest(b, benchIdentity(fmt.Sprint(n)), "tools/list", `{}`), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
