// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

func TestBearer(t *testing.T) {
	b := NewBearer([]Token{{"ann", "one-long-token", nil}, {"bob", "another-token", nil}, {"ann", "anns-next-token", nil}})
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
			got, err := principalOf(b.Authenticate(r))
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

// A Bearer without tokens rejects every token, including an empty one.
func TestNoTokens(t *testing.T) {
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer x"}}}
	if _, err := NewBearer(nil).Authenticate(r); err == nil {
		t.Error("let in")
	}
}

// The arguments of NewBearer may be changed afterwards, and the Bearer holds no token
// that a memory dump or %+v could reveal.
func TestBearerKeepsDigestsOnly(t *testing.T) {
	tokens := []Token{{"ann", "sesame-open-sesame", nil}}
	b := NewBearer(tokens)
	tokens[0] = Token{"eve", "token-of-eve", nil}
	if got, err := principalOf(b.Authenticate(asking("Bearer sesame-open-sesame"))); got != "ann" || err != nil {
		t.Errorf("got %q, %v, want ann", got, err)
	}
	if _, err := principalOf(b.Authenticate(asking("Bearer token-of-eve"))); err == nil {
		t.Error("a token is known that was not given")
	}
	if printed := fmt.Sprintf("%v %+v %#v %+v", b, b, b, b.tokens); strings.Contains(printed, "sesame") {
		t.Errorf("the token is printed: %s", printed)
	}
}

func asking(authorization string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": {authorization}}}
}

// The challenge for a request without a token has no error code, so that clients do not
// take it for the expiry of a token (RFC 6750, section 3.1).
func TestChallengeOfAnUnauthenticatedRequest(t *testing.T) {
	b := NewBearer([]Token{{"ann", "sesame-open-sesame", nil}})
	for _, header := range []http.Header{{}, nil, {"Authorization": nil}, {"Cookie": {"Authorization=Bearer x"}}} {
		_, err := b.Authenticate(&http.Request{Header: header})
		denial, ok := errors.AsType[*server.Denial](err)
		if !ok || denial.Challenge != "Bearer" || !strings.Contains(denial.Message, "Authorization: Bearer") {
			t.Errorf("%v: %+v, want a bare challenge and what to send", header, err)
		}
	}
}

// A token is compared as a whole: every prefix, every change of one character, and
// every other letter case is rejected.
func TestSimilarTokensAreRejected(t *testing.T) {
	const token = "aZ0-._~+/token=="
	b := NewBearer([]Token{{"ann", token, nil}})
	near := []string{strings.ToUpper(token), strings.ToLower(token), token + "=", " " + token, "\t" + token, token + token}
	for i := range token {
		near = append(near, token[:i], token[i+1:], token[:i]+"x"+token[i+1:])
	}
	for _, wrong := range near {
		if got, err := principalOf(b.Authenticate(asking("Bearer " + wrong))); err == nil || got != "" {
			t.Errorf("%q is let in as %q", wrong, got)
		}
	}
	if got, err := principalOf(b.Authenticate(asking("BEARER " + token))); got != "ann" || err != nil {
		t.Errorf("the token itself: %q, %v", got, err)
	}
}

// The limit is on the hashed text: a token of the maximal length is looked up, and a
// longer one is rejected unread.
func TestTokenLength(t *testing.T) {
	longest := strings.Repeat("x", maxToken)
	b := NewBearer([]Token{{"ann", longest, nil}, {"bob", longest + "x", nil}})
	if got, err := principalOf(b.Authenticate(asking("Bearer " + longest))); got != "ann" || err != nil {
		t.Errorf("%d bytes: %q, %v", maxToken, got, err)
	}
	if got, err := principalOf(b.Authenticate(asking("Bearer " + longest + "x"))); err == nil {
		t.Errorf("%d bytes: let in as %q", maxToken+1, got)
	}
}

// One Bearer serves concurrent requests.
func TestBearerConcurrently(t *testing.T) {
	var tokens []Token
	for i := range 8 {
		tokens = append(tokens, Token{fmt.Sprint("p", i), fmt.Sprint("sesame-open-sesame-", i), nil})
	}
	b := NewBearer(tokens)
	var wg sync.WaitGroup // waited for below; each ends after its requests
	for _, token := range tokens {
		wg.Go(func() {
			for range 100 {
				if got, err := principalOf(b.Authenticate(asking("Bearer " + token.Value))); got != token.Principal || err != nil {
					t.Errorf("%s: got %q, %v", token.Principal, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// A token that is tied to profiles is for these only. Its principal is known, and its sender
// learns nothing of what it is not for.
func TestTokenOfProfiles(t *testing.T) {
	b := NewBearer([]Token{{"ann", "anns-coding-token", []string{"coding", "chat"}}, {"ann", "anns-token", nil}})
	for _, tt := range []struct {
		token, profile string
		detail         string // of the denial
	}{
		{"anns-token", "", ""},
		{"anns-token", "research", ""},
		{"anns-coding-token", "coding", ""},
		{"anns-coding-token", "chat", ""},
		{"anns-coding-token", "research", "research"},
		{"anns-coding-token", "", "everything"},
	} {
		r := asking("Bearer " + tt.token)
		got, err := principalOf(b.Authenticate(r.WithContext(server.WithProfile(r.Context(), tt.profile))))
		denial, denied := errors.AsType[*server.Denial](err)
		if got != "ann" || denied != (tt.detail != "") || denied && (denial.Status != http.StatusNotFound || denial.Message != tt.detail) {
			t.Errorf("%s at %q: %q, %+v", tt.token, tt.profile, got, err)
		}
	}
}

// NewBearer returns a Chain that knows tokens only.
func NewBearer(tokens []Token) *Chain {
	c, err := New(Config{Tokens: tokens})
	if err != nil {
		panic(err)
	}
	return c
}

// The challenges without issuers.
const (
	challengeMissing = `Bearer`
	challengeInvalid = `Bearer error="invalid_token"`
)

// principalOf returns the principal of an identity, or "".
func principalOf(id *mcp.Identity, err error) (string, error) {
	if id == nil {
		return "", err
	}
	return id.Principal, err
}
