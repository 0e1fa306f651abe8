// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// exposed says which argument of a tool goes into a header although its name says
// that it is a secret, or "": "Server developers SHOULD NOT mark sensitive parameters
// (passwords, API keys, tokens, PII) with x-mcp-header, as header values are visible
// to network intermediaries" (2026-07-28, server/tools). The operator is told. The
// annotation stays: a name is no proof, and a server that has one refuses calls
// without the header, which its clients have to send.
func (e *Entry) exposed() string {
	for _, p := range e.ParamHeaders {
		if argument := p.Path[len(p.Path)-1]; isSensitive(argument) || isSensitive(p.Name) {
			return fmt.Sprintf("its argument %s seems to be a secret, and goes into the header %s (x-mcp-header), where others on the way can read it",
				quote(strings.Join(p.Path, ".")), p.Header())
		}
	}
	return ""
}

// isSensitive reports whether a name is one of those that secrets have, whichever way
// its words are put together.
func isSensitive(name string) bool {
	words := wordsOf(name)
	whole := strings.Join(words, "")
	for _, w := range [...]string{"password", "passwd", "passphrase", "passcode", "secret", "credential", "apikey", "accesskey", "privatekey", "accesstoken", "authtoken"} {
		if strings.Contains(whole, w) {
			return true
		}
	}
	for i, w := range words {
		switch w {
		case "pwd", "jwt", "otp", "bearer", "authorization", "cookie", "ssn", "iban", "cvv":
			return true
		case "token":
			// A place in a list is called so, too.
			places := []string{"page", "next", "continuation", "sync"}
			return i == 0 || !slices.Contains(places, words[i-1])
		}
	}
	return false
}

// wordsOf takes a name apart where its case changes and where there is no letter.
func wordsOf(name string) []string {
	var spaced strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			spaced.WriteByte(' ')
		}
		if !unicode.IsLetter(r) {
			r = ' '
		}
		spaced.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(spaced.String())
}
