// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// partlyFailing returns a gateway before a backend "b" with a tool. The handler
// resources answers its list of resources.
func partlyFailing(t *testing.T, era string, resources func(*faultyserver.Exchange)) *signalbox.Gateway {
	t.Helper()
	const capabilities = `"capabilities":{"tools":{"listChanged":true},"resources":{}}`
	s := gatewaytest.ServerWithTools(false, "x")
	s.On["initialize"] = gatewaytest.ResultHandler(`{"protocolVersion":"2025-11-25",` + capabilities + `,"serverInfo":{"name":"s","version":"1"}}`)
	if era == "modern" {
		s.On["server/discover"] = gatewaytest.ResultHandler(`{"supportedVersions":["2026-07-28"],` + capabilities + `}`)
	}
	s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[],"by":"x"}`)
	s.On["resources/templates/list"] = gatewaytest.ResultHandler(`{"resourceTemplates":[]}`)
	s.On["resources/list"] = resources
	way := gatewaytest.ServeBackends(t, http.HandlerFunc(s.ServeHTTP))
	cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://backends.test/b", Era: era}}}
	return gatewaytest.New(t, cfg, signalbox.Options{Transport: way})
}

// A server with one failed list offers its other lists, and the status reports the
// failure as a problem.
func TestFailedListIsAProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		resources func(*faultyserver.Exchange)
		late      time.Duration // of the list of tools, at most
		want      string
	}{
		"error":    {func(x *faultyserver.Exchange) { x.Error(-32603, "no database") }, 0, "no database"},
		"nonsense": {func(x *faultyserver.Exchange) { x.Result(`{"resources":7}`) }, 0, "resources: json"},
		"broken":   {func(x *faultyserver.Exchange) { x.Status(200, "application/json", `{"jsonrpc":`) }, 200 * time.Millisecond, "its answer ended without a response"},
		"too long": {func(x *faultyserver.Exchange) { x.Result(`{"x":"` + strings.Repeat("x", 17<<20) + `"}`) }, 0, "limits.backendMessage"},
		"refused":  {func(x *faultyserver.Exchange) { x.Status(403, "", "") }, 0, "HTTP status 403"},
		"hangs":    {func(x *faultyserver.Exchange) { x.Hold() }, 3 * time.Second, "no response or progress for 1m0s (limits.callIdle)"},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(name+" "+era, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := partlyFailing(t, era, tt.resources)
					if list, took := answered(t, g, "tools/list", ""); !strings.Contains(list, `"b__x"`) || took > tt.late {
						t.Errorf("tools after %v: %s", took, list)
					}
					if res, took := answered(t, g, "tools/call", `{"name":"b__x"}`); !strings.Contains(res, `"by":"x"`) || took != 0 {
						t.Errorf("a call after %v: %s", took, res)
					}
					time.Sleep(61 * time.Second)
					s := g.Status()
					if s.Backends[0].State != "live" || !slices.ContainsFunc(s.Problems, func(p string) bool {
						return strings.HasPrefix(p, `backend "b": resources/list: `) && strings.Contains(p, tt.want)
					}) {
						t.Errorf("state %s (%s), problems %q; want live, and %q", s.Backends[0].State, s.Backends[0].Reason, s.Problems, tt.want)
					}
				})
			})
		}
	}
}
