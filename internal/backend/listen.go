// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Listen sends a subscriptions/listen of a client to the backend, and returns when
// that has ended. It has no deadline: a listen on which nothing happens is one of
// resources that nobody changes. That it fails says nothing new about the server,
// whose lists are listened for anyway.
func (b *Backend) Listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return b.cfg.Handler.Serve(ctx, req, caller)
}
