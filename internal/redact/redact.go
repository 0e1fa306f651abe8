// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact takes out of texts what the configuration gave to a server for
// itself: what a server complains about, in its log or in ours, is often its
// credentials.
package redact

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Redacted stands where something was taken out.
const Redacted = "[redacted]"

const (
	// minSecret is how long a configured value is, at least, that is taken for a
	// secret wherever it turns up. Shorter ones are words like any other.
	minSecret = 8

	// minStart is how much of a secret, at least, is taken for the beginning of
	// one at the end of a text that was cut off.
	minStart = 4
)

// Redactor takes the values out of texts that it was made of. nil takes out
// nothing. It is immutable.
type Redactor struct {
	secrets []string // the longest first
	replace *strings.Replacer
}

// New returns a Redactor of the values of header fields, of variables in the form
// "KEY=value" that look like secrets, and of what a URL has of credentials: a password, and the values of
// its query. Of credentials in a header it is also what stands in them behind the
// name of a scheme, and what that encodes.
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

// Of returns a Redactor of texts. What is too short to be told from a word is none
// of them.
func Of(secrets ...string) *Redactor {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecret })
	if len(secrets) == 0 {
		return nil
	}
	// Of two that begin alike the longer one is looked for first, or its end would be left.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	secrets = slices.Compact(secrets)
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, Redacted)
	}
	return &Redactor{secrets, strings.NewReplacer(pairs...)}
}

// inHeader returns what in the value of a header field may be repeated by itself.
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
	return r.replace.Replace(s)
}

// CutText is Text for a text of which the end may be missing, and with it the end of
// a secret.
func (r *Redactor) CutText(s string) string {
	if r == nil {
		return s
	}
	s = r.Text(s)
	for _, secret := range r.secrets {
		for n := min(len(secret)-1, len(s)); n >= minStart; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				return s[:len(s)-n] + Redacted
			}
		}
	}
	return s
}
