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
// Redactor.Text does not depend on the number of secrets. The zero value is empty. Its methods may
// be called concurrently.
type Recent struct {
	mu           sync.RWMutex
	newer, older secretSet // the halves
}

// secretSet are the secrets of some header fields.
type secretSet struct {
	headers map[string]struct{} // the values of the fields
	byEnd   map[string][]string // the secrets, by their last minSecret bytes
	count   int                 // of the secrets
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
	if max(r.newer.count, len(r.newer.headers)) >= MaxRecent/2 {
		r.older, r.newer = r.newer, secretSet{}
	}
	to := &r.newer
	if to.headers == nil {
		to.headers, to.byEnd = make(map[string]struct{}), make(map[string][]string)
	}
	to.headers[value] = struct{}{}
	for _, s := range slices.Compact(secrets) {
		if len(s) < minSecret {
			continue
		}
		end := s[len(s)-minSecret:]
		if !slices.Contains(to.byEnd[end], s) {
			to.byEnd[end] = append(to.byEnd[end], s)
			to.count++
		}
	}
}

// has reports whether the value was added to the newer half.
func (r *Recent) has(value string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.newer.headers[value]
	return ok
}

// text returns a text without the secrets.
func (r *Recent) text(s string) string {
	if r == nil {
		return s
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.newer.count+r.older.count == 0 {
		return s
	}
	type part struct{ from, to int }
	var found []part // in order, and apart from each other
	for i := minSecret; i <= len(s); i++ {
		n := max(r.newer.lenAt(s[:i]), r.older.lenAt(s[:i]))
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
func (h *secretSet) lenAt(s string) int {
	longest := 0
	for _, secret := range h.byEnd[s[len(s)-minSecret:]] {
		if len(secret) > longest && strings.HasSuffix(s, secret) {
			longest = len(secret)
		}
	}
	return longest
}

// beginningAtEnd returns the length of the longest beginning of a secret that a text ends with.
func (r *Recent) beginningAtEnd(s string) (longest int) {
	if r == nil {
		return 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, half := range [...]*secretSet{&r.newer, &r.older} {
		for _, secrets := range half.byEnd {
			for _, secret := range secrets {
				longest = max(longest, beginningAtEnd(s, secret))
			}
		}
	}
	return longest
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
