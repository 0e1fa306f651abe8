// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"strings"
	"testing"
)

// A short message is had whole, and one beyond the bound is refused.
func TestArrivalWhole(t *testing.T) {
	for _, in := range []string{smallCall, "", textResult(10 << 10), `{"jsonrpc`} {
		whole, err := NewArrival(strings.NewReader(in), -1, Limits{}, 1<<20).Begin()
		if err != nil || whole == nil || string(whole) != in {
			t.Errorf("%.40s: %.40s, %v", in, whole, err)
		}
	}
	_, err := NewArrival(strings.NewReader(smallCall), -1, Limits{}, 50).Begin()
	if pe, ok := errors.AsType[*ParseError](err); !ok || pe.Exceeded != LimitBytes {
		t.Errorf("a message that is too long: %v", err)
	}
}
