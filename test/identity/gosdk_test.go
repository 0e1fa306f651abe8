// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/signalbox-mcp/signalbox/test/browser"
)

// playGo plays a job with the client of the Go SDK.
func playGo(ctx context.Context, j job, b *browser.Browser) (*report, error) {
	r := new(report)
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: preregistered(j.Client),
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "identity test", RedirectURIs: []string{j.Redirect}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			r.Opened = append(r.Opened, args.URL)
			at, err := signIn(ctx, b, args.URL)
			if err != nil {
				return nil, err
			}
			u, err := url.Parse(at)
			if err != nil {
				return nil, err
			}
			q := u.Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	if err := playGoWith(ctx, j, handler, r); err != nil {
		r.Error = err.Error()
	}
	return r, nil
}

func preregistered(id string) *oauthex.ClientCredentials {
	if id == "" {
		return nil
	}
	return &oauthex.ClientCredentials{ClientID: id}
}

func playGoWith(ctx context.Context, j job, handler auth.OAuthHandler, r *report) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: j.URL, OAuthHandler: handler}, &mcp.ClientSessionOptions{ProtocolVersion: j.Version})
	if err != nil {
		return err
	}
	defer session.Close()
	r.Version = session.InitializeResult().ProtocolVersion
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	for _, tool := range tools.Tools {
		r.Tools = append(r.Tools, tool.Name)
	}
	for _, c := range j.Calls {
		got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments})
		if err != nil {
			return err
		}
		var text string
		if len(got.Content) > 0 {
			if content, ok := got.Content[0].(*mcp.TextContent); ok {
				text = content.Text
			}
		}
		r.Calls = append(r.Calls, result{text, got.IsError})
	}
	return nil
}
