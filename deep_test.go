// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A tool with a schema that nests deeper than messages may does not affect other tools,
// on the whole way from a server over HTTP to a client.
func TestDeepSchemaCostsNoOtherTool(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%t", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tools []string
				for i := range 20 {
					tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
				}
				deep := strings.Repeat(`{"type":"object","properties":{"a":`, 70) + "{}" + strings.Repeat("}}", 70)
				tools[7] = `{"name":"deep","inputSchema":` + deep + `}`
				s := &faultyserver.HTTP{Modern: modern, Sessions: !modern, On: map[string]func(*faultyserver.Exchange){
					"tools/list": gatewaytest.ResultHandler(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]}`),
				}}
				h := gatewaytest.Backends{"b": s}.Open(t, nil)
				status := h.G.Status()
				if b := status.Backends[0]; b.State != "live" || b.Tools != 20 {
					t.Errorf("backend %+v", b)
				}
				want := `backend "b": tool "deep": left out: it is nested deeper than the 125 levels allowed for an item of a list`
				if len(status.Problems) != 1 || status.Problems[0] != want {
					t.Errorf("problems %q, want %q", status.Problems, want)
				}
				got := h.Post(gatewaytest.LegacyRequest("1", "tools/list", `{}`), h.Legacy())
				if n := strings.Count(got.Body, `"name":"b__t`); n != 19 {
					t.Errorf("%d tools in %s", n, got.Body)
				}
			})
		})
	}
}
