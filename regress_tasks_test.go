// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// M111, I22: a task is accessible to the client that created it. Another client that
// sends its id receives the answer for an unknown id, whatever the method, and the
// backend receives nothing.
func TestM111TaskOfAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverWithTools(true, "long")
		s.Capabilities = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		state := func(kind, id string) string {
			return fmt.Sprintf(`{"resultType":"%s","taskId":"%s","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000}`, kind, id)
		}
		s.On["tools/call"] = resultHandler(state("task", "t1"))
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
		h := backends{"a": s}.open(t, func(cfg *config.Config) { withPrincipals(cfg, "ann", "bob") })
		ask := func(who, method, name, params string) response {
			body, hs := modernRequest("1", method, "", params)
			body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
			hs["Mcp-Name"] = name
			return h.post(body, hs, withToken(who))
		}
		created := ask("ann", "tools/call", "a__long", `"name":"a__long"`).body
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
			if !strings.Contains(unknown.body, `"error"`) {
				t.Errorf("%s of a task that there is not: %s", method, unknown.body)
			}
			foreign := ask("bob", method, id, params(id))
			wantEqual(t, method+" of another's task", foreign.body, unknown.body)
			wantEqual(t, method+" of a changed id", ask("ann", method, changed, params(changed)).body, unknown.body)
			if about[method] != 0 {
				t.Errorf("%s has reached the backend", method)
			}
			if own := ask("ann", method, id, params(id)); !strings.Contains(own.body, `"result"`) || about[method] != 1 {
				t.Errorf("%s of her own: %s, %d times; want a result", method, own.body, about[method])
			}
		}
	})
}
