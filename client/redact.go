// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"strings"
)

// minSecret is how long a configured value is, at least, that is taken for a
// secret wherever it turns up. Shorter ones are words like any other.
const minSecret = 8

// redactor takes the values out of a server's words that the configuration gave
// to the server: what it complains about is often its credentials. nil takes out
// nothing.
type redactor struct{ replace *strings.Replacer }

// newRedactor returns a redactor of the values of headers and variables, and of
// what stands in them behind the name of a scheme.
func newRedactor(header http.Header, env []string) *redactor {
	var pairs []string
	add := func(value string) {
		if len(value) >= minSecret {
			pairs = append(pairs, value, "[redacted]")
		}
	}
	for _, values := range header {
		for _, v := range values {
			add(v)
			add(v[strings.LastIndexByte(v, ' ')+1:])
		}
	}
	for _, kv := range env {
		_, v, _ := strings.Cut(kv, "=")
		add(v)
	}
	if pairs == nil {
		return nil
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

func (r *redactor) text(s string) string {
	if r == nil {
		return s
	}
	return r.replace.Replace(s)
}
