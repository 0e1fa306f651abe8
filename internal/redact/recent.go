// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"
	"strings"
	"sync"
)

// MaxRecent is how many secrets a [Recent] keeps.
const MaxRecent = 10_000

// Recent are the secrets that were added last, such as the access tokens of many users, which
// change all the time. Beyond MaxRecent, it forgets the half that was added first. The time of
// a search does not depend on the number of secrets. The zero value is empty. Its methods may
// be called concurrently.
type Recent struct {
	mu        sync.RWMutex
	headers   map[string]struct{} // values of header fields that were added
	known     map[string][]string // the secrets, by their last minSecret bytes
	old       map[string][]string // those of the half before
	oldHeader map[string]struct{} // of the half before
	count     int                 // of the secrets in known
}

// AddHeader adds what New removes for the value of a header field. It is fast for a value
// that was added before.
func (r *Recent) AddHeader(name, value string) {
	if r == nil || r.has(value) {
		return
	}
	secrets := inHeader(name, value)
	for _, s := range slices.Clone(secrets) {
		secrets = append(secrets, escapedForms(s)...)
	}
	slices.Sort(secrets)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count >= MaxRecent/2 {
		r.old, r.oldHeader = r.known, r.headers
		r.known, r.headers, r.count = nil, nil, 0
	}
	if r.known == nil {
		r.known, r.headers = make(map[string][]string), make(map[string]struct{})
	}
	r.headers[value] = struct{}{}
	for _, s := range slices.Compact(secrets) {
		if len(s) < minSecret {
			continue
		}
		end := s[len(s)-minSecret:]
		if !slices.Contains(r.known[end], s) {
			r.known[end] = append(r.known[end], s)
			r.count++
		}
	}
}

// has reports whether the value was added to the newer half.
func (r *Recent) has(value string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.headers[value]
	return ok
}

// text returns a text without the secrets.
func (r *Recent) text(s string) string {
	if r == nil {
		return s
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.count == 0 {
		return s
	}
	type part struct{ from, to int }
	var found []part // in order, and apart from each other
	for i := minSecret; i <= len(s); i++ {
		n := r.lenAt(s[:i])
		if n == 0 {
			continue
		}
		next := part{i - n, i}
		for len(found) > 0 && found[len(found)-1].to > next.from {
			next.from = min(next.from, found[len(found)-1].from)
			found = found[:len(found)-1]
		}
		found = append(found, next)
	}
	if len(found) == 0 {
		return s
	}
	var out strings.Builder
	kept := 0
	for _, p := range found {
		out.WriteString(s[kept:p.from])
		out.WriteString(Redacted)
		kept = p.to
	}
	out.WriteString(s[kept:])
	return out.String()
}

// lenAt returns the length of the longest secret that a text ends with, or 0.
func (r *Recent) lenAt(s string) int {
	if len(s) < minSecret {
		return 0
	}
	longest, end := 0, s[len(s)-minSecret:]
	for _, known := range [...]map[string][]string{r.known, r.old} {
		for _, secret := range known[end] {
			if len(secret) > longest && strings.HasSuffix(s, secret) {
				longest = len(secret)
			}
		}
	}
	return longest
}

// cutText is text for a text that may be cut off within a secret.
func (r *Recent) cutText(s string) string {
	s = r.text(s)
	if r == nil {
		return s
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	longest := 0
	for _, known := range [...]map[string][]string{r.known, r.old} {
		for _, secrets := range known {
			for _, secret := range secrets {
				longest = max(longest, beginningAtEnd(s, secret))
			}
		}
	}
	if longest == 0 {
		return s
	}
	return s[:len(s)-longest] + Redacted
}

// beginningAtEnd returns the length of the longest beginning of the secret that a text ends
// with, or 0 if it is too short to be recognized.
func beginningAtEnd(s, secret string) int {
	for n := min(len(secret)-1, len(s)); n >= minStart; n-- {
		if strings.HasSuffix(s, secret[:n]) {
			return n
		}
	}
	return 0
}
