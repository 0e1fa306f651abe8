// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

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

// maxSkew is the difference of clocks that is tolerated in an assertion.
const maxSkew = 30 * time.Second

// CheckIDJAGLife checks the issuer of an assertion, which is the identity provider, and its
// lifetime: it has an end, which is not over, and it is not from the future.
func CheckIDJAGLife(assertion mcp.Token, issuer string, now time.Time) error {
	claims, err := readTimes(assertion, CheckIDJAGClaim, "the assertion")
	if err != nil {
		return err
	}
	if err := claims.check(CheckIDJAGClaim, issuer, now.Add(-maxSkew)); err != nil {
		return err
	}
	if issued, ok := timeOf(claims.Issued); len(claims.Issued) > 0 && (!ok || issued.After(now.Add(maxSkew))) {
		return &CheckError{Check: CheckIDJAGClaim, At: "iat", Got: string(claims.Issued), Want: "a time that is over"}
	}
	return nil
}

// CheckIDToken checks the issuer of an ID token, and that it has not expired, before it is sent
// to that issuer, which verifies it. Errors do not contain the token. One that has expired fails at
// "exp".
func CheckIDToken(token mcp.Token, issuer string, now time.Time) error {
	claims, err := readTimes(token, CheckIDTokenClaim, "the ID token")
	if err != nil {
		return err
	}
	return claims.check(CheckIDTokenClaim, issuer, now)
}

// times are claims of a JWT.
type times struct {
	Issuer  string         `json:"iss"`
	Expires jsontext.Value `json:"exp"`
	Issued  jsontext.Value `json:"iat"`
}

// check checks the issuer and the end.
func (t *times) check(check Check, issuer string, now time.Time) error {
	if t.Issuer != issuer {
		return &CheckError{Check: check, At: "iss", Got: t.Issuer, Want: quoted(issuer)}
	}
	if ends, ok := timeOf(t.Expires); !ok || !now.Before(ends) {
		return &CheckError{Check: check, At: "exp", Got: string(t.Expires), Want: "a time that is to come"}
	}
	return nil
}

// readTimes returns the claims of a JWT, which are not verified. what names it.
func readTimes(token mcp.Token, check Check, what string) (times, error) {
	var claims times
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 || !decodePart(parts[1], &claims) {
		return times{}, &CheckError{Check: check, At: what, Want: "a JWT"}
	}
	return claims, nil
}

// timeOf returns the time of a claim (RFC 7519, section 2: NumericDate).
func timeOf(claim jsontext.Value) (time.Time, bool) {
	var seconds float64
	if len(claim) == 0 || json.Unmarshal(claim, &seconds) != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}
