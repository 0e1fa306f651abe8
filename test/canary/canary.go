// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canary finds secrets where they must not be: in logs, in error texts, in the
// requests to a server that they are not for. A test adds each secret to a Set, and scans all
// that its programs have written and sent.
package canary

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Shortest is the length of the shortest secret, and of the parts of a secret that are looked
// for. Shorter ones are found in innocent text.
const Shortest = window

const window = 16

// gram is the length of the parts that are looked for first. Every part of window bytes has
// one at a multiple of gram, wherever it begins.
const gram = 8

// Set is a set of secrets. The zero value is empty. Its methods may be called concurrently.
type Set struct {
	mu    sync.RWMutex
	parts map[string]string   // the name of the secret, by each part of each of its forms
	grams map[[gram]byte]bool // what is in parts
	whole map[string]string   // and by what is a secret as a whole only
}

// Add adds a secret, as it is and in base64, hexadecimal and escaped for a URL. Every part
// of 16 bytes counts as the secret. Of a JSON Web Token that is every part of the signature, and
// the payload as a whole: parts of the payload, and the header, are those of other tokens
// as well.
//
// A secret that is shorter than 16 bytes fails the test, because it could not be distinguished from
// other text.
func (s *Set) Add(t testing.TB, name, secret string) {
	t.Helper()
	if err := s.Put(name, secret); err != nil {
		t.Fatalf("%v", err)
	}
}

// Put is Add for programs that are no test.
func (s *Set) Put(name, secret string) error {
	segments := strings.Split(secret, ".")
	isJWT := len(segments) == 3 && strings.HasPrefix(secret, "eyJ")
	if isJWT {
		secret = segments[2]
	}
	if len(secret) < window {
		return fmt.Errorf("canary: the secret %s is shorter than %d bytes", name, window)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts, s.grams, s.whole = make(map[string]string), make(map[[gram]byte]bool), make(map[string]string)
	}
	if isJWT {
		s.whole[segments[1]] = name
	}
	for _, form := range forms(secret) {
		for i := range len(form) - window + 1 {
			s.parts[form[i:i+window]] = name
		}
		for i := range len(form) - gram + 1 {
			s.grams[[gram]byte([]byte(form[i:i+gram]))] = true
		}
	}
	return nil
}

// forms returns the texts in which a secret may appear. Base64 depends on the position in
// the encoded text, modulo three; its first and last characters belong to the neighbours
// as well.
func forms(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for shift := range 3 {
		whole := []byte(strings.Repeat("x", shift) + secret)
		whole = whole[:len(whole)-len(whole)%3]
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString(whole)
			if shift > 0 {
				text = text[4:]
			}
			all = append(all, text)
		}
	}
	return all
}

// Leak is a secret that was found.
type Leak struct {
	Secret string // its name
	Where  string // the name of the text
	Around string // the text before it, without the secret
}

// String describes the leak without the secret.
func (l Leak) String() string {
	return fmt.Sprintf("%s: the secret %s after %q", l.Where, l.Secret, l.Around)
}

// around is the length of Leak.Around.
const around = 60

// Scan returns the secrets that are in a text, each at its first place.
func (s *Set) Scan(where, text string) []Leak {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []Leak
	seen := make(map[string]bool)
	add := func(name string, at int) {
		if at >= 0 && !seen[name] {
			seen[name] = true
			found = append(found, Leak{name, where, text[max(0, at-around):at]})
		}
	}
	next := 0 // where the first part may begin that was not looked for
	for at := 0; at+gram <= len(text); at += gram {
		if !s.grams[[gram]byte([]byte(text[at:at+gram]))] {
			continue
		}
		for next = max(next, at+gram-window); next <= min(at, len(text)-window); next++ {
			if name, ok := s.parts[text[next:next+window]]; ok {
				add(name, next)
			}
		}
	}
	for secret, name := range s.whole {
		add(name, strings.Index(text, secret))
	}
	return found
}

// longest returns the length of the longest text that is a secret.
func (s *Set) longest() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := window
	for secret := range s.whole {
		n = max(n, len(secret))
	}
	return n
}

// ScanReader is like Scan, for all that r returns.
func (s *Set) ScanReader(where string, r io.Reader) ([]Leak, error) {
	text, err := io.ReadAll(r)
	return s.Scan(where, string(text)), err
}

// ScanFiles is like Scan, for the regular files below a folder, or for one file. What does not
// exist has no secret.
func (s *Set) ScanFiles(path string) ([]Leak, error) {
	var found []Leak
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path) //nolint:gosec // a folder of the test
			found = append(found, s.Scan(path, string(text))...)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return found, err
}
