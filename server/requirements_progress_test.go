// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// progressTool is a tool that reports these values of progress.
func progressTool(t *testing.T, values ...string) mcp.HandlerFunc {
	return func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for _, v := range values {
			params := fmt.Sprintf(`{"progressToken":%s,"progress":%s}`, req.Params.Raw(mcp.MetaProgressToken), v)
			if err := c.Notify(ctx, note(t, "notifications/progress", params)); err != nil {
				return nil, err
			}
		}
		return result(`{}`)
	}
}

// Whatever a Handler sends, its client receives only increasing progress, in both eras and
// on a pipe; other values are dropped and counted.
//
// C8+ 2026-07-28 basic/patterns/progress: "The `progress` value MUST increase with each
// notification, even if the total is unknown."
//
// C8- 2026-07-28 basic/patterns/progress: "Progress tokens MUST be a string or integer
// value"
func TestProgressAdvances(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"count": progressTool(t, "1", "3", "2", "3", "3.5", "0")})
	values := func(events []string) string {
		var all []string
		for _, e := range events {
			if _, v, ok := strings.Cut(e, `"progress":`); ok {
				all = append(all, strings.Trim(v, "}"))
			}
		}
		return strings.Join(all, " ")
	}
	asked := func(token string) string {
		return raw("1", "tools/call", `{"name":"count","_meta":{`+meta+`,"progressToken":`+token+`}}`)
	}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		for range 2 { // each request begins anew
			equal(t, "legacy", values(s.post(withToken("1", "count", `"t"`), sess).events(t)), "1 3 3.5")
			equal(t, "modern", values(s.post(asked("7"), modernHeaders("tools/call", "count")).events(t)), "1 3 3.5")
		}
		if got := s.server.Stats().Dropped; got != 4*3 {
			t.Errorf("dropped = %d, want three of each request", got)
		}
		for _, token := range []string{"1.5", "true", "{}", "[1]"} {
			want := wireError("1", "-32602", "_meta.progressToken must be a string or an integer")
			equal(t, "legacy, "+token, s.post(withToken("1", "count", token), sess).body, want)
			equal(t, "modern, "+token, s.post(asked(token), modernHeaders("tools/call", "count")).body, want)
		}
		if got := s.post(asked("null"), modernHeaders("tools/call", "count")); got.status != 200 || strings.Contains(got.body, "notifications/progress") {
			t.Errorf("with null for a token: %d %s; want the result and no progress", got.status, got.body)
		}
	})
	pipes(t, h, server.Config{}, func(c *console) {
		c.send(asked(`"t"`))
		equal(t, "on a pipe", values([]string{c.next(), c.next(), c.next()}), "1 3 3.5")
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
	})
}
