// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A server gets the answer to its request in the form of its revision: one content item
// before 2025-11-25, and a JSON-RPC error code for what the client did not declare.
func TestAnswersByRevision(t *testing.T) {
	missing := &mcp.Error{Code: mcp.CodeMissingCapability, Message: "not declared", Data: []byte(`{"requiredCapabilities":{"sampling":{}}}`)}
	const two = `{"role":"assistant","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`
	for _, tt := range []struct {
		name, version string
		answer        func(context.Context, *mcp.Request) (*mcp.Result, error)
		want          string
	}{
		{"the last revision", "2025-11-25", respondWith(two), `{"jsonrpc":"2.0","id":"q","result":` + two + `}`},
		{"an earlier one", "2025-06-18", respondWith(two),
			`{"jsonrpc":"2.0","id":"q","result":{"role":"assistant","model":"m","content":{"type":"text","text":"a\n\nb"}}}`},
		{"not declared", "2025-11-25", func(context.Context, *mcp.Request) (*mcp.Result, error) { return nil, missing },
			`{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"not declared","data":{"requiredCapabilities":{"sampling":{}}}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				got := make(chan string, 1)
				c, _ := dialLines(t, &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
					"initialize": func(x *faultyserver.Line) {
						x.Result(`{"protocolVersion":"` + tt.version + `","capabilities":{},"serverInfo":{"name":"zoo","version":"1"}}`)
					},
					"tools/call": func(x *faultyserver.Line) {
						x.Send(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
					},
					"response": func(x *faultyserver.Line) { got <- string(x.Msg.Raw) },
				}}, client.Config{Version: mcp.V20251125})
				call := launch(t, c, echo(t), &recorder{answer: tt.answer})
				if msg := <-got; msg != tt.want {
					t.Errorf("the server got %s, want %s", msg, tt.want)
				}
				call.cancel()
				<-call.done
			})
		})
	}
}
