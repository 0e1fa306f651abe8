// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// maxTokenFile is more than any token has: header fields end far below.
const maxTokenFile = 16 << 10

// bearerToken is one entry of auth.tokens. The token is read at once, so that a
// missing one is found when the config is read and not when the first client
// comes.
func bearerToken() form[Token] {
	// On top of the mapping, which knows nothing of how its keys hang together.
	f := object(tokenKeys(), foreignTokenKeys())
	entry := f.read
	f.read = func(r *reader, n node, p place, into *Token) {
		entry(r, n, p, into)
		_, inEnv := n.member("env")
		_, inFile := n.member("file")
		if inEnv && inFile {
			return // judged later: one of them is wanted
		}
		// The position is that of the key's value: what is wrong there is mended there.
		if at, ok := n.member("env"); ok && into.Env != "" {
			into.Value = r.tokenFromEnv(into.Env, at.at, p.key("env"))
		}
		if at, ok := n.member("file"); ok && into.File != "" && !r.unread.there(p.key("file")) {
			into.Value = r.tokenFromFile(into.File, at.at, p.key("file"))
		}
	}
	return f
}

func (r *reader) tokenFromEnv(name string, at position, p place) Secret {
	// It may well be the token itself, so it is not shown.
	if !isVariable(name) {
		r.complain(at, p, "write the name alone, without $", "%q wants the name of an environment variable", p.name)
		return Secret{}
	}
	value, ok := "", false
	// Without an environment nothing is set.
	if r.lookup != nil {
		value, ok = r.lookup(name)
	}
	switch {
	case !ok:
		r.complain(at, p, "", "the environment variable %s, which should hold a token, is not set", name)
	case value == "":
		r.complain(at, p, "", "the environment variable %s, which should hold a token, is empty", name)
	}
	// Also an empty one: that it is empty has been said, and is not said again later.
	return NewSecret(value)
}

func (r *reader) tokenFromFile(path string, at position, p place) Secret {
	value, problem, hint := readToken(path)
	if problem != "" {
		r.complain(at, p, hint, "%s", problem)
	}
	return value
}

// readToken reads a file that holds nothing but a token, or says what is wrong
// with it. Its content is in no message.
func readToken(path string) (value Secret, problem, hint string) {
	// Before it is opened: a pipe would be waited for, and a device can have effects.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Secret{}, "the token file cannot be read: " + err.Error(), ""
	case !info.Mode().IsRegular():
		return Secret{}, fmt.Sprintf("the token file %s is not a regular file (mode %v)", path, info.Mode()), ""
	// Windows has no such bits. Others than the owner and the group need none
	// anywhere else; whoever can write the file can call as its principal.
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0:
		message := fmt.Sprintf("everybody on this machine can open the token file %s (mode %04o)", path, info.Mode().Perm())
		return Secret{}, message, "chmod 600, or mount it with mode 0400"
	}
	// The mode was that of the path and may have changed: nobody gains by that who could
	// not have put another token there at once.
	data, err := readAtMost(path, maxTokenFile)
	if err != nil {
		return Secret{}, "the token file cannot be read: " + err.Error(), ""
	}
	text := strings.TrimRight(string(data), "\r\n") // what editors end a file with
	switch {
	case text == "":
		return Secret{}, fmt.Sprintf("the token file %s is empty", path), ""
	case len(data) > maxTokenFile:
		return Secret{}, fmt.Sprintf("the token file %s is larger than %s", path, formatBytes(maxTokenFile)), ""
	}
	return NewSecret(text), "", ""
}

// source is the place of what names where a token is.
func (t *Token) source(p place) place {
	switch {
	case t.File != "":
		return p.key("file")
	case t.Env != "":
		return p.key("env")
	default:
		return p
	}
}

// origin names where a token is, for messages.
func (t *Token) origin(p place) string {
	switch {
	case t.File != "":
		return "the file " + t.File
	case t.Env != "":
		return "the environment variable " + t.Env
	default:
		return strconv.Quote(p.name)
	}
}

// notBearerHint guesses what a text is that is not a bearer token, without showing
// any of it.
func notBearerHint(text string) string {
	// The first that fits is what most likely happened.
	first, _, spaced := strings.Cut(text, " ")
	switch {
	case text[0] == '<':
		return "put a token in its place"
	case strings.HasPrefix(text, "\ufeff"):
		return "save it without a byte order mark"
	case strings.ContainsAny(text, "\r\n"):
		return "a token is one line; an entry of its own for each"
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
