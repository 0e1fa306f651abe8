// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// askingServer is a legacy server with the tool "ask", which asks its client and returns
// the answer.
func askingServer() *station {
	s := newStation()
	s.Capabilities = `{"tools":{}}`
	var mu sync.Mutex
	waiting := map[string]chan string{} // by session
	answers := func(x *faultyserver.Exchange) chan string {
		mu.Lock()
		defer mu.Unlock()
		id := x.R.Header.Get("Mcp-Session-Id")
		if waiting[id] == nil {
			waiting[id] = make(chan string, 1)
		}
		return waiting[id]
	}
	s.On["tools/call"] = func(x *faultyserver.Exchange) {
		if name, _ := x.Msg.Params.Text(mcp.FieldName); name != "ask" {
			x.Polite()
			return
		}
		x.Event("", `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
		select {
		case said := <-answers(x):
			x.Response(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, said))
		case <-x.R.Context().Done():
		}
	}
	s.On[""] = func(x *faultyserver.Exchange) {
		x.Polite()
		answer := string(x.Msg.Result.Bytes())
		if e, err := x.Msg.WireError(); err == nil && e != nil {
			answer = e.Message
		}
		answers(x) <- answer
	}
	return s
}

// withPrincipal sets the principal of a request, and a client that can be asked.
func withPrincipal(principal string, req *mcp.Request) *mcp.Request {
	req.Principal = principal
	req.Client = &mcp.Peer{Info: []byte(`{"name":"test","version":"1"}`), Capabilities: []byte(`{"elicitation":{}}`)}
	return req
}

// The open questions of one principal occupy only a share of a backend's sessions: the
// other principals are served, and may be asked as well. Without principals, all
// sessions may wait for input (I21, I22, I41).
func TestI41OpenQuestionsLeaveSessionsForOthers(t *testing.T) {
	tests := []struct {
		principal string
		max, want int // sessions, and those of them that may wait
	}{
		{"a", 1, 1},
		{"a", 2, 1},
		{"a", 4, 3},
		{"a", 64, 48},
		{"", 4, 4},
		{"", 64, 64},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q, %d", tt.principal, tt.max), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := dialHTTP(t, askingServer(), client.Config{MaxSessions: tt.max})
				silent := &recorder{answer: func(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				var calls []*running
				for range tt.max {
					calls = append(calls, launch(t, c, withPrincipal(tt.principal, tool(t, "ask")), silent))
				}
				synctest.Wait()
				waiting := 0
				for _, r := range calls {
					if !isDone(r) {
						waiting++
						continue
					}
					if r.err != nil || !strings.Contains(string(r.res.Bytes()), "limits.backendSessions") {
						t.Errorf("a call that may not wait: %v, %v; want the limit as the answer to its question", r.res, r.err)
					}
				}
				if waiting != tt.want {
					t.Fatalf("%d calls wait for input, want %d of %d", waiting, tt.want, tt.max)
				}
				if waiting < tt.max {
					if _, err := within(t, c, withPrincipal("v", tool(t, "x")), &recorder{}); err != nil {
						t.Errorf("a call of another principal: %v", err)
					}
					res, err := within(t, c, withPrincipal("v", tool(t, "ask")), &recorder{answer: respondWith(`{"action":"accept"}`)})
					if err != nil || !strings.Contains(string(res.Bytes()), "accept") {
						t.Errorf("a question to another principal: %v, %v", res, err)
					}
				} else if _, err := within(t, c, withPrincipal("v", tool(t, "x")), &recorder{}); tt.max > 1 {
					wantFault(t, err, mcp.CodeLimit, mcp.NotDispatched, fmt.Sprintf("%d of them waiting for input", waiting))
				}
				// An answered question frees its place for the next.
				for _, r := range calls {
					r.cancel()
					<-r.done
				}
				synctest.Wait()
				for range tt.max + 1 {
					res, err := within(t, c, withPrincipal(tt.principal, tool(t, "ask")), &recorder{answer: respondWith(`{"action":"accept"}`)})
					if err != nil || !strings.Contains(string(res.Bytes()), "accept") {
						t.Fatalf("after the others: %v, %v", res, err)
					}
				}
			})
		})
	}
}

// Each further principal may have three quarters of the sessions that the questions of
// the others leave, and at least one.
func TestOpenQuestionsOfManyPrincipals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := dialHTTP(t, askingServer(), client.Config{MaxSessions: 64})
		silent := &recorder{answer: func(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		for i, want := range []int{48, 12, 3, 1} {
			waiting := 0
			for range want + 1 {
				r := launch(t, c, withPrincipal(fmt.Sprint("p", i), tool(t, "ask")), silent)
				synctest.Wait()
				if !isDone(r) {
					waiting++
				}
			}
			if waiting != want {
				t.Errorf("principal %d has %d calls that wait, want %d", i, waiting, want)
			}
		}
	})
}
