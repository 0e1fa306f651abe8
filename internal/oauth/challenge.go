// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// A Challenge is one challenge of a WWW-Authenticate header (RFC 9110, section 11.6.1).
type Challenge struct {
	Scheme  string            // in lower case
	Token68 string            // in place of parameters, or ""
	Params  map[string]string // names in lower case, values without quotes
}

// maxChallenges bounds the header fields and their length, in bytes, that are parsed.
const (
	maxChallengeFields = 16
	maxChallengeBytes  = 16 << 10
)

// ParseChallenges returns the challenges of one value of a WWW-Authenticate header. A
// parameter that occurs twice in one challenge is an error, as is anything else that
// RFC 9110 does not allow; there is no partial result.
func ParseChallenges(field string) ([]Challenge, error) {
	if len(field) > maxChallengeBytes {
		return nil, fmt.Errorf("the challenge has %d bytes, more than %d", len(field), maxChallengeBytes)
	}
	p := challengeParser{rest: field}
	challenges, err := p.list()
	if err != nil {
		return nil, fmt.Errorf("offset %d: %w", len(field)-len(p.rest), err)
	}
	return challenges, nil
}

// A Bearer is a challenge for a bearer token (RFC 6750, section 3, and RFC 9728, section
// 5.1). All values are untrusted.
type Bearer struct {
	ResourceMetadata string   // the URL of the metadata of the resource, or ""
	Scopes           []string // that the request needs; nil if the challenge names none
	Error            string   // such as ErrorInsufficientScope, or ""
	ErrorDescription string   // for people, or ""
}

// ErrorInsufficientScope is an error of a Bearer (RFC 6750, section 3.1).
const ErrorInsufficientScope = "insufficient_scope"

// BearerChallenge returns the challenge of a 401 or 403 response for a bearer token: the
// first that names the metadata of the resource, or else the first. Values of the header
// that do not parse are skipped. It reports whether there is one.
func BearerChallenge(h http.Header) (Bearer, bool) {
	var first *Bearer
	for i, field := range h.Values("WWW-Authenticate") {
		if i == maxChallengeFields {
			break
		}
		challenges, err := ParseChallenges(field)
		if err != nil {
			continue
		}
		for _, c := range challenges {
			if c.Scheme != "bearer" {
				continue
			}
			b := c.bearer()
			if b.ResourceMetadata != "" {
				return b, true
			}
			if first == nil {
				first = &b
			}
		}
	}
	if first == nil {
		return Bearer{}, false
	}
	return *first, true
}

func (c Challenge) bearer() Bearer {
	b := Bearer{
		ResourceMetadata: c.Params["resource_metadata"],
		Error:            c.Params["error"],
		ErrorDescription: c.Params["error_description"],
	}
	if scope, ok := c.Params["scope"]; ok {
		b.Scopes = SplitScopes(scope)
	}
	return b
}

// challengeParser reads challenges from the front of rest.
type challengeParser struct{ rest string }

// list reads #challenge, with the empty elements that RFC 9110, section 5.6.1.2, allows.
func (p *challengeParser) list() (challenges []Challenge, err error) {
	for {
		p.separators()
		if p.rest == "" {
			return challenges, nil
		}
		c, err := p.challenge()
		if err != nil {
			return nil, err
		}
		challenges = append(challenges, c)
	}
}

// challenge reads auth-scheme [ 1*SP ( token68 / #auth-param ) ], and the comma after it.
func (p *challengeParser) challenge() (Challenge, error) {
	scheme := p.token()
	if scheme == "" {
		return Challenge{}, errors.New("an authentication scheme is missing")
	}
	c := Challenge{Scheme: strings.ToLower(scheme)}
	if p.atEnd() {
		return c, nil
	}
	if !p.spaces() {
		return Challenge{}, errors.New("a space is missing after the authentication scheme")
	}
	if text, ok := p.token68(); ok {
		c.Token68 = text
		return c, nil
	}
	return c, p.params(&c)
}

// params reads the parameters of a challenge up to the next one.
func (p *challengeParser) params(c *Challenge) error {
	for {
		before := p.rest
		p.separators()
		name, ok := p.paramName()
		if !ok {
			// The start of the next challenge, or its absence.
			if c.Params == nil && p.rest != "" && !strings.ContainsRune(before[:len(before)-len(p.rest)], ',') {
				return errors.New("a parameter is missing after the authentication scheme")
			}
			return nil
		}
		value, err := p.value()
		if err != nil {
			return err
		}
		if _, twice := c.Params[name]; twice {
			return errors.New("a parameter occurs twice")
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		c.Params[name] = value
		if !p.atEnd() {
			return errors.New("a comma is missing after a parameter")
		}
	}
}

// paramName reads token BWS "=" BWS, or nothing.
func (p *challengeParser) paramName() (string, bool) {
	ahead := challengeParser{p.rest}
	name := ahead.token()
	ahead.spaces()
	if name == "" || !strings.HasPrefix(ahead.rest, "=") {
		return "", false
	}
	ahead.rest = ahead.rest[1:]
	ahead.spaces()
	p.rest = ahead.rest
	return strings.ToLower(name), true
}

// value reads ( token / quoted-string ).
func (p *challengeParser) value() (string, error) {
	if !strings.HasPrefix(p.rest, `"`) {
		value := p.token()
		if value == "" {
			return "", errors.New("the value of a parameter is missing")
		}
		return value, nil
	}
	var value strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return value.String(), nil
		case c == '\\' && i+1 < len(p.rest) && isQuotable(p.rest[i+1]):
			i++
			value.WriteByte(p.rest[i])
		case c != '\\' && isQuotable(c):
			value.WriteByte(c)
		default:
			return "", errors.New("a quoted string has an invalid character")
		}
	}
	return "", errors.New("a quoted string does not end")
}

// token68 reads a token68 if it is all that follows of this challenge.
func (p *challengeParser) token68() (string, bool) {
	n := 0
	for n < len(p.rest) && isToken68(p.rest[n]) {
		n++
	}
	if n == 0 {
		return "", false
	}
	for n < len(p.rest) && p.rest[n] == '=' {
		n++
	}
	ahead := challengeParser{p.rest[n:]}
	if !ahead.atEnd() {
		return "", false
	}
	text := p.rest[:n]
	p.rest = ahead.rest
	return text, true
}

// token reads a token, or "".
func (p *challengeParser) token() string {
	n := 0
	for n < len(p.rest) && isTokenByte(p.rest[n]) {
		n++
	}
	token := p.rest[:n]
	p.rest = p.rest[n:]
	return token
}

// atEnd reads optional whitespace, and reports whether a comma or the end follows.
func (p *challengeParser) atEnd() bool {
	ahead := strings.TrimLeft(p.rest, " \t")
	if ahead != "" && ahead[0] != ',' {
		return false
	}
	p.rest = ahead
	return true
}

func (p *challengeParser) spaces() bool {
	before := len(p.rest)
	p.rest = strings.TrimLeft(p.rest, " \t")
	return len(p.rest) < before
}

func (p *challengeParser) separators() { p.rest = strings.TrimLeft(p.rest, " \t,") }

// isTokenByte reports whether c is a tchar of RFC 9110, section 5.6.2.
func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// isToken68 reports whether c may occur in a token68 before its "=".
func isToken68(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0 }

// isQuotable reports whether c may occur in a quoted string, after a backslash or as it
// is; the caller handles the quote and the backslash.
func isQuotable(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
