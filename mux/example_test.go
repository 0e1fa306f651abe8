// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

// greet has an argument with a default, and complains of a name that is none.
func greet(_ context.Context, call *mux.Call) (*mux.Result, error) {
	in := struct {
		Name string `json:"name"`
	}{Name: "stranger"}
	if err := call.Bind(&in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, mux.Errorf("Nobody has no name.")
	}
	return mux.Say("Hello, %s!", in.Name), nil
}

// A server of one tool, and a client of another revision than the last.
func Example() {
	m := mux.New(mux.Tool{
		Name:        "greet",
		InputSchema: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		Call:        greet,
	})
	s := server.New(m, server.Config{})
	defer func() { _ = s.Close() }()
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()

	c := client.NewHTTP(endpoint.URL, client.Config{Version: mcp.V20250618})
	defer func() { _ = c.Close() }()
	for _, arguments := range []string{`{}`, `{"name":"Ada"}`, `{"name":""}`, `{"name":7}`} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"greet","arguments":`+arguments+`}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		res, err := c.Serve(context.Background(), req, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", res.Raw(mcp.FieldContent))
	}
	// Output:
	// [{"type":"text","text":"Hello, stranger!"}]
	// [{"type":"text","text":"Hello, Ada!"}]
	// [{"type":"text","text":"Nobody has no name."}]
	// [{"type":"text","text":"The arguments do not fit: /name is not of the type that the schema asks for."}]
}
