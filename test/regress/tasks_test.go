// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package regress_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// M111, I22: a task is accessible to the client that created it. Another client that
// sends its id receives the answer for an unknown id, whatever the method, and the
// backend receives nothing.
func TestM111TaskOfAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true, "long")
		s.Capabilities = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		state := func(kind, id string) string {
			return fmt.Sprintf(`{"resultType":"%s","taskId":"%s","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000}`, kind, id)
		}
		s.On["tools/call"] = gatewaytest.ResultHandler(state("task", "t1"))
		about := map[string]int{}
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			s.On[method] = func(x *faultyserver.Exchange) {
				about[method]++
				if id, _ := x.Msg.Params.Text(mcp.FieldTaskID); id != "t1" {
					t.Errorf("%s of %q", method, id)
				}
				x.Result(state("complete", "t1"))
			}
		}
		h := gatewaytest.Backends{"a": s}.Open(t, func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, "ann", "bob") })
		ask := func(who, method, name, params string) gatewaytest.Response {
			body, hs := gatewaytest.ModernRequest("1", method, "", params)
			body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
			hs["Mcp-Name"] = name
			return h.Post(body, hs, gatewaytest.WithToken(who))
		}
		created := ask("ann", "tools/call", "a__long", `"name":"a__long"`).Body
		_, after, _ := strings.Cut(created, `"taskId":"`)
		id, _, ok := strings.Cut(after, `"`)
		if !ok {
			t.Fatalf("created: %s; want a task", created)
		}
		if strings.Contains(id, "ann") || id == "t1" {
			t.Errorf("the id %q reveals its content", id)
		}
		for method := range about {
			t.Errorf("%s before anybody asked", method)
		}
		first := "A"
		if id[:1] == first {
			first = "B"
		}
		changed := first + id[1:]
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			params := func(id string) string {
				more := ""
				if method == "tasks/update" {
					more = `,"inputResponses":{}`
				}
				return `"taskId":"` + id + `"` + more
			}
			unknown := ask("bob", method, "made-up", params("made-up"))
			if !strings.Contains(unknown.Body, `"error"`) {
				t.Errorf("%s of a task that there is not: %s", method, unknown.Body)
			}
			foreign := ask("bob", method, id, params(id))
			gatewaytest.WantEqual(t, method+" of another's task", foreign.Body, unknown.Body)
			gatewaytest.WantEqual(t, method+" of a changed id", ask("ann", method, changed, params(changed)).Body, unknown.Body)
			if about[method] != 0 {
				t.Errorf("%s has reached the backend", method)
			}
			if own := ask("ann", method, id, params(id)); !strings.Contains(own.Body, `"result"`) || about[method] != 1 {
				t.Errorf("%s of her own: %s, %d times; want a result", method, own.Body, about[method])
			}
		}
	})
}
