// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/keyring"
)

// References to secrets outside of the environment and of the file with secrets:
//
//	${file:PATH}     the content of a private file, without the line breaks at its end
//	${keyring:NAME}  an entry in the keyring of the operating system
const (
	fileReference    = "file"
	keyringReference = "keyring"
)

const (
	// maxSecretFile bounds the size of a file with one secret. A chain of certificates with
	// its key is shorter.
	maxSecretFile = 64 << 10

	maxEntryName = 128
)

// referenced is a file that a value refers to.
type referenced struct {
	path string
	at   place // the first reference
}

// entry is an entry of the keyring as it was read.
type entry struct {
	value string
	err   error
}

// stored returns the value of a reference to a file or to the keyring. It returns false for
// a reference of another kind.
func (r *reader) stored(reference string, p place, filled bool) (value string, ok bool) {
	kind, name, _ := strings.Cut(reference, ":")
	// ${file:-default} is a variable with a default, as it was before there were files.
	if strings.HasPrefix(name, "-") || kind == reference {
		return "", false
	}
	switch kind {
	case fileReference:
		value = r.referencedFile(name, p, filled)
	case keyringReference:
		value = r.keyringEntry(name, p, filled)
	default:
		return "", false
	}
	if value != "" {
		r.useSecret(value)
	}
	return value, true
}

// referencedFile returns the content of a file. Its path is relative to the folder of the
// configuration.
func (r *reader) referencedFile(name string, p place, filled bool) string {
	switch {
	case name == "":
		r.reject(p, "write ${file:PATH}", "%q has a ${file:} without a path", p.name)
		return ""
	case strings.Contains(name, "${"):
		r.reject(p, "write the path itself", "%q has a reference inside the path of a ${file:}", p.name)
		return ""
	case name == "~" || strings.HasPrefix(name, "~/"):
		r.reject(p.as(code.FileTilde), "write the whole path", "%q has a path that begins with ~, which only a shell replaces", p.name)
		return ""
	case strings.Contains(name, ":-"):
		r.reject(p, "a file has no default: write ${file:PATH} or ${NAME:-default}", "%q has a default in a ${file:}", p.name)
		return ""
	}
	path := r.resolve(name, p)
	if r.has(p) {
		return ""
	}
	if !slices.ContainsFunc(r.files, func(f referenced) bool { return f.path == path }) {
		r.files = append(r.files, referenced{path, p})
	}
	text, problem, hint := readSecretFile(path)
	switch {
	case problem != "":
		r.reject(p, hint, "%q: the file %s %s", p.name, path, problem)
	case filled && text == "":
		r.reject(p, "write the secret into it", "%q: the file %s is empty", p.name, path)
	}
	return text
}

// readSecretFile returns the content of a file with one secret, or what is wrong with it. No
// message has any of the content.
func readSecretFile(path string) (text, problem, hint string) {
	const orVariable = "or write ${NAME} and run 'signalbox secret set NAME'"
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "does not exist", "create it for your user alone (mode 0600), " + orVariable
	}
	if err != nil {
		return "", "cannot be read: " + err.Error(), ""
	}
	if problem, hint = CheckSecrets(path); problem != "" {
		return "", "is not used: " + problem, hint
	}
	// A large file is not read to be refused.
	if info.Size() > maxSecretFile {
		return "", "is larger than " + formatBytes(maxSecretFile), "write the path of a file with nothing but the secret"
	}
	data, err := readAtMost(path, maxSecretFile)
	switch {
	case err != nil:
		return "", "cannot be read: " + err.Error(), ""
	case len(data) > maxSecretFile:
		return "", "is larger than " + formatBytes(maxSecretFile), "write the path of a file with nothing but the secret"
	case !utf8.Valid(data) || slices.Contains(data, 0):
		return "", "is not text in UTF-8", "write the secret in a form of text, such as base64 or PEM"
	}
	return strings.TrimRight(string(data), "\r\n"), "", ""
}

// keyringEntry returns the value of an entry in the keyring. Each entry is read once, because
// a locked keyring asks its user.
func (r *reader) keyringEntry(name string, p place, filled bool) string {
	if !isEntryName(name) {
		r.reject(p, "write ${keyring:NAME} with letters, digits and ._-@/ in the name", "%q has a ${keyring:} without a valid name", p.name)
		return ""
	}
	e, found := r.entries[name]
	if !found {
		e.value, e.err = keyring.Get(context.Background(), name)
		if r.entries == nil {
			r.entries = make(map[string]entry)
		}
		r.entries[name] = e
	}
	const orVariable = "write ${NAME} and run 'signalbox secret set NAME'"
	switch {
	case errors.Is(e.err, keyring.ErrNoEntry):
		r.reject(p, "store it there, or "+orVariable, "%q needs the keyring entry %s of the service %q, which does not exist", p.name, name, keyring.Service)
	case e.err != nil:
		r.reject(p, orVariable, "%q needs the keyring entry %s: %v", p.name, name, e.err)
	case filled && e.value == "":
		r.reject(p, "store the secret in it", "%q needs the keyring entry %s, which is empty", p.name, name)
	}
	return e.value
}

// isEntryName reports whether a text can be the name of an entry in the keyring.
func isEntryName(name string) bool {
	notIn := func(r rune) bool {
		return !strings.ContainsRune("._-@/", r) && (r > 0x7f || !isNameByte(byte(r)))
	}
	return name != "" && len(name) <= maxEntryName && strings.IndexFunc(name, notIn) < 0
}

// useSecret adds a value to those that are removed from what the server writes.
func (r *reader) useSecret(value string) {
	if isOld := func(s Secret) bool { return s.Reveal() == value }; !slices.ContainsFunc(r.secrets.used, isOld) {
		r.secrets.used = append(r.secrets.used, NewSecret(value))
	}
}

// noteReferenced adds notes on others that may be able to write the files of ${file:}.
func (r *reader) noteReferenced(c *Config) {
	for _, f := range r.files {
		r.noteWriters(c, f.at, f.path)
	}
}

// paths returns the paths of files.
func paths(files []referenced) []string {
	var all []string
	for _, f := range files {
		all = append(all, filepath.Clean(f.path))
	}
	return all
}
