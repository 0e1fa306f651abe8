// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// jwt is a token that was decoded and not yet verified.
type jwt struct {
	text    string
	header  joseHeader
	payload []byte
	claims  map[string]any
	issuer  string
}

// joseHeader is what counts of the header of a token (RFC 7515, section 4.1). Keys in the
// header are ignored: they are from the sender.
type joseHeader struct {
	Algorithm string         `json:"alg"`
	KeyID     *string        `json:"kid"`
	Type      *string        `json:"typ"`
	Critical  jsontext.Value `json:"crit"`
}

// isCompact reports whether a text has the form of a signed token: three parts, and the first
// begins as a JSON object does in base64. One that is encrypted has five.
func isCompact(text string) bool {
	return strings.Count(text, ".") == 2 && strings.HasPrefix(text, "ey")
}

// hasHeader reports whether the first part of a text is a JSON object.
func hasHeader(text string) bool {
	first, _, _ := strings.Cut(text, ".")
	header, err := decodePart(first)
	return err == nil && jsontext.Value(header).Kind() == '{' && jsontext.Value(header).IsValid()
}

// parseJWT decodes a token of at most maxToken bytes. The error is a kind.
func parseJWT(text string) (*jwt, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return nil, malformed
	}
	header, err := decodePart(parts[0])
	if err != nil {
		return nil, malformed
	}
	t := &jwt{text: text}
	if err := json.Unmarshal(header, &t.header); err != nil {
		return nil, malformed
	}
	if t.payload, err = decodePart(parts[1]); err != nil {
		return nil, malformed
	}
	// The library skips spaces in it.
	if _, err = decodePart(parts[2]); err != nil {
		return nil, malformed
	}
	if t.claims, err = decodeClaims(t.payload); err != nil {
		return nil, malformed
	}
	issuer, ok := t.claims["iss"].(string)
	if !ok {
		return nil, malformed
	}
	t.issuer = issuer
	return t, nil
}

// decodePart decodes one part of a token. Line breaks, which the decoder would skip, are
// refused: a token has one spelling.
func decodePart(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("a line break")
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

// maxClaimDepth bounds how deep the values of claims nest.
const maxClaimDepth = 64

// decodeClaims decodes the claims of a token, with numbers as [stdjson.Number]. Duplicate
// names are refused: another reader of the token might use the other one.
func decodeClaims(raw []byte) (map[string]any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if d.PeekKind() != '{' {
		return nil, errors.New("not an object")
	}
	v, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	if d.PeekKind() != 0 {
		return nil, errors.New("more than one value")
	}
	claims, _ := v.(map[string]any)
	return claims, nil
}

func decodeValue(d *jsontext.Decoder) (any, error) {
	if d.StackDepth() > maxClaimDepth {
		return nil, errors.New("nested too deep")
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		object := make(map[string]any)
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if object[key], err = decodeValue(d); err != nil {
				return nil, err
			}
		}
		_, err = d.ReadToken()
		return object, err
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.ReadToken()
		return list, err
	case '"':
		return token.String(), nil
	case '0':
		return stdjson.Number(token.String()), nil
	case 't', 'f':
		return token.Bool(), nil
	default:
		return nil, nil
	}
}

// DefaultAlgorithms returns the signature algorithms that are accepted by default.
func DefaultAlgorithms() []string { return []string{"ES256", "ES384", "PS256", "RS256", "EdDSA"} }

// issuer verifies the tokens of one identity provider.
type issuer struct {
	name       string
	url        string
	header     string // canonical; "" is Authorization
	audiences  []string
	algorithms []jose.SignatureAlgorithm
	principal  *principal.Expression
	scopes     []string
	implied    map[string][]string // closed
	skew       time.Duration
	keys       *keySource
}

func newIssuer(cfg *Issuer, transport http.RoundTripper, log *slog.Logger) (*issuer, error) {
	iss := &issuer{
		name: cfg.Name, url: cfg.URL, header: canonical(cfg.Header), principal: cfg.Principal,
		scopes: cfg.Scopes, implied: closure(cfg.Implies), skew: cfg.Skew,
	}
	if cfg.Principal == nil {
		return nil, errors.New("no expression for the principal")
	}
	for _, audience := range cfg.Audiences {
		iss.audiences = append(iss.audiences, trimSlash(audience))
	}
	names := cfg.Algorithms
	if names == nil {
		names = DefaultAlgorithms()
	}
	for _, name := range names {
		if !slices.Contains(knownAlgorithms(), name) {
			return nil, fmt.Errorf("unknown algorithm %q", name)
		}
		iss.algorithms = append(iss.algorithms, jose.SignatureAlgorithm(name))
	}
	var err error
	iss.keys, err = newKeySource(cfg, transport, log)
	return iss, err
}

// trimSlash removes one slash at the end, with which authorization servers and clients often
// write the audience of a resource.
func trimSlash(audience string) string { return strings.TrimSuffix(audience, "/") }

// verified is a token that was verified, until it has to be verified again.
type verified struct {
	identity *mcp.Identity
	issuer   *issuer
	key      *key
	until    time.Time

	isForAll   bool     // the audience is configured, or the whole resource
	audiences  []string // else those of the token, for other paths
	lacksScope bool
}

// isFor reports whether the token is for the resource that a request is for: for the endpoint
// as a whole, or for the path.
func (v *verified) isFor(s resource, r *http.Request) bool {
	if v.isForAll {
		return true
	}
	path := ""
	for _, audience := range v.audiences {
		below, ok := strings.CutPrefix(audience, s.public)
		if ok && path == "" {
			path = trimSlash(s.of(r))
		}
		if ok && below == path {
			return true
		}
	}
	return false
}

// verify verifies a token of the issuer. The error is a kind, errUnavailable, or that of ctx.
//
// The claims are checked first, so that a token that is refused anyway costs no request for
// an unknown key. They are reported only if the signature is valid.
func (iss *issuer) verify(ctx context.Context, t *jwt, s resource, now time.Time) (*verified, error) {
	if err := iss.checkHeader(&t.header); err != nil {
		return nil, err
	}
	v, invalid := iss.read(t, s, now)
	k, err := iss.signer(ctx, t, invalid == nil)
	switch {
	case err != nil:
		return nil, err
	case invalid != nil:
		return nil, invalid
	}
	v.key, v.until = k, earliest(v.identity.Expires, now.Add(keptToken), k.knownUntil())
	return v, nil
}

// signer returns the key of the issuer that verifies the signature of a token. worthy is whether
// the token is worth a fetch of a key that is not known. The error is notVerified, errUnavailable,
// or that of ctx.
func (iss *issuer) signer(ctx context.Context, t *jwt, worthy bool) (*key, error) {
	k, err := iss.keys.find(ctx, &t.header, worthy)
	if err != nil {
		return nil, err
	}
	signed, err := jose.ParseSignedCompact(t.text, iss.algorithms)
	if err != nil {
		return nil, notVerified
	}
	if payload, err := signed.Verify(k.public); err != nil || !bytes.Equal(payload, t.payload) {
		return nil, notVerified
	}
	return k, nil
}

func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// checkHeader checks the header of a token (RFC 8725, section 3).
func (iss *issuer) checkHeader(h *joseHeader) error {
	if !slices.Contains(iss.algorithms, jose.SignatureAlgorithm(h.Algorithm)) || h.Critical != nil {
		return notVerified
	}
	if h.Type != nil {
		switch strings.TrimPrefix(strings.ToLower(*h.Type), "application/") {
		case "jwt", "at+jwt":
		default: // another kind of token, such as a logout token
			return notVerified
		}
	}
	return nil
}

// read checks the claims of a token and returns what they mean. The error is a kind.
func (iss *issuer) read(t *jwt, s resource, now time.Time) (*verified, error) {
	claims := t.claims
	if _, bound := claims["cnf"]; bound { // to a key of the client, which is not checked here
		return nil, notVerified
	}
	if _, isIDToken := claims["nonce"]; isIDToken { // which is for a client
		return nil, otherAudience
	}
	expires, err := iss.checkTimes(claims, now)
	if err != nil {
		return nil, err
	}
	v := &verified{issuer: iss}
	if v.audiences, err = texts(claims["aud"]); err != nil {
		return nil, err
	}
	if len(v.audiences) == 0 {
		return nil, otherAudience
	}
	for i, audience := range v.audiences {
		v.audiences[i] = trimSlash(audience)
	}
	accepted := iss.audiences
	if accepted == nil {
		accepted = []string{trimSlash(s.public + s.path)}
	}
	isOurs := func(audience string) bool { return strings.HasPrefix(audience, s.public+"/") }
	v.isForAll = slices.ContainsFunc(v.audiences, func(audience string) bool { return slices.Contains(accepted, audience) })
	if !v.isForAll && (iss.audiences != nil || !slices.ContainsFunc(v.audiences, isOurs)) {
		return nil, otherAudience
	}
	name, err := iss.principal.Name(claims)
	switch {
	case errors.Is(err, principal.ErrEmpty): // how an expression refuses a token
		return nil, noPrincipal
	case err != nil:
		return nil, malformed
	}
	scopes, err := iss.scopesOf(claims)
	if err != nil {
		return nil, err
	}
	subject, _ := claims["sub"].(string)
	v.lacksScope = slices.ContainsFunc(iss.scopes, func(scope string) bool { return !slices.Contains(scopes, scope) })
	v.identity = &mcp.Identity{
		Principal: iss.name + ":" + name, Via: mcp.ViaJWT, Issuer: iss.url, Subject: subject,
		Scopes: scopes, Claims: claims, Expires: expires, Token: mcp.NewToken(t.text),
	}
	return v, nil
}

// checkTimes checks the times of a token, and returns when it ends, with the skew.
func (iss *issuer) checkTimes(claims map[string]any, now time.Time) (expires time.Time, err error) {
	exp, err := timeOf(claims["exp"])
	if err != nil || exp.IsZero() {
		return time.Time{}, malformed
	}
	if expires = exp.Add(iss.skew); !now.Before(expires) {
		return time.Time{}, expired
	}
	for _, claim := range []string{"nbf", "iat"} {
		begin, err := timeOf(claims[claim])
		switch {
		case err != nil:
			return time.Time{}, malformed
		case begin.After(now.Add(iss.skew)):
			return time.Time{}, notYetValid
		}
	}
	return expires, nil
}

// timeOf returns the time of a NumericDate (RFC 7519, section 2), or zero if it is absent.
func timeOf(v any) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	number, ok := v.(stdjson.Number)
	if !ok {
		return time.Time{}, malformed
	}
	const last = 1 << 38 // in some 8000 years, so that no sum of times overflows
	seconds, err := number.Float64()
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > last {
		return time.Time{}, malformed
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*float64(time.Second))), nil
}

// scopesOf returns the scopes of a token with those that they imply, sorted. They are in
// scope (RFC 9068, section 2.2.3), or in scp as some identity providers write it.
func (iss *issuer) scopesOf(claims map[string]any) ([]string, error) {
	var all []string
	for _, claim := range []string{"scope", "scp"} {
		given, err := texts(claims[claim])
		if err != nil {
			return nil, err
		}
		for _, text := range given {
			for scope := range strings.FieldsSeq(text) {
				all = append(append(all, scope), iss.implied[scope]...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// texts returns a claim that is a text or a list of texts; nil if it is absent.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, malformed
			}
			list = append(list, text)
		}
		return list, nil
	default:
		return nil, malformed
	}
}

// closure returns for each scope all those that it implies, directly or not.
func closure(implies map[string][]string) map[string][]string {
	closed := make(map[string][]string, len(implies))
	for scope := range implies {
		var all []string
		for open := []string{scope}; len(open) > 0; open = open[1:] {
			for _, next := range implies[open[0]] {
				if next != scope && !slices.Contains(all, next) {
					all, open = append(all, next), append(open, next)
				}
			}
		}
		closed[scope] = all
	}
	return closed
}
