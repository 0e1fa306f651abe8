// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes configured credentials from texts: error messages and logs of
// a server often contain its credentials.
package redact

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Redacted replaces removed secrets.
const Redacted = "[redacted]"

const (
	// minSecret is the minimal length of a configured value that is treated as a secret
	// wherever it appears. Shorter values are often ordinary words.
	minSecret = 8

	// minStart is the minimal length of the beginning of a secret that is recognized at
	// the end of a cut text.
	minStart = 4
)

// A Redactor removes a set of secrets from texts. nil removes nothing. It is immutable, but
// for the secrets of a Recent.
type Redactor struct {
	given   []string
	secrets []string // those in all forms, the longest first
	replace *strings.Replacer
	recent  *Recent // may be nil
}

// New returns a Redactor for the values of header fields, for variables in the form
// "KEY=value" that look like secrets, and for the credentials in URLs: a password and
// the values of the query. Of credentials in a header it also removes the part after
// the scheme, and its decoded form.
func New(header http.Header, env []string, urls ...string) *Redactor {
	var secrets []string
	for name, values := range header {
		for _, v := range values {
			secrets = append(secrets, inHeader(name, v)...)
		}
	}
	for _, kv := range env {
		if name, v, _ := strings.Cut(kv, "="); !isOrdinary(name, v) {
			secrets = append(secrets, v)
		}
	}
	for _, u := range urls {
		secrets = append(secrets, inURL(u)...)
	}
	return Of(secrets...)
}

// With returns a Redactor that also removes the given texts, except for those that are too
// short, as Of.
func (r *Redactor) With(secrets ...string) *Redactor {
	if len(secrets) == 0 {
		return r
	}
	if r == nil {
		return Of(secrets...)
	}
	return Of(slices.Concat(r.given, secrets)...).And(r.recent)
}

// And returns a Redactor that also removes the secrets of recent at the time of each call.
// It replaces the Recent of r. nil has none.
func (r *Redactor) And(recent *Recent) *Redactor {
	if recent == nil {
		return r
	}
	if r == nil {
		return &Redactor{replace: strings.NewReplacer(), recent: recent}
	}
	both := *r
	both.recent = recent
	return &both
}

// Of returns a Redactor for the given texts, as they are and as programs print them with
// escapes, and for each line of a text: logs are read by the line. It ignores texts that are
// too short to differ from ordinary words.
func Of(given ...string) *Redactor {
	secrets := slices.Concat(given, linesOf(given))
	for _, s := range secrets {
		secrets = append(secrets, escapedForms(s)...)
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minSecret })
	if len(secrets) == 0 {
		return nil
	}
	// Longer secrets first, so that the rest of one with a common beginning is not
	// left.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	secrets = slices.Compact(secrets)
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, Redacted)
	}
	return &Redactor{given: slices.Clone(given), secrets: secrets, replace: strings.NewReplacer(pairs...)}
}

// linesOf returns the lines of texts that have several.
func linesOf(secrets []string) (lines []string) {
	for _, s := range secrets {
		if !strings.ContainsAny(s, "\r\n") {
			continue
		}
		for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\r' || r == '\n' }) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// escapedForms returns a text as it is between the quotes of JSON and many languages, and as
// it is between single quotes in Python, if it has anything that is escaped there.
func escapedForms(s string) []string {
	if !strings.ContainsAny(s, "\"\\\r\n\t") {
		return nil
	}
	escapes := []string{`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`}
	return []string{
		strings.NewReplacer(append(slices.Clone(escapes), `"`, `\"`)...).Replace(s),
		strings.NewReplacer(escapes...).Replace(s),
	}
}

// inHeader returns the parts of a header value that may appear alone.
func inHeader(name, value string) []string {
	scheme, credentials, _ := strings.Cut(value, " ")
	secrets := []string{value, credentials, value[strings.LastIndexByte(value, ' ')+1:]}
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Proxy-Authorization":
		// RFC 7617: a name, a colon, a password.
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			secrets = append(secrets, string(plain), password)
		}
	case "Cookie":
		for pair := range strings.SplitSeq(value, ";") {
			_, v, _ := strings.Cut(pair, "=")
			secrets = append(secrets, v)
		}
	}
	return secrets
}

func inURL(text string) (secrets []string) {
	u, err := url.Parse(text)
	if err != nil {
		return nil // nothing is ever sent there
	}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password, u.User.String())
	}
	for _, values := range u.Query() {
		for _, v := range values {
			secrets = append(secrets, v, url.QueryEscape(v))
		}
	}
	return secrets
}

// Text returns a text without the secrets.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	return r.recent.text(r.replace.Replace(s))
}

// CutText is Text for a text that may be cut off, possibly within a secret.
func (r *Redactor) CutText(s string) string {
	if r == nil {
		return s
	}
	s = r.Text(s)
	longest := r.recent.beginningAtEnd(s)
	for _, secret := range r.secrets {
		longest = max(longest, beginningAtEnd(s, secret))
	}
	if longest == 0 {
		return s
	}
	return s[:len(s)-longest] + Redacted
}
