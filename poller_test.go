// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

// polling is a server with a tool that ends the connection of its call and waits for
// the client to reconnect. result receives the result of Poll.
func polling(result chan<- bool, back <-chan struct{}) mcp.Handler {
	tools := mux.New(mux.Tool{Name: "slow", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("done"), nil }})
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/call" {
			polled := caller.Extension().Poll(time.Millisecond)
			result <- polled
			if polled {
				<-back
			}
		}
		return tools.Serve(ctx, req, caller)
	})
}

// A Handler can poll as a backend in the gateway's process, as it can behind
// server.New.
func TestHandlerPollsBehindTheGateway(t *testing.T) {
	result, back := make(chan bool, 1), make(chan struct{}, 1)
	direct := server.New(polling(result, back), server.Config{})
	gateway, err := signalbox.New(config.Config{}, signalbox.Options{
		InProcess: []signalbox.InProcess{{Name: "p", Handler: polling(result, back)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		direct.Close()
		gateway.Close()
	})
	for tool, h := range map[string]http.Handler{"slow": direct, "p__slow": gateway} {
		t.Run(tool, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") != "" {
					back <- struct{}{}
				}
				h.ServeHTTP(w, r)
			}))
			defer s.Close()
			c := client.NewHTTP(s.URL, client.Config{Version: mcp.V20251125})
			defer c.Close()
			req, err := mcp.NewRequest("tools/call", []byte(`{"name":"`+tool+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Serve(t.Context(), req, nil)
			if err != nil || string(res.Raw(mcp.FieldContent)) != `[{"type":"text","text":"done"}]` {
				t.Errorf("%v, %v", res, err)
			}
			if !<-result {
				t.Error("Poll = false")
			}
		})
	}
}
