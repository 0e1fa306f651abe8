// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// identityKey is the key of the identity in the context of a request that Guard has passed.
type identityKey struct{}

// IdentityOf returns the sender of a request that [Server.Guard] has passed, from the context
// of the request. It is nil without authentication.
func IdentityOf(ctx context.Context) *mcp.Identity {
	id, _ := ctx.Value(identityKey{}).(*mcp.Identity)
	return id
}

// senderKey is the key of the identity of WithIdentity in a context.
type senderKey struct{}

// WithIdentity returns a context for HTTP requests of a known sender, such as those of a listener
// that only one user can reach. [Config.Authenticate] is not called for them.
func WithIdentity(ctx context.Context, id *mcp.Identity) context.Context {
	return context.WithValue(ctx, senderKey{}, id)
}
