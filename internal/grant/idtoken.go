// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// IDTokens returns the ID tokens of principals, which an identity provider has issued for the
// gateway. Its method may be called concurrently.
type IDTokens interface {
	// IDToken returns the ID token of a principal. The error is ErrNoIDToken if the principal has
	// to sign in at the identity provider.
	IDToken(ctx context.Context, principal string) (mcp.Token, error)
}

// ErrNoIDToken is the error of IDTokens for a principal without an ID token.
var ErrNoIDToken = errors.New("the principal has no ID token")
