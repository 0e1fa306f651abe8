// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// cellServer returns a server of an era with tools of these names.
func cellServer(era mcp.Era, tools ...string) *faultyserver.HTTP {
	return gatewaytest.ServerWithTools(era == mcp.EraModern, tools...)
}

// callIn makes a call as a client of an era, in a session for a legacy one, and returns the message of the response, or
// "" if the connection ends before it. It ends with ctx.
func callIn(ctx context.Context, h *gatewaytest.Gateway, sess gatewaytest.Header, id, tool, arguments string) string {
	var r *http.Request
	if sess == nil {
		body, hs := gatewaytest.ModernRequest(id, "tools/call", tool, `"arguments":`+arguments)
		r = h.Request(ctx, http.MethodPost, body, hs)
	} else {
		r = h.Request(ctx, http.MethodPost, gatewaytest.LegacyRequest(id, "tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`), sess)
	}
	res, err := h.HTTP.Do(r)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return ""
	}
	_, message, ok := strings.Cut(string(body), `{"jsonrpc"`)
	if !ok {
		return ""
	}
	message, _, _ = strings.Cut(message, "\n") // of an event
	return `{"jsonrpc"` + message
}

// Invariant C5: in each cell a call through call_tool has the answer of the same call made directly, whatever the server
// does, and both records have the same outcome.
func TestInnerErrorsInEachCell(t *testing.T) {
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		synctest.Test(t, func(t *testing.T) {
			what := map[string]func(*faultyserver.Exchange){
				"ok":      gatewaytest.ResultHandler(`{"content":[{"type":"text","text":"done"}]}`),
				"fails":   gatewaytest.ResultHandler(`{"content":[{"type":"text","text":"no"}],"isError":true}`),
				"refuses": func(x *faultyserver.Exchange) { x.Error(mcp.CodeInvalidParams, "no such city") },
				"own":     func(x *faultyserver.Exchange) { x.Error(-32050, "its own code") },
				"breaks":  func(x *faultyserver.Exchange) { x.Begin(); x.Abort() },
				"busy":    func(x *faultyserver.Exchange) { x.Status(http.StatusServiceUnavailable, "text/plain", "busy") },
				"odd":     func(x *faultyserver.Exchange) { x.Status(http.StatusOK, "application/json", `{"jsonrpc":"2.0"`) },
				"silent":  func(x *faultyserver.Exchange) { x.Hold() },
			}
			var names []string
			for name := range what {
				names = append(names, name)
			}
			s := cellServer(backendEra, names...)
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				name, _ := x.Msg.Params.Text(mcp.FieldName)
				what[name](x)
			}
			g := gatewaytest.Backends{"b": s}.Open(t, func(cfg *config.Config) { cfg.Limits.CallIdle = time.Minute })
			time.Sleep(time.Minute) // the lists are known
			at := g.At(config.SearchProfile)
			var sess gatewaytest.Header
			if clientEra == mcp.EraLegacy {
				sess = at.Legacy()
			}
			ended := make(map[string]int)
			for _, name := range names {
				direct := callIDInError.ReplaceAllString(callIn(t.Context(), at, sess, "1", "b__"+name, `{}`), "")
				of := latest(t, g.G)
				through := callIDInError.ReplaceAllString(callIn(t.Context(), at, sess, "1", "call_tool", `{"name":"b__`+name+`"}`), "")
				if through != direct || direct == "" {
					t.Errorf("%s: through call_tool %s\ndirectly %s", name, through, direct)
				}
				calls := g.G.Calls(signalbox.CallFilter{Most: 2}).Calls
				for i, c := range calls {
					if c.Outcome != of.Outcome || c.Code != of.Code || c.Delivery != of.Delivery || c.Reason != of.Reason {
						t.Errorf("%s: record %d is %s %d %s %s, that of a direct call %s %d %s %s", name, i, c.Outcome, c.Code, c.Delivery, c.Reason, of.Outcome, of.Code, of.Delivery, of.Reason)
					}
				}
				if c := calls[0]; c.InnerCalls != 1 || c.InnerOutcome != of.Outcome || c.InnerDelivery != of.Delivery {
					t.Errorf("%s: the outer record has %d calls, %s %s", name, c.InnerCalls, c.InnerOutcome, c.InnerDelivery)
				}
				ended[of.Outcome+" "+of.Delivery]++
			}
			for _, some := range []string{"ok ", "tool_error ", "error ", "failed unknown"} {
				if ended[some] == 0 {
					t.Errorf("no call has ended with %q: %v", some, ended)
				}
			}
		})
	})
}

// held is a server whose calls wait, each until it is released by its name or cancelled.
type held struct {
	*faultyserver.HTTP

	mu     sync.Mutex
	ids    map[string]string // of the requests, by the names of the tools
	closed map[string]bool   // calls on connections that the gateway has closed
	free   map[string]chan struct{}
}

func newHeld(era mcp.Era, tools ...string) *held {
	s := &held{HTTP: cellServer(era, tools...), ids: map[string]string{}, closed: map[string]bool{}, free: map[string]chan struct{}{}}
	for _, name := range tools {
		s.free[name] = make(chan struct{})
	}
	s.On["tools/call"] = func(x *faultyserver.Exchange) {
		name, _ := x.Msg.Params.Text(mcp.FieldName)
		s.mu.Lock()
		s.ids[name] = x.Msg.ID.String()
		s.mu.Unlock()
		select {
		case <-s.free[name]:
			x.Result(`{"content":[{"type":"text","text":"` + name + `"}]}`)
		case <-x.R.Context().Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.closed[name] = true
		}
	}
	return s
}

// cancelled returns the names of the calls that were cancelled, as the era of the server has it: by a notification, or
// by the end of the connection.
func (s *held) cancelled(era mcp.Era) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, id := range s.ids {
		isTold := false
		for _, r := range s.Seen() {
			_, of, _ := strings.Cut(r.Body, `"requestId":`)
			isTold = isTold || r.Method == "notifications/cancelled" && strings.TrimRight(strings.Split(of, ",")[0], "}") == id
		}
		if era == mcp.EraLegacy && isTold || era == mcp.EraModern && s.closed[name] {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Invariant C6: in each cell a cancel reaches the call within a call, and no other request of the same client and
// server: neither a direct one nor another one within a call.
func TestInnerCallIsCancelled(t *testing.T) {
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := newHeld(backendEra, "gone", "direct", "within")
			g := gatewaytest.Backends{"b": s}.Open(t, nil)
			time.Sleep(time.Minute) // the lists are known
			at := g.At(config.SearchProfile)
			var sess gatewaytest.Header
			if clientEra == mcp.EraLegacy {
				sess = at.Legacy()
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			start := func(ctx context.Context, id, tool, arguments string) <-chan string {
				out := make(chan string, 1)
				go func() { out <- callIn(ctx, at, sess, id, tool, arguments) }() // ends with the response or ctx
				synctest.Wait()
				return out
			}
			gone := start(ctx, "1", "call_tool", `{"name":"b__gone"}`)
			direct := start(t.Context(), "2", "b__direct", `{}`)
			within := start(t.Context(), "3", "call_tool", `{"name":"b__within"}`)
			if n := s.Count("tools/call"); n != 3 || s.cancelled(backendEra) != "" {
				t.Fatalf("%d calls have arrived, cancelled are %q", n, s.cancelled(backendEra))
			}
			if clientEra == mcp.EraLegacy {
				at.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, sess)
			} else {
				leave()
			}
			time.Sleep(time.Second)
			if got := s.cancelled(backendEra); got != "gone" {
				t.Errorf("cancelled are %q, want the one that the client has cancelled", got)
			}
			if n := s.Count("notifications/cancelled"); backendEra == mcp.EraLegacy && n != 1 || backendEra == mcp.EraModern && n != 0 {
				t.Errorf("%d notifications", n)
			}
			if text := <-gone; strings.Contains(text, `"result"`) || strings.Contains(text, `"error"`) {
				t.Errorf("the cancelled call is answered: %s", text)
			}
			calls := g.G.Calls(signalbox.CallFilter{}).Calls
			if len(calls) != 2 || calls[0].Name != "call_tool" || calls[0].Outcome != "cancelled" || calls[1].Name != "b__gone" || calls[1].Outcome != "cancelled" ||
				calls[0].InnerOutcome != "cancelled" || calls[0].Delivery != calls[1].Delivery {
				t.Errorf("recorded %+v", calls)
			}
			for name, answer := range map[string]<-chan string{"direct": direct, "within": within} {
				close(s.free[name])
				if got := <-answer; !strings.Contains(got, `"text":"`+name+`"`) {
					t.Errorf("%s is answered with %s", name, got)
				}
			}
			if got := s.cancelled(backendEra); got != "gone" {
				t.Errorf("in the end, cancelled are %q", got)
			}
		})
	})
}
