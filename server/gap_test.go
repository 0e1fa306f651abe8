// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// A client that comes back to its standalone stream trusts that it gets what it has
// missed. Nobody has listened for it meanwhile, so that everything may have changed,
// and it is told so; one that begins anew knows that it has missed something (I33).
func TestChangesWhileAClientIsAway(t *testing.T) {
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method != "subscriptions/listen" {
			return tools(nil).Serve(ctx, req, c)
		}
		n := note(t, "notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true}}`)
		if err := c.Notify(ctx, n); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return result(`{}`)
	})
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	bubble(t, h, server.Config{StreamLife: time.Second}, func(s *site) {
		sess := s.session()
		began := s.do(s.request(s.ctx(), http.MethodGet, "", sess)) // ends with its life
		if got := began.events(t); len(got) != 0 {
			t.Errorf("who begins was told %q, want nothing", got)
		}
		_, id, ok := strings.Cut(began.body, "id: ")
		id, _, _ = strings.Cut(id, "\n")
		if !ok {
			t.Fatalf("no event id in %q", began.body)
		}
		again := s.do(s.request(s.ctx(), http.MethodGet, "", sess, headers{"Last-Event-ID": id}))
		if got := again.events(t); len(got) != 1 || got[0] != changed {
			t.Errorf("who came back was told %q, want %s", got, changed)
		}
	})
}
