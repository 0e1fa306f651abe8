// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// No wrapper of a Caller loses what the Caller can do.
func TestWrappersPassEverything(t *testing.T) {
	callertest.CheckPackage(t, map[string]callertest.Wrapper{
		"deadline": {Wrap: func(c mcp.Caller) mcp.Caller {
			_, d := newLimits(&Config{}).begin(t.Context(), c)
			t.Cleanup(d.stop)
			return d
		}},
	})
}

// A Handler has everything that the Caller of the Backend can do.
func TestBackendPassesEverything(t *testing.T) {
	r := new(callertest.Recorder)
	b := New(Config{Name: "a", Handler: mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		callertest.Check(ctx, t, c, r)
		return &mcp.Result{}, nil
	})})
	if _, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, r); err != nil {
		t.Error(err)
	}
}
