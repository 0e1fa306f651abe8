// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

type order struct {
	Dish string `json:"dish"`
}

// takeOrder asks before an action that cannot be undone.
func takeOrder(ctx context.Context, call *mux.Call, in order) (*mux.Result, error) {
	if in.Dish == "" {
		return nil, mux.Errorf("A dish has a name.") // for the model, which calls again
	}
	answer, err := call.Ask(ctx, mux.Elicit("sure", "One "+in.Dish+"?", `{"type":"object","properties":{}}`))
	if err != nil {
		return nil, err
	}
	if answer.Action() != "accept" {
		return mux.Say("No %s, then.", in.Dish), nil
	}
	return mux.Say("One %s is on its way.", in.Dish), nil
}

// A server with one tool, and a client of an older revision that uses it.
func Example() {
	m := mux.New(mux.Tool{
		Name: "order", Description: "Orders a dish.",
		InputSchema: `{"type":"object","properties":{"dish":{"type":"string"}},"required":["dish"]}`,
		Call:        mux.Bound(takeOrder),
	})
	m.Name, m.Version = "kitchen", "1"
	routes := http.NewServeMux()
	s := server.New(m, server.Config{})
	defer s.Close()
	routes.Handle("/mcp", s)

	endpoint := httptest.NewServer(routes)
	defer endpoint.Close()
	c := client.NewHTTP(endpoint.URL+"/mcp", client.Config{Version: mcp.V20250618})
	defer func() { _ = c.Close() }()
	for _, arguments := range []string{`{"dish":"soup"}`, `{"dish":""}`, `{"dish":7}`, `{}`} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"order","arguments":`+arguments+`}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Client = &mcp.Peer{Capabilities: []byte(`{"elicitation":{}}`)}
		res, err := c.Serve(context.Background(), req, yes{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", res.Raw(mcp.FieldContent))
	}
	// Output:
	// [{"type":"text","text":"One soup is on its way."}]
	// [{"type":"text","text":"A dish has a name."}]
	// [{"type":"text","text":"The arguments are invalid: /dish does not have the type required by the schema."}]
	// [{"type":"text","text":"The argument \"dish\" is missing."}]
}

// yes is a user who accepts everything.
type yes struct{}

func (yes) Notify(context.Context, *mcp.Notification) error { return nil }

func (c yes) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return c.ask(ctx, req) }, nil
}

func (yes) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (yes) ask(context.Context, *mcp.Request) (*mcp.Result, error) {
	return mcp.NewResult([]byte(`{"action":"accept","content":{}}`))
}
