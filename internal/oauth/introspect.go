// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"net/url"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Introspect asks a server about an access token that was presented to the gateway (RFC 7662),
// as an authenticated client, and returns the JSON of its response. The caller checks it: the
// server says by the member active whether the token counts. A refusal is of the client, and
// not of the token.
func (c *Client) Introspect(ctx context.Context, s *Server, r *Registration, token mcp.Token) ([]byte, error) {
	if s.IntrospectionEndpoint == "" {
		return nil, &CheckError{Check: CheckEndpoint, At: s.Issuer, Want: "an introspection_endpoint"}
	}
	at := *s
	if s.IntrospectionMethods != nil {
		at.AuthMethods = s.IntrospectionMethods
	}
	if s.IntrospectionAlgs != nil {
		at.SigningAlgs = s.IntrospectionAlgs
	}
	form := url.Values{"token": {token.Reveal()}, "token_type_hint": {"access_token"}}
	reply, err := c.post(ctx, &at, r, s.IntrospectionEndpoint, form, []mcp.Token{token})
	switch {
	case err != nil:
		return nil, err
	case !reply.isJSON():
		return nil, &CheckError{Check: CheckDocument, At: s.IntrospectionEndpoint, Got: reply.scrub(reply.header.Get("Content-Type")), Want: "JSON"}
	}
	return reply.body, nil
}
