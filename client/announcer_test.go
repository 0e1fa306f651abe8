// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/zoo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// changing answers each call after it has told so often that a list has changed.
func changing(n int) *zoo.Lines {
	return &zoo.Lines{On: map[string]func(*zoo.Line){"tools/call": func(x *zoo.Line) {
		for range n {
			x.Send(listChanged)
		}
		x.Polite()
	}}}
}

// Who is told that a list has changed may close the client then and there, whatever
// it was heard on.
func TestCloseByWhoIsTold(t *testing.T) {
	overHTTP := func(t *testing.T, cfg client.Config) *client.Client {
		s := newStation()
		s.On["GET"] = func(x *zoo.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
		s.On["tools/call"] = func(x *zoo.Exchange) {
			x.Event("", listChanged)
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, x.Msg.ID))
		}
		return dialHTTP(t, s, cfg)
	}
	overLines := func(t *testing.T, cfg client.Config) *client.Client {
		c, _ := dialLines(t, changing(1), cfg)
		return c
	}
	for name, dial := range map[string]func(*testing.T, client.Config) *client.Client{"HTTP": overHTTP, "lines": overLines} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var c *client.Client
				closed := make(chan error, 1)
				c = dial(t, client.Config{Announced: func() { closed <- c.Close() }})
				call := launch(t, c, in(newTenant("s").Scope, echo(t)), &recorder{})
				if err := <-closed; err != nil {
					t.Error(err)
				}
				<-call.done // with its result, or cut off, as it comes
			})
		})
	}
}

// Who is told takes its time, and nobody's: calls go on, and all that comes
// meanwhile, in whichever session, is told once.
func TestSlowToBeTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told, at atomic.Int32
		gate := make(chan struct{})
		c, _ := dialLines(t, changing(100), client.Config{Announced: func() {
			told.Add(1)
			if at.Add(1) > 1 {
				t.Error("it is told twice at a time")
			}
			<-gate
			at.Add(-1)
		}})
		one, other := newTenant("one"), newTenant("other")
		for _, s := range []*tenant{one, other, one} {
			res, err := within(t, c, in(s.Scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			synctest.Wait() // for whoever is told to have begun
		}
		if n := told.Load(); n != 1 {
			t.Errorf("told %d times, want once until it has been heard", n)
		}
		close(gate)
		synctest.Wait()
		if n := told.Load(); n != 2 {
			t.Errorf("told %d times, want once more for all that came meanwhile", n)
		}
		if _, err := within(t, c, in(other.Scope, echo(t)), &recorder{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := told.Load(); n < 3 {
			t.Errorf("told %d times, want again after another change", n)
		}
	})
}

// What is told in a session of nobody's alone is not announced: the gateway's own
// listening hears of it.
func TestOwnSessionsAnnounceNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told atomic.Int32
		c, _ := dialLines(t, changing(1), client.Config{Announced: func() { told.Add(1) }})
		lists := mcp.NewScope("lists", nil)
		defer lists.End()
		if _, err := within(t, c, in(lists, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := told.Load(); n != 0 {
			t.Errorf("told %d times, want never", n)
		}
	})
}
