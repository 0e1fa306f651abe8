// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The environment variables of the suite.
const (
	envScenario = "MCP_CONFORMANCE_SCENARIO"
	envContext  = "MCP_CONFORMANCE_CONTEXT" // additional data of the scenario, as JSON
)

// metadataURL is the client id with metadata that the suite knows and does not read.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// oauthOf returns the key oauth of the server of a scenario, or nil. Secrets are put into
// files of dir.
func oauthOf(dir, scenario, given string) (map[string]any, error) {
	if !strings.HasPrefix(scenario, "auth/") {
		return nil, nil //nolint:nilnil // there is none
	}
	var with struct {
		ID         string `json:"client_id"`
		Secret     string `json:"client_secret"`
		PrivateKey string `json:"private_key_pem"`
		Workload   string `json:"valid_jwt"`
		IDClient   string `json:"idp_client_id"`
		IDToken    string `json:"idp_id_token"`
		IDIssuer   string `json:"idp_issuer"`
	}
	if given != "" {
		if err := json.Unmarshal([]byte(given), &with); err != nil {
			return nil, fmt.Errorf("%s: %w", envContext, err)
		}
	}
	oauth := make(map[string]any)
	if with.PrivateKey != "" || with.Workload != "" || strings.HasPrefix(scenario, "auth/client-credentials-") {
		oauth["as"] = "gateway"
	}
	switch scenario {
	case "auth/basic-cimd": // the gateway has no https URL at which it could serve metadata
		oauth["clientId"] = metadataURL
	case "auth/2025-03-26-oauth-endpoint-fallback":
		oauth["endpoints"] = "2025-03-26"
	}
	if with.ID != "" {
		oauth["clientId"] = with.ID
	}
	for name, text := range map[string]string{"clientSecret": with.Secret, "clientKey": with.PrivateKey, "assertion": with.Workload} {
		if text == "" {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		oauth[name] = "${file:" + file + "}"
	}
	if with.Workload != "" {
		oauth["grant"], oauth["assertion"] = "jwtBearer", filepath.Join(dir, "assertion")
	}
	if with.IDToken != "" {
		return vouchedOf(dir, with.IDToken, with.IDIssuer, with.IDClient, oauth)
	}
	return oauth, nil
}

// vouchedOf returns the key oauth for a user that an identity provider vouches for, with the
// keys of the client at the authorization server. The ID token is in a file, as of a program that
// signs the user in.
func vouchedOf(dir, idToken, issuer, clientID string, server map[string]any) (map[string]any, error) {
	file := filepath.Join(dir, "idToken")
	if err := os.WriteFile(file, []byte(idToken), 0o600); err != nil {
		return nil, err
	}
	return map[string]any{
		"as": "gateway", "grant": "idJag", "issuer": issuer, "clientId": clientID, "idToken": file, "authorizationServer": server,
	}, nil
}
