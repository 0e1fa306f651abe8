// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc_test

import (
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A message of a peer gets an id of our own and goes on with one member changed.
func ExampleEditedRequest() {
	m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"files__read", "arguments":{"x":1e400}}}`), mcp.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var e mcp.Edit
	e.SetText(mcp.FieldName, "read")
	pieces := jsonrpc.EditedRequest(jsonrpc.NumberID(1), m.Method, &e, &m.Params)
	fmt.Printf("%s\n", pieces[0])
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read", "arguments":{"x":1e400}}}
}

// The headers of one call are read together; an absent argument has none.
func ExampleParamValues() {
	headers, err := mcp.ParamHeaders([]byte(`{"properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"limits":{"properties":{"rows":{"type":"integer","x-mcp-header":"Rows"}}},
		"trace":{"type":"boolean","x-mcp-header":"Trace"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, v := range jsonrpc.ParamValues(headers, []byte(`{"region":"eu","limits":{"rows":1e3}}`)) {
		fmt.Printf("%s: %q %v\n", headers[i].Header(), v.Text, v.Present)
	}
	// Output:
	// Mcp-Param-Region: "eu" true
	// Mcp-Param-Rows: "1000" true
	// Mcp-Param-Trace: "" false
}
