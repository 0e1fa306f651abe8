// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/canary"
)

// sentTokens are the tokens that a test has sent to its gateway, up to a number.
type sentTokens struct {
	canary.Set

	mu  sync.Mutex
	all map[string]bool
}

// maxSent is more than a test sends, except one that sends random tokens.
const maxSent = 100

// longestSent is longer than the tokens of a provider.
const longestSent = 4 << 10

// add adds the token in a field of a header, if there is one that can be told from other text.
func (s *sentTokens) add(t *testing.T, field string) {
	t.Helper()
	token, ok := strings.CutPrefix(field, "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || s.all[token] || len(s.all) == maxSent || len(token) > longestSent || s.Put("token in a request", token) != nil {
		return
	}
	if s.all == nil {
		s.all = make(map[string]bool)
	}
	s.all[token] = true
}

// checkSent checks that nothing of them is in what the gateway has written and sent to its
// server, with the log at level debug (identity attack 41).
func (g *gateway) checkSent(t *testing.T) {
	t.Helper()
	for _, leak := range g.written(t, &g.sent.Set) {
		t.Error(leak)
	}
}

// written returns the secrets in the output of a gateway, in what it has sent to its server, and in
// its files.
func (g *gateway) written(t *testing.T, set *canary.Set) []canary.Leak {
	t.Helper()
	found := set.Scan("output", g.output.String())
	for _, e := range g.backend.Passed() {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, set.Scan("server", string(text))...)
	}
	for _, folder := range []string{g.folder, g.state} {
		files, err := set.ScanFiles(folder)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	return found
}
