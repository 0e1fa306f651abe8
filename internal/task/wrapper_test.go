// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// The requests of Await have everything that its caller can do.
func TestAwaitPassesEverything(t *testing.T) {
	callertest.CheckPackage(t, nil)
	r := new(callertest.Recorder)
	h := mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		callertest.Check(ctx, t, c, r)
		return mcp.NewResult([]byte(`{"taskId":"t","status":"completed","result":{}}`))
	})
	if _, err := Await(t.Context(), h, &mcp.Request{}, "t", r); err != nil {
		t.Error(err)
	}
}
