// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
)

// placeholders are what people and examples write where a token should be, in lower
// case and without what separates words. What is not here is not a good token yet;
// these are the ones that are tried first.
func placeholders() []string {
	// Compared whole and not by their beginnings: a good token can begin like a word.
	return []string{
		"changeme", "changeit", "changethis", "replaceme", "replacethis", "placeholder", "fixme", "todo", "tbd",
		"secret", "mysecret", "yoursecret", "yoursecrethere", "supersecret", "topsecret", "secretkey", "secrettoken", "mysecrettoken",
		"token", "mytoken", "yourtoken", "yourtokenhere", "inserttokenhere", "replacewithyourtoken",
		"bearer", "bearertoken", "yourbearertoken", "accesstoken", "youraccesstoken", "authtoken", "apitoken", "apikey", "yourapikey", "yourapikeyhere",
		"password", "passwd", "mypassword", "yourpassword", "letmein", "admin", "root", "guest",
		"test", "testing", "testtoken", "testsecret", "example", "exampletoken", "sample", "dummy", "demo", "default",
		"foo", "bar", "foobar", "none", "null", "undefined", "123", "1234", "12345", "123456", "12345678", "123456789", "1234567890",
	}
}

// isPlaceholder reports whether a text only holds the place of a token.
func isPlaceholder(text string) bool {
	if text == "" {
		return false
	}
	word := strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.~+/=", r) {
			return -1
		}
		return r
	}, text))
	// One letter again and again, or nothing but what separates words.
	return word == "" || strings.Trim(word, word[:1]) == "" || slices.Contains(placeholders(), word)
}
