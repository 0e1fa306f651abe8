// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// IsSecretName reports whether a name looks like that of a secret, however its words
// are joined.
func IsSecretName(name string) bool {
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
			// A position in a list is called a token too.
			places := []string{"page", "next", "continuation", "sync"}
			return i == 0 || !slices.Contains(places, words[i-1])
		}
	}
	return false
}

// wordsOf splits a name where its case changes and at characters other than letters.
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

// isOrdinary reports whether a variable is a plain setting of a server: a path, a word
// or an address without credentials, with a name that does not suggest a secret. Such
// values also appear in harmless texts.
func isOrdinary(name, value string) bool {
	if IsSecretName(name) || slices.ContainsFunc(wordsOf(name), isSecretWord) {
		return false
	}
	if filepath.IsAbs(value) || strings.HasPrefix(value, "~/") || strings.HasPrefix(value, "./") {
		return true
	}
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		return u.User == nil && u.RawQuery == ""
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsLetter(r) && !strings.ContainsRune("-_.,: ", r) })
}

// isSecretWord reports whether a word appears in the names of secret variables, and of
// others as well.
func isSecretWord(word string) bool {
	return slices.Contains([]string{"key", "pass", "auth", "pat", "pin", "dsn", "private", "salt", "seed", "license"}, word)
}
