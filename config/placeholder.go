// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// placeholders returns texts that people and examples write in place of a token, in lower
// case and without separators. A text that is not listed is not necessarily a good token;
// these are the ones that attackers try first.
func placeholders() []string {
	// Compared as a whole: a good token may begin with a word.
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

// isPlaceholder reports whether text is a placeholder of a token.
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
	// A single repeated letter, or separators only.
	return word == "" || strings.Trim(word, word[:1]) == "" || slices.Contains(placeholders(), word)
}

// isTemplate reports whether text is an example that should have been replaced, such as
// <YOUR_TOKEN>, your-api-key or /path/to/folder.
func isTemplate(text string) bool {
	text = strings.TrimPrefix(text, "Bearer ")
	if inside, ok := strings.CutPrefix(text, "<"); ok && strings.HasSuffix(inside, ">") && len(inside) > 1 {
		return true
	}
	lower := strings.ToLower(text)
	return slices.ContainsFunc([]string{"your-", "your_", "replace-", "replace_", "insert-", "insert_", "/path/to/", "path/to/"}, func(begin string) bool {
		return strings.HasPrefix(lower, begin)
	})
}

// notePlaceholders notes values that were copied from an example. It shows no value.
func notePlaceholders(s *Backend, p place, j *validator) {
	const cure = "write the real one"
	check := func(at place, value string) {
		if isTemplate(value) || redact.IsSecretName(at.name) && isPlaceholder(strings.TrimPrefix(value, "Bearer ")) {
			j.note(at, cure, "%q holds a placeholder", at.name)
		}
	}
	for _, values := range []struct {
		at      place
		secrets map[string]Secret
	}{{p.key("env"), s.Env}, {p.key("headers"), s.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(values.secrets)) {
			check(values.at.key(name), values.secrets[name].Reveal())
		}
	}
	for i, arg := range s.Args {
		if _, value, ok := strings.Cut(arg, "="); ok {
			arg = value
		}
		check(p.key("args").item(i), arg)
	}
	check(p.key("url"), s.URL)
	check(p.key("cwd"), s.Cwd)
}
