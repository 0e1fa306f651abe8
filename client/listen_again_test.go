// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A session's stream ends and is opened again. Changes in between are presumed when it
// listens again: the gateway cannot know them, and a client trusts a stream that was
// resumed.
func TestScopeThatListensAgainMayHaveMissedChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}
		s.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
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

// A server that has just started may not know its resources yet, and agree to less than
// the one before it. The listens were promised more and do not notice. So the server is
// asked again until it agrees, with increasing waits. Meanwhile its notifications are
// forwarded.
func TestListenReopensANarrowerStream(t *testing.T) {
	tests := map[string]struct {
		later string // what the next streams agree to
		many  int    // of them in the first minute
	}{
		"less":                   {`"toolsListChanged":true`, 7},
		"another":                {`"toolsListChanged":true,"resourceSubscriptions":["x:2"]`, 7},
		"fewer lists":            {`"resourceSubscriptions":["x:1"]`, 7},
		"as much":                {`"toolsListChanged":true,"resourceSubscriptions":["x:1"]`, 1},
		"what it had agreed not": {`"toolsListChanged":true,"resourceSubscriptions":["x:1","x:2"]`, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const all = `"toolsListChanged":true,"resourceSubscriptions":["x:1"]`
				var (
					later atomic.Pointer[string]
					opens atomic.Int32
				)
				drop := make(chan struct{})
				s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"subscriptions/listen": func(x *faultyserver.Exchange) {
					meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + x.Msg.ID.String() + `}`
					acknowledge := func(agreed string) {
						x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+meta+`,"notifications":{`+agreed+`}}}`)
					}
					if opens.Add(1) == 1 {
						acknowledge(all)
						<-drop
						x.Abort()
						return
					}
					acknowledge(*later.Load())
					x.Hold()
				}}}
				later.Store(&tt.later)
				l := launch(t, dialHTTP(t, s, client.Config{}), request(t, "subscriptions/listen",
					`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1","x:2"]}}`), &recorder{})
				synctest.Wait()
				close(drop)
				time.Sleep(time.Minute)
				if n := int(opens.Load()) - 1; n < tt.many || n > tt.many+2 {
					t.Errorf("%d streams followed in a minute, want %d", n, tt.many)
				}
				agreed := all
				later.Store(&agreed)
				time.Sleep(10 * time.Minute)
				before := opens.Load()
				time.Sleep(time.Hour)
				if n := opens.Load() - before; n != 0 {
					t.Errorf("%d streams followed one that agreed to all", n)
				}
				l.cancel()
				<-l.done
			})
		})
	}
}

// A resource that is gone permanently causes only occasional attempts.
func TestReopeningBacksOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var opens atomic.Int32
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"subscriptions/listen": func(x *faultyserver.Exchange) {
			agreed := `["x:1"]`
			n := opens.Add(1)
			if n > 1 {
				agreed = `[]`
			}
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+
				x.Msg.ID.String()+`},"notifications":{"resourceSubscriptions":`+agreed+`}}}`)
			if n == 1 {
				x.Abort()
				return
			}
			x.Hold()
		}}}
		launch(t, dialHTTP(t, s, client.Config{}), watching(t, "x:1"), &recorder{})
		time.Sleep(time.Hour)
		before := opens.Load()
		time.Sleep(time.Hour)
		if n := opens.Load() - before; n < 11 || n > 12 {
			t.Errorf("%d streams in an hour, want one every five minutes", n)
		}
	})
}
