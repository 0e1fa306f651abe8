// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// maxTokenFile is more than any token: header fields are far smaller.
const maxTokenFile = 16 << 10

// bearerToken is one entry of auth.tokens. The token is read immediately, so that a missing
// one is found with the configuration and not at the first request.
func bearerToken() form {
	return object(tokenKeys(), foreignTokenKeys()).then(func(r *reader, n configfile.Node, p place, into reflect.Value) {
		token := into.Addr().Interface().(*Token)
		_, inEnv := n.Member("env")
		_, inFile := n.Member("file")
		switch at := p.key("file"); {
		case inEnv && inFile: // reported by checkToken
		case token.Env != "":
			token.Value = r.tokenFromEnv(token.Env, p.key("env"))
		case token.File != "" && !r.has(at):
			value, problem, hint := readToken(token.File)
			if problem != "" {
				r.reject(at, hint, "%s", problem)
			}
			token.Value = value
		}
	})
}

func (r *reader) tokenFromEnv(name string, p place) Secret {
	// The value may be the token itself, and is not shown.
	if !valid.IsVariable(name) {
		r.reject(p, "write the name alone, without $", "%q must be the name of an environment variable", p.name)
		return Secret{}
	}
	value, ok := "", false
	// Without a lookup function no variable is set.
	if r.lookup != nil {
		value, ok = r.lookup(name)
	}
	switch {
	case !ok:
		r.reject(p, "", "the environment variable %s, which should hold a token, is not set", name)
	case value == "":
		r.reject(p, "", "the environment variable %s, which should hold a token, is empty", name)
	}
	// Set even if it is empty, which has been reported and must not be again.
	return NewSecret(value)
}

// readToken reads a file with a token, or reports what is wrong with it. No message has any
// of the content.
func readToken(path string) (value Secret, problem, hint string) {
	data, problem, hint := readRegular("token file", path, maxTokenFile, true)
	if problem != "" {
		return Secret{}, problem, hint
	}
	text := strings.TrimRight(string(data), "\r\n") // editors end files with them
	if text == "" {
		return Secret{}, fmt.Sprintf("the token file %s is empty", path), ""
	}
	return NewSecret(text), "", ""
}

// notBearerHint returns a hint for a text that is not a bearer token, without showing any of
// it.
func notBearerHint(text string) string {
	// The most likely mistakes first.
	first, _, spaced := strings.Cut(text, " ")
	switch {
	case text[0] == '<':
		return "put a token in its place"
	case strings.HasPrefix(text, "\ufeff"):
		return "save it without a byte order mark"
	case strings.ContainsAny(text, "\r\n"):
		return "a token is one line; write a separate entry for each"
	case spaced && strings.EqualFold(first, "bearer"):
		return "write the token alone, without Bearer"
	case strings.TrimSpace(text) != text:
		return "remove the spaces around it"
	case strings.ContainsAny(text[:1], `"'`):
		return "remove the quotes"
	case strings.Contains(strings.TrimRight(text, "="), "="):
		return "write the value alone, without a name"
	default:
		return "one is made of letters, digits and - . _ ~ + /"
	}
}

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
func notePlaceholders(s *Backend, p place, r *reader) {
	const cure = "write the real one"
	check := func(at place, value string) {
		if isTemplate(value) || redact.IsSecretName(at.name) && isPlaceholder(strings.TrimPrefix(value, "Bearer ")) {
			r.note(at.as(code.FilePlaceholder), cure, "%q holds a placeholder", at.name)
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
