// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import "testing"

func TestWithExtensions(t *testing.T) {
	for _, tt := range []struct{ capabilities, others, want string }{
		{`{"tools":{}}`, `{"extensions":{"a/x":{"v":1}}}`, `{"tools":{},"extensions":{"a/x":{"v":1}}}`},
		{`{"tools":{}}`, `{"tools":{"listChanged":true}}`, `{"tools":{}}`},
		{`{"tools":{}}`, `{"extensions":{}}`, `{"tools":{}}`},
		{`{"tools":{}}`, `{"extensions":[1]}`, `{"tools":{}}`},
		{``, `{"extensions":{"a/x":{}}}`, `{"extensions":{"a/x":{}}}`},
		{`null`, `{"extensions":{"a/x":{}}}`, `{"extensions":{"a/x":{}}}`},
		{`{"tools":{}}`, ``, `{"tools":{}}`},
		// Its own have precedence, and tasks are always translated.
		{`{"extensions":{"a/x":{}},"tools":{}}`, `{"extensions":{"a/x":{"v":1},"io.modelcontextprotocol/tasks":{},"b/y":{ "w":2}}}`, `{"tools":{},"extensions":{"a/x":{},"b/y":{ "w":2}}}`},
		{`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{"v":1}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
	} {
		if got := string(WithExtensions([]byte(tt.capabilities), []byte(tt.others))); got != tt.want {
			t.Errorf("%s with %s: %s, want %s", tt.capabilities, tt.others, got, tt.want)
		}
	}
}
