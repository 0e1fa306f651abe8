// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/server"
)

func TestBearer(t *testing.T) {
	b := NewBearer([]Token{{"ann", "one-long-token"}, {"bob", "another-token"}, {"ann", "anns-next-token"}})
	huge := strings.Repeat("x", 100<<10)
	for _, tt := range []struct {
		name      string
		header    []string
		principal string
		challenge string // of the refusal
	}{
		{"first", []string{"Bearer one-long-token"}, "ann", ""},
		{"second of one principal", []string{"Bearer anns-next-token"}, "ann", ""},
		{"other", []string{"Bearer another-token"}, "bob", ""},
		{"scheme in another case", []string{"bearer another-token"}, "bob", ""},
		{"none", nil, "", challengeMissing},
		{"unknown", []string{"Bearer nope"}, "", challengeInvalid},
		{"empty", []string{"Bearer "}, "", challengeInvalid},
		{"only the scheme", []string{"Bearer"}, "", challengeInvalid},
		{"prefix of a token", []string{"Bearer one-long-toke"}, "", challengeInvalid},
		{"token with a tail", []string{"Bearer one-long-token "}, "", challengeInvalid},
		{"other scheme", []string{"Basic b25lLWxvbmctdG9rZW4="}, "", challengeInvalid},
		{"two headers", []string{"Bearer one-long-token", "Bearer another-token"}, "", challengeInvalid},
		{"huge", []string{"Bearer " + huge}, "", challengeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{}}
			for _, h := range tt.header {
				r.Header.Add("Authorization", h)
			}
			got, err := b.Authenticate(r)
			if got != tt.principal {
				t.Errorf("principal: got %q, want %q", got, tt.principal)
			}
			if tt.challenge == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			denial, ok := errors.AsType[*server.Denial](err)
			if !ok || denial.Challenge != tt.challenge {
				t.Fatalf("got %v, want a denial with the challenge %q", err, tt.challenge)
			}
			for _, h := range tt.header {
				if _, token, _ := strings.Cut(h, " "); token != "" && strings.Contains(err.Error(), token) {
					t.Errorf("the text quotes the token: %q", err)
				}
			}
		})
	}
}

// A server without tokens in its table refuses every token, the empty one too.
func TestNoTokens(t *testing.T) {
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer x"}}}
	if _, err := NewBearer(nil).Authenticate(r); err == nil {
		t.Error("let in")
	}
}
