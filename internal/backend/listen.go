// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Listen sends a subscriptions/listen of a client to the backend, and returns when that
// has ended. It has no deadline: resources may never change. Its failure does not
// affect the state of the server, which the listen for the lists tracks.
func (b *Backend) Listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return b.cfg.Handler.Serve(ctx, req, caller)
}
