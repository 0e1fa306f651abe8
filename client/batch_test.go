// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A batch from a server is split wherever messages may arrive. Each element counts on
// its own, and an invalid element or a nested batch does not affect the others.
//
// "MCP implementations MAY support sending JSON-RPC batches, but MUST support receiving
// JSON-RPC batches." (2025-03-26, basic, "Batching")
func TestBatchOfAServer(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	forms := map[string]func(answer string) string{
		"alone":             func(a string) string { return `[` + a + `]` },
		"behind a notice":   func(a string) string { return `[` + note + `,` + a + `]` },
		"behind no message": func(a string) string { return `[5,` + note + `,{"jsonrpc":"2.0"},` + a + `]` },
		"behind a batch":    func(a string) string { return `[[` + note + `],` + note + `,` + a + `]` },
	}
	answer := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}` }
	ways := map[string]func(t *testing.T, form func(string) string) *client.Client{
		"JSON": func(t *testing.T, form func(string) string) *client.Client {
			return dialHTTP(t, &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				x.Status(200, "application/json", form(answer(x.Msg.ID.String())))
			}}}, client.Config{})
		},
		"event": func(t *testing.T, form func(string) string) *client.Client {
			return dialHTTP(t, &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				x.Event("", form(answer(x.Msg.ID.String())))
			}}}, client.Config{})
		},
		"HTTP with SSE": func(t *testing.T, form func(string) string) *client.Client {
			return dialHTTP(t, &sseServer{announce: sseEndpoint, call: func(_ *sseServer, c *sseServerConn, id string) { c.out <- form(answer(id)) }}, client.Config{})
		},
		"line": func(t *testing.T, form func(string) string) *client.Client {
			c, _ := dialLines(t, &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
				x.Send(form(answer(x.Msg.ID.String())))
			}}}, client.Config{})
			return c
		},
	}
	for way, dial := range ways {
		for name, form := range forms {
			t.Run(way+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					scope := mcp.NewScope("s", nil)
					defer scope.End()
					heard := &recorder{}
					res, err := within(t, dial(t, form), in(scope, echo(t)), heard)
					wantResult(t, res, err, `{"content":[]}`)
					var want []string
					if name != "alone" {
						want = []string{`message {"level":"info","data":1}`}
					}
					wantStrings(t, "notices", heard.got, want)
				})
			})
		}
	}
}

// An array that is not a valid batch is an invalid message and ends nothing.
func TestBrokenBatchOfAServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			x.Event("", `[]`)
			x.Event("", `[{"jsonrpc":"2.0"`)
			x.Response(`{"content":[]}`)
		}}}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
	})
}
