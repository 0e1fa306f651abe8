// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canary finds secrets where they must not be: in logs, in error texts, in the
// requests to a server that they are not for. A test adds each secret to a Set, and scans all
// that its programs have written and sent.
package canary

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// window is the length of the parts of a secret that are looked for. Shorter ones are found
// in innocent text.
const window = 16

// Set is a set of secrets. The zero value is empty. Its methods may be called concurrently.
type Set struct {
	mu    sync.Mutex
	parts map[string]string // the name of the secret, by each part of each of its forms
	whole map[string]string // and by what is a secret as a whole only
}

// Add adds a secret, as it is and in base64, hexadecimal and escaped for a URL. Every part
// of 16 bytes counts as the secret. Of a JSON Web Token that is every part of the signature, and
// the payload as a whole: parts of the payload, and the header, are those of other tokens
// as well.
//
// A secret that is shorter than 16 bytes fails the test, because it could not be told from
// other text.
func (s *Set) Add(t testing.TB, name, secret string) {
	t.Helper()
	if segments := strings.Split(secret, "."); len(segments) == 3 && strings.HasPrefix(secret, "eyJ") {
		s.mu.Lock()
		if s.whole == nil {
			s.whole = make(map[string]string)
		}
		s.whole[segments[1]] = name
		s.mu.Unlock()
		s.add(t, name, segments[2])
		return
	}
	s.add(t, name, secret)
}

func (s *Set) add(t testing.TB, name, secret string) {
	t.Helper()
	if len(secret) < window {
		t.Fatalf("canary: the secret %s is shorter than %d bytes", name, window)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = make(map[string]string)
	}
	for _, form := range forms(secret) {
		for i := range len(form) - window + 1 {
			s.parts[form[i:i+window]] = name
		}
	}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Leak
	seen := make(map[string]bool)
	add := func(name string, at int) {
		if at >= 0 && !seen[name] {
			seen[name] = true
			found = append(found, Leak{name, where, text[max(0, at-around):at]})
		}
	}
	for i := range len(text) - window + 1 {
		if name, ok := s.parts[text[i:i+window]]; ok {
			add(name, i)
		}
	}
	for secret, name := range s.whole {
		add(name, strings.Index(text, secret))
	}
	return found
}

// ScanReader is like Scan, for all that r returns.
func (s *Set) ScanReader(where string, r io.Reader) ([]Leak, error) {
	text, err := io.ReadAll(r)
	return s.Scan(where, string(text)), err
}
