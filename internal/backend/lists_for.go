// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// Lists are all lists of a server.
type Lists [catalog.NumKinds]catalog.List

// ListsFor returns what the server offers to a client, requested on behalf of that
// client and, if it has one, in its session. A list that fails is that of the Offer,
// which is not changed.
func (b *Backend) ListsFor(ctx context.Context, c Client) (Lists, error) {
	f := &fetcher{cfg: b.cfg, limits: b.limits, client: c}
	o, err := f.discover(ctx)
	if err != nil {
		return Lists{}, err
	}
	for k := range catalog.NumKinds {
		if !o.offered.has(k) {
			continue
		}
		if o.Lists[k], err = f.list(ctx, k); err != nil {
			o.Lists[k] = b.Offer().Lists[k]
		}
	}
	return o.Lists, nil
}

// ListsOf returns what the server offers to clients of a profile, requested in a
// temporary session. The Offer is not changed.
func (b *Backend) ListsOf(ctx context.Context, p Profile) (Lists, error) {
	if b.cfg.Turn != nil {
		defer b.cfg.Turn(ctx)()
	}
	c := b.clientOf(p)
	defer c.Scope.End()
	return b.ListsFor(ctx, c)
}

// Equal reports whether both have the same items in the same order.
func (l *Lists) Equal(o *Lists) bool {
	for k := range l {
		if !slices.EqualFunc(l[k].Items, o[k].Items, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			return false
		}
	}
	return true
}
