// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// changing answers each call after n list_changed notifications.
func changing(n int) *faultyserver.Lines {
	return &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
		for range n {
			x.Send(listChanged)
		}
		x.Polite()
	}}}
}

// announced records the calls of Config.Announced.
type announced struct {
	mu  sync.Mutex
	got []string
}

func (a *announced) note(scope *mcp.Scope, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := "none"
	if scope != nil {
		key = scope.Key()
	}
	a.got = append(a.got, fmt.Sprint(key, " ", ended))
}

func (a *announced) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	return got
}

// A change during a call is announced before the call's result, with the scope of the
// session that received it.
func TestAnnouncedBeforeTheResult(t *testing.T) {
	overHTTP := func(t *testing.T, cfg client.Config) *client.Client {
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
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
				var heard announced
				c := dial(t, client.Config{Announced: heard.note})
				for _, scope := range []*mcp.Scope{newTenant("one").Scope, newTenant("other").Scope, nil} {
					want := "none false"
					if scope != nil {
						want = scope.Key() + " false"
					}
					if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
						t.Fatal(err)
					}
					if got := heard.take(); !slices.Equal(got, []string{want}) {
						t.Errorf("announced %q, want %q", got, want)
					}
				}
			})
		})
	}
}

// The end of a client's session is announced once, whatever ends it.
func TestEndIsAnnounced(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *client.Client, one *tenant){
		"the scope ends":    func(_ *testing.T, _ *client.Client, one *tenant) { one.End() },
		"the client closes": func(_ *testing.T, c *client.Client, _ *tenant) { c.Close() },
		"the server leaves": func(t *testing.T, c *client.Client, one *tenant) {
			_, _ = c.Serve(t.Context(), in(one.Scope, request(t, "tools/call", `{"name":"leave"}`)), &recorder{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var heard announced
				s := changing(0)
				s.On["tools/call"] = func(x *faultyserver.Line) {
					if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "leave" {
						x.Close()
						return
					}
					x.Polite()
				}
				c, _ := dialLines(t, s, client.Config{Announced: heard.note})
				one := newTenant("one")
				if _, err := within(t, c, in(one.Scope, echo(t)), &recorder{}); err != nil {
					t.Fatal(err)
				}
				end(t, c, one)
				synctest.Wait()
				if got := heard.take(); !slices.Equal(got, []string{"one true"}) {
					t.Errorf("announced %q, want the end once", got)
				}
			})
		})
	}
}

// Changes in a session that belongs to no client are not announced: the gateway listens
// there itself.
func TestOwnSessionsAnnounceNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var heard announced
		c, _ := dialLines(t, changing(1), client.Config{Announced: heard.note})
		lists := mcp.NewScope("lists", nil)
		if _, err := within(t, c, in(lists, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		lists.End()
		synctest.Wait()
		if got := heard.take(); len(got) != 0 {
			t.Errorf("announced %q, want nothing", got)
		}
	})
}
