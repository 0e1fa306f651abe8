// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp_test

import (
	"fmt"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A call is renamed on its way, and nothing else changes.
func Example() {
	in := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
		`"params":{"name":"files__read", "arguments":{"path":"/etc/hosts","x":1e400}}}`)
	m, err := mcp.Parse(in, mcp.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	name, _ := m.Params.Text(mcp.FieldName)
	fmt.Println(m.Kind, m.ID, m.Method, name)

	var e mcp.Edit
	e.SetText(mcp.FieldName, "read")
	e.SetText(mcp.MetaProgressToken, "p1")
	fmt.Println(string(e.AppendTo(nil, &m.Params)))
	// Output:
	// request 7 tools/call files__read
	// {"name":"read", "arguments":{"path":"/etc/hosts","x":1e400},"_meta":{"progressToken":"p1"}}
}

// A rejected message has an error with the reason, the position and the cure.
func ExampleParse_refused() {
	m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":"q","method":"ping","METHOD":"tools/call"}`), mcp.Limits{})
	fmt.Println(m.ID, err)
	// Output:
	// "q" member "METHOD" differs from "method" in letter case only at byte 42; names are case-sensitive
}

// An argument is mirrored into a header, for intermediaries that do not read the body.
func ExampleParamHeaders() {
	headers, err := mcp.ParamHeaders([]byte(`{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	arguments := []byte(`{"city":"Zürich"}`)
	for _, h := range headers {
		if value, ok, err := h.Value(arguments); ok && err == nil {
			fmt.Printf("%s: %s\n", h.Header(), mcp.EncodeHeaderValue(value))
		}
	}
	got := map[string][]string{"Mcp-Param-City": {"Bern"}}
	fmt.Println(mcp.CheckParamHeaders(headers, got, arguments))
	// Output:
	// Mcp-Param-City: =?base64?WsO8cmljaA==?=
	// header mismatch: Mcp-Param-City "Bern" does not match the body's "Z\u00fcrich" in argument "city" (code -32020)
}
