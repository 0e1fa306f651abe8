// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan_test

import (
	"bytes"
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// One member is replaced, and all other bytes stay as they are.
func ExampleEdit() {
	o, err := jsonscan.ParseObject([]byte(`{"name":"files__read", "arguments":{"x":1e400}}`), jsonscan.LevelParams)
	if err != nil {
		fmt.Println(err)
		return
	}
	var e jsonscan.Edit
	e.SetText(jsonscan.FieldName, "read")
	fmt.Printf("%s\n", e.AppendTo(nil, &o))
	// Output:
	// {"name":"read", "arguments":{"x":1e400}}
}

// An error names the position and the cure.
func ExampleParseObject() {
	_, err := jsonscan.ParseObject([]byte(`{"name":"a","na\u006de":"b"}`), jsonscan.LevelParams)
	fmt.Println(err)
	// Output:
	// duplicate member "name" at byte 12; send it once
}

// Elements are removed or replaced in checked text.
func ExampleRewriteElements() {
	tools := []byte(`[{"name":"a"}, null, {"name":"b"}]`)
	fmt.Printf("%s\n", jsonscan.RewriteElements(tools, func(value []byte) []byte {
		if bytes.Equal(value, []byte("null")) {
			return nil
		}
		return value
	}))
	// Output:
	// [{"name":"a"},{"name":"b"}]
}
