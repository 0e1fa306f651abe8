// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// IDTokens has the ID tokens that an identity provider has issued to the gateway, one for each
// principal that has signed in there with a browser. It may be used concurrently.
type IDTokens interface {
	// IDToken returns the ID token of a principal, which has been verified and has not expired,
	// or ErrNoIDToken.
	IDToken(ctx context.Context, principal string) (mcp.Token, error)
}

// ErrNoIDToken reports that a principal has no valid ID token. A sign-in at the identity
// provider is needed.
var ErrNoIDToken = errors.New("there is no ID token: a sign-in at the identity provider is needed")
