// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ToolsOf returns the tools that the server lists for clients with these features, requested in a
// temporary session. The Offer is not changed, and a list that fails is an error.
func (b *Backend) ToolsOf(ctx context.Context, p Features) (catalog.List, error) {
	if b.cfg.Turn != nil {
		defer b.cfg.Turn(ctx)()
	}
	c := b.clientOf(p)
	defer c.Scope.End()
	f := &fetcher{b: b, client: c}
	o, err := f.discover(ctx)
	if err != nil || !o.offered.has(catalog.Tools) {
		return catalog.List{}, err
	}
	return f.list(ctx, catalog.Tools)
}

// PeerOf returns the gateway itself as a client with these features.
func (b *Backend) PeerOf(p Features) *mcp.Peer { return b.clientOf(p).Peer }
