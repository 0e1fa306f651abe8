// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

// tools is a server of the Go SDK with two tools: read and write. Each returns the header
// Authorization of its request, which must be that of the server's own client.
func tools() http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1.0.0"}, nil)
	for _, name := range []string{"read", "write"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: name}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			text := name + " with " + req.Extra.Header.Get("Authorization")
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
}

// serve starts a server that ends with the test.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// reference is a protected server of the Go SDK: what the clients are tried with before they
// are used to judge ours. Every request needs the scope mcp:use, and the tool write also
// mcp:write. The proxy before it records all.
func reference(t *testing.T, p *provider.Provider) (address string, between *tap.Tap) {
	t.Helper()
	mux := http.NewServeMux()
	between = tap.Before(t, serve(t, mux).URL)
	between.KeepHost = true
	mcpURL, metadata := between.URL+"/mcp", between.URL+"/.well-known/oauth-protected-resource/mcp"
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: mcpURL, AuthorizationServers: []string{p.Issuer}, ScopesSupported: []string{"mcp:use"},
	}))
	verifier := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return verify(ctx, p, token, mcpURL)
	}
	protect := auth.RequireBearerToken(verifier, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata, Scopes: []string{"mcp:use"}})
	all := tools()
	mux.Handle("/mcp", protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var message struct{ Params struct{ Name string } }
		writes := json.Unmarshal(body, &message) == nil && message.Params.Name == "write"
		if writes && !slices.Contains(auth.TokenInfoFromContext(r.Context()).Scopes, "mcp:write") {
			// The middleware of the SDK does not name the error, without which no client steps up.
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="mcp:use mcp:write", resource_metadata="`+metadata+`"`)
			http.Error(w, "insufficient scope", http.StatusForbidden)
			return
		}
		all.ServeHTTP(w, r)
	})))
	return mcpURL, between
}

// verify is a second opinion about a token, by go-jose.
func verify(ctx context.Context, p *provider.Provider, token, audience string) (*auth.TokenInfo, error) {
	keys, err := p.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(keys, &set); err != nil {
		return nil, err
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	var registered jwt.Claims
	var own struct {
		Scope string `json:"scope"`
	}
	if err := parsed.Claims(set, &registered, &own); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	if err := registered.Validate(jwt.Expected{Issuer: p.Issuer, AnyAudience: jwt.Audience{audience}, Time: time.Now()}); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	return &auth.TokenInfo{Scopes: strings.Fields(own.Scope), Expiration: registered.Expiry.Time(), UserID: registered.Subject}, nil
}

// The clients sign in at a server of the Go SDK, and step up, by themselves: what they do
// not do here they cannot show of ours.
func TestReference(t *testing.T) {
	p := provider.Start(t, provider.Settings{})
	address, _ := reference(t, p)
	t.Run("clients", func(t *testing.T) {
		for _, s := range sdks(t) {
			for _, version := range s.versions {
				t.Run(s.name+"/"+version, func(t *testing.T) {
					t.Parallel()
					j := job{URL: address, Version: version, Redirect: redirect, Calls: []call{{Name: "read"}, {Name: "write"}}}
					r, err := s.play(t.Context(), j, browser.New("ann"))
					if err != nil {
						t.Fatal(err)
					}
					if r.Error != "" || r.Version != version || !slices.Equal(r.Tools, []string{"read", "write"}) || len(r.Calls) != 2 {
						t.Fatalf("got %+v\n%s", r, r.Error)
					}
					if len(r.Opened) != 2 || !strings.Contains(r.Opened[1], "mcp%3Awrite") {
						t.Errorf("opened %q", r.Opened)
					}
				})
			}
		}
	})
}
