// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ServeNow returns a list once the first lists are known, and until the gateway closes.
// It returns nothing that must wait, be refused, or be sent to a backend.
func TestListsAreServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 10 * time.Second
		g := starting(t, slow, nil)
		has := func(method, params string) *mcp.Result {
			t.Helper()
			req, err := mcp.NewRequest(method, []byte(params))
			if err != nil {
				t.Fatal(err)
			}
			res, ok := g.ServeNow(req)
			if ok != (res != nil) {
				t.Errorf("%s %s: %v, %v", method, params, res, ok)
			}
			return res
		}
		if has("tools/list", `{}`) != nil {
			t.Error("the first list was at hand before all were heard of")
		}
		time.Sleep(4*slow + time.Second)
		synctest.Wait()
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			first := has(method, `{}`)
			if first == nil || has(method, `{"cursor":""}`) != first {
				t.Errorf("%s is not at hand, or is made anew each time", method)
			}
			for _, params := range []string{`{"cursor":"nope"}`, `{"cursor":1}`} {
				if has(method, params) != nil {
					t.Errorf("%s: %s has an answer", method, params)
				}
			}
		}
		for _, method := range []string{"tools/call", "server/discover", "tasks/list", "roots/list", ""} {
			if has(method, `{"name":"quick__x"}`) != nil {
				t.Errorf("%q is at hand", method)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if has("tools/list", `{}`) != nil {
			t.Error("a list was at hand after the end")
		}
	})
}
