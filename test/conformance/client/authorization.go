// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// authorization is the context of a scenario about authorization: clients and assertions
// that its authorization server knows.
type authorization struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Issuer       string `json:"issuer"`
	PrivateKey   string `json:"private_key_pem"`
	Workload     string `json:"valid_jwt"`
	IDClient     string `json:"idp_client_id"`
	IDToken      string `json:"idp_id_token"`
	IDIssuer     string `json:"idp_issuer"`
}

// isAuthorization reports whether a scenario is about authorization.
func isAuthorization(name string) bool { return strings.HasPrefix(name, "auth/") }

// useAccount lists and calls, which takes an account at the server.
func useAccount(ctx context.Context, s *session) error {
	if _, err := s.tools(ctx); err != nil {
		return err
	}
	return s.call(ctx, "test-tool", struct{}{})
}

// credentialsFor returns the account of a scenario about authorization, or nil for any other.
func credentialsFor(name, server, given, dir string) (client.Credentials, error) {
	if !isAuthorization(name) {
		return nil, nil //nolint:nilnil // there are none
	}
	var with authorization
	if given != "" {
		if err := json.Unmarshal([]byte(given), &with); err != nil {
			return nil, fmt.Errorf("%s: %w", envContext, err)
		}
	}
	known, err := with.client()
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(name, "auth/client-credentials-"), with.Workload != "":
		return with.gateway(server, dir, known)
	case with.IDToken != "":
		return &assertion{server: server, known: known, idp: with.idp(), idToken: mcp.NewToken(with.IDToken)}, nil
	default:
		return newSource(server, name == "auth/2025-03-26-oauth-endpoint-fallback", known, dir)
	}
}

// gateway returns the credentials of a client that has no user. An assertion is put into a
// file of dir.
func (w authorization) gateway(server, dir string, known *oauth.Registration) (client.Credentials, error) {
	c, err := oauth.New(oauth.Config{Backend: server})
	if err != nil {
		return nil, err
	}
	cfg := grant.Config{Backend: "suite", URL: server, OAuth: c, Client: *known}
	if w.Workload != "" {
		cfg.Assertion = filepath.Join(dir, "assertion")
		if err := os.WriteFile(cfg.Assertion, []byte(w.Workload), 0o600); err != nil {
			return nil, err
		}
	}
	return grant.New(cfg)
}

// idp returns the client at the identity provider of the user's organisation.
func (w authorization) idp() *oauth.Registration {
	return &oauth.Registration{Issuer: w.IDIssuer, ClientID: w.IDClient, Source: oauth.SourceGiven}
}

// client returns the client that the authorization server knows, or nil.
func (w authorization) client() (*oauth.Registration, error) {
	if w.ClientID == "" {
		return nil, nil //nolint:nilnil // most scenarios have none
	}
	reg := &oauth.Registration{Issuer: w.Issuer, ClientID: w.ClientID, Secret: mcp.NewToken(w.ClientSecret), Source: oauth.SourceGiven}
	if w.PrivateKey != "" {
		key, err := oauth.ParseSigningKey([]byte(w.PrivateKey))
		if err != nil {
			return nil, err
		}
		reg.Key = key
	}
	return reg, nil
}
