// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"testing"
	"testing/synctest"
	"time"
)

// identity attack 9: a token of the configuration is a whole text. A JWT that it begins with, and
// a longer text that begins with it, are other credentials.
func TestTokenThatBeginsWithAnother(t *testing.T) {
	bubble(t, nil, func(s *site) {
		synctest.Wait() // the keys are known
		old := s.corp.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
		valid := s.corp.token(nil)
		s.chain.tokens = newStaticTokens([]Token{{"longer", old + "x", nil}, {"same", old + "y.z", nil}, {"shorter", valid[:len(valid)-1], nil}})
		for _, tt := range []struct {
			name, token, want string
			refusal           error
		}{
			{"an expired JWT that a token begins with", old, "", expired},
			{"the token itself", old + "x", "longer", nil},
			{"one with more parts", old + "y.z", "same", nil},
			{"a JWT that begins with a token", valid, "corp:8f3a", nil},
			{"the token that a JWT begins with", valid[:len(valid)-1], "shorter", nil},
			{"neither", old + "z", "", malformed},
		} {
			id, err := s.as(tt.token)
			got := ""
			if id != nil {
				got = id.Principal
			}
			if got != tt.want || (err == nil) != (tt.refusal == nil) || err != nil && err.Error() != tt.refusal.Error() {
				t.Errorf("%s: got %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.refusal)
			}
		}
	})
}
