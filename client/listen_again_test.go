// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/zoo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A session's stream comes and goes. What changed while nobody listened for it is
// told when it listens again: it cannot know, and its client trusts a stream that
// was resumed.
func TestScopeThatListensAgainHasMissedSomething(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &zoo.HTTP{Modern: true, On: map[string]func(*zoo.Exchange){}}
		s.On["subscriptions/listen"] = func(x *zoo.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+
				x.Msg.ID.String()+`},"notifications":{"toolsListChanged":true}}}`)
			x.Hold()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		const promised = `{"notifications":{"toolsListChanged":true}}`
		for i, want := range []string{"", ";tools/list_changed", ";tools/list_changed"} {
			ctx, leave := context.WithCancel(t.Context())
			sink := &recorder{}
			done := make(chan struct{})
			go func() { // ends with the context
				defer close(done)
				_, _ = c.Serve(ctx, in(scope, request(t, "subscriptions/listen", promised)), sink)
			}()
			synctest.Wait()
			leave()
			<-done
			got := strings.TrimPrefix(strings.Join(sink.notifications(), ";"), `subscriptions/acknowledged {"_meta":{},"notifications":{"toolsListChanged":true}}`)
			if got != want {
				t.Errorf("listen %d is told %q, want %q", i, got, want)
			}
		}
	})
}
