// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

func TestWithMember(t *testing.T) {
	tests := []struct{ raw, want string }{
		{``, `{"x":[1]}`},
		{`{}`, `{"x":[1]}`},
		{`{ }`, `{ "x":[1]}`},
		{`{"a":{}}`, `{"a":{},"x":[1]}`},
		{`{"a":1.0 }`, `{"a":1.0 ,"x":[1]}`},
		{`{"a":"}"}`, `{"a":"}","x":[1]}`},
	}
	for _, tt := range tests {
		raw := []byte(tt.raw)
		if got := string(jsonscan.WithMember(raw, "x", []byte(`[1]`))); got != tt.want {
			t.Errorf("WithMember(%s) = %s, want %s", tt.raw, got, tt.want)
		}
		if string(raw) != tt.raw {
			t.Errorf("WithMember has changed its argument %s to %s", tt.raw, raw)
		}
	}
}
