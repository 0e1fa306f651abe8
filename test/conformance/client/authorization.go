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
	"time"

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

// accountTool is the tool of the suite's servers that takes an account.
const accountTool = "test-tool"

// How long a tool may take to be listed after a sign-in, and how often to look.
const (
	listedWithin = 10 * time.Second
	lookInterval = 50 * time.Millisecond
)

// useAccount lists and calls, which takes an account at the server. A gateway may first list
// only a tool to sign in, also after a sign-in if the server has refused that.
func useAccount(ctx context.Context, s *session) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	until := time.Now().Add(listedWithin)
	for {
		tools, err := s.tools(ctx)
		if err != nil {
			return err
		}
		gate := gateOf(tools)
		if gate == "" {
			return s.call(ctx, accountTool, struct{}{})
		}
		if time.Now().After(until) {
			return fmt.Errorf("%v after the first sign-in, there still is the tool %q", listedWithin, gate)
		}
		if err := s.call(ctx, gate, struct{}{}); err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gateOf returns the tool with which a gateway has the user sign in before it has the tools of
// the server, or "".
func gateOf(tools []item) string {
	for _, tool := range tools {
		if tool.Name == "sign_in" || strings.HasSuffix(tool.Name, "__sign_in") {
			return tool.Name
		}
	}
	return ""
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
