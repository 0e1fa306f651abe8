// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// CheckIDJAG checks an assertion that the identity provider has issued for the
// authorization server of a backend, before it is sent there: its typ, its audience, which
// is the issuer of that server, and its resource and its client if it names them. The
// signature is for that server to verify. Errors do not contain the assertion.
func CheckIDJAG(assertion mcp.Token, s *Server, resource, clientID string) error {
	refuse := func(name, got, want string) error {
		return &CheckError{Check: CheckIDJAGClaim, At: name, Got: got, Want: want}
	}
	parts := strings.Split(assertion.Reveal(), ".")
	if len(parts) != 3 {
		return refuse("the assertion", "", "a JWT")
	}
	var header struct {
		Type string `json:"typ"`
	}
	var claims struct {
		Audience jsontext.Value `json:"aud"`
		Resource jsontext.Value `json:"resource"`
		ClientID string         `json:"client_id"`
	}
	if !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) {
		return refuse("the assertion", "", "a JWT")
	}
	// RFC 7515, section 4.1.9: the prefix "application/" may be omitted.
	if typ := strings.TrimPrefix(strings.ToLower(header.Type), "application/"); typ != "oauth-id-jag+jwt" {
		return refuse("typ", header.Type, "oauth-id-jag+jwt")
	}
	if audience := texts(claims.Audience); len(audience) != 1 || audience[0] != s.Issuer {
		return refuse("aud", strings.Join(audience, " "), quoted(s.Issuer))
	}
	if named := texts(claims.Resource); named != nil && !slices.Contains(named, resource) {
		return refuse("resource", strings.Join(named, " "), quoted(resource))
	}
	if claims.ClientID != "" && claims.ClientID != clientID {
		return refuse("client_id", claims.ClientID, quoted(clientID))
	}
	return nil
}

func decodePart(part string, v any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, v) == nil
}

// texts returns a JSON string, or the strings of an array, or nil.
func texts(value jsontext.Value) []string {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return []string{one}
	}
	var many []string
	if json.Unmarshal(value, &many) != nil {
		return nil
	}
	return many
}
