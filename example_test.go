// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

// clock is a backend in this process with one tool.
func clock() mcp.Handler {
	return mux.New(mux.Tool{
		Name: "now",
		Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("high noon"), nil },
	})
}

// ask sends one request to a Handler and prints the result.
func ask(h mcp.Handler, method, params string) {
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := h.Serve(context.Background(), req, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", res.Raw(mcp.FieldContent))
}

// A Gateway is an http.Handler for the clients. Its backends are those of a
// configuration, and Handlers of the program itself.
func ExampleNew() {
	gateway, err := signalbox.New(config.Config{}, signalbox.Options{
		InProcess: []signalbox.InProcess{{Name: "clock", Handler: clock()}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gateway.Close()
	endpoint := httptest.NewServer(gateway)
	defer endpoint.Close()

	agent := client.NewHTTP(endpoint.URL, client.Config{})
	defer agent.Close()
	ask(agent, "tools/call", `{"name":"clock__now"}`)
	// Output: [{"type":"text","text":"high noon"}]
}

// A program can write the whole configuration itself. Here a gateway with a token is a
// backend of one that requires no token.
func ExampleNew_configuration() {
	inner, err := signalbox.New(config.Config{
		Auth: config.Auth{Tokens: []config.Token{{Principal: "edge", Value: config.NewSecret("a-token-of-some-length")}}},
	}, signalbox.Options{
		InProcess: []signalbox.InProcess{{Name: "clock", Handler: clock()}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inner.Close()
	protected := httptest.NewServer(inner)
	defer protected.Close()

	unprefixed := ""
	outer, err := signalbox.New(config.Config{
		Servers: []config.Backend{{
			Name:    "inner",
			URL:     protected.URL,
			Headers: map[string]config.Secret{"Authorization": config.NewSecret("Bearer a-token-of-some-length")},
			Prefix:  &unprefixed,
		}},
	}, signalbox.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer outer.Close()
	ask(outer, "tools/call", `{"name":"clock__now"}`)
	// Output: [{"type":"text","text":"high noon"}]
}

// A server around a client is a proxy, and a bridge between the eras: here a legacy
// client uses a modern server.
func Example_bridge() {
	inner := server.New(clock(), server.Config{})
	defer inner.Close()
	modern := httptest.NewServer(inner)
	defer modern.Close()
	backend := client.NewHTTP(modern.URL, client.Config{Version: mcp.V20260728})
	defer backend.Close()
	bridge := server.New(backend, server.Config{})
	defer bridge.Close()
	endpoint := httptest.NewServer(bridge)
	defer endpoint.Close()

	agent := client.NewHTTP(endpoint.URL, client.Config{Version: mcp.V20250618})
	defer agent.Close()
	ask(agent, "tools/call", `{"name":"now"}`)
	// Output: [{"type":"text","text":"high noon"}]
}
