// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// The Caller of a Call is that of the request.
func TestCallHasEverything(t *testing.T) {
	callertest.CheckPackage(t, nil)
	r := new(callertest.Recorder)
	check := func(ctx context.Context, call *Call) { callertest.Check(ctx, t, call.Caller, r) }
	m := New(
		Tool{Name: "a", Call: func(ctx context.Context, call *Call) (*Result, error) { check(ctx, call); return Say("done"), nil }},
		Prompt{Name: "b", Get: func(ctx context.Context, call *Call) ([]Message, error) { check(ctx, call); return nil, nil }},
		Resource{URI: "c:d", Name: "c", Read: func(ctx context.Context, call *Call) ([]Contents, error) {
			check(ctx, call)
			return []Contents{TextContents("c:d", "", "x")}, nil
		}},
	)
	for method, params := range map[string]string{"tools/call": `{"name":"a"}`, "prompts/get": `{"name":"b"}`, "resources/read": `{"uri":"c:d"}`} {
		if _, err := m.Serve(t.Context(), request(t, method, params), r); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}
