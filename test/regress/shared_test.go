// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package regress_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// M186, I8, I37: two clients share one session of a backend, use the same progress
// token, and one of them is subscribed to a resource. Each message on the backend's one
// listening stream is routed: progress to its call, under the client's own token; an
// update to the subscriber; a change to both, once. A request is refused, and a log
// message is dropped, because either could belong to any of the clients.
func TestM186MessagesOfASharedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLegacyServer("x")
		s.Capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}`
		s.On["resources/list"] = gatewaytest.ResultHandler(`{"resources":[{"uri":"file:///r","name":"r"}]}`)
		s.On["resources/templates/list"] = gatewaytest.ResultHandler(`{"resourceTemplates":[]}`)
		s.On["resources/subscribe"], s.On["logging/setLevel"] = gatewaytest.ResultHandler("{}"), gatewaytest.ResultHandler("{}")
		type call struct{ session, token string }
		arrived, gate, refused := make(chan call, 2), make(chan struct{}), make(chan string, 1)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			arrived <- call{x.R.Header.Get("Mcp-Session-Id"), string(x.Msg.Params.Raw(mcp.MetaProgressToken))}
			<-gate
			x.Result(`{"content":[]}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			refused <- string(x.Msg.Raw)
			x.Polite()
		}
		h := gatewaytest.Backends{"a": s}.Open(t, func(cfg *config.Config) { cfg.Servers[0].Share = true })

		var sessions [2]gatewaytest.Header
		var gets [2]*gatewaytest.EventStream
		var answers [2]<-chan gatewaytest.Response
		var calls [2]call
		for i := range 2 {
			sessions[i] = h.Legacy()
			h.Post(gatewaytest.LegacyRequest("0", "tools/list", ""), sessions[i])
			gets[i] = h.Listen(sessions[i])
			h.Post(gatewaytest.LegacyRequest("0", "logging/setLevel", `{"level":"debug"}`), sessions[i])
		}
		if got := h.Post(gatewaytest.LegacyRequest("1", "resources/subscribe", `{"uri":"file:///r"}`), sessions[0]); !strings.Contains(got.Body, `"result":{}`) {
			t.Fatalf("subscribe: %s", got.Body)
		}
		for i := range 2 {
			answers[i] = h.Async(gatewaytest.LegacyRequest("2", "tools/call", `{"name":"a__x","_meta":{"progressToken":1}}`), sessions[i])
			calls[i] = <-arrived
		}
		if calls[0].session != calls[1].session || calls[0].token == calls[1].token {
			t.Fatalf("the calls are %+v; want one session and two tokens", calls)
		}
		stream := s.stream(calls[0].session)
		stream <- `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
		if got := <-refused; !strings.Contains(got, `"id":"q"`) || !strings.Contains(got, "-32601") {
			t.Errorf("the question was answered by %s; want -32601", got)
		}
		stream <- `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"whose?"}}`
		stream <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":5}}`, calls[1].token)
		stream <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///r"}}`
		s.change("x", "y")
		synctest.Wait()
		close(gate)
		for i, want := range []string{"", `"progressToken":1,"progress":5`} {
			got := (<-answers[i]).Body
			if !strings.Contains(got, `"id":2,"result":`) || strings.Contains(got, "whose?") || strings.Contains(got, "progress\"") != (want != "") || !strings.Contains(got, want) {
				t.Errorf("client %d got %s; want the result and %q", i, got, want)
			}
		}
		if got := gets[0].Next(); !strings.Contains(got, `"notifications/resources/updated"`) || !strings.Contains(got, "file:///r") {
			t.Errorf("the subscriber heard %s; want the update", got)
		}
		for i, get := range gets {
			if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
				t.Errorf("client %d heard %s; want the change", i, got)
			}
			get.WantSilence(time.Minute)
		}
	})
}
