// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestIsPlaceholder(t *testing.T) {
	tests := map[string]bool{
		"changeme": true, "CHANGEME": true, "ChangeMe": true, "change-me": true, "change_me": true, "change.me": true,
		"secret": true, "token": true, "password": true, "test": true, "example": true, "test-token": true,
		"your-token-here": true, "YOUR_TOKEN": true, "my-secret-token": true, "replace-with-your-token": true,
		"x": true, "xxxx": true, "XXXXxxxx-xxxx": true, "0000": true, "...": true, "----": true, "==": true,
		"": false, "tokens-of-alice": false, "s3cret-7c1f": false, "tester": false, "xyxy": false, "changeme-7c1f09": false,
		"abcdefghijklmnopqrstuvwxyz": false, "0123456789abcdef": false,
	}
	for text, want := range tests {
		if got := isPlaceholder(text); got != want {
			t.Errorf("isPlaceholder(%q) = %t, want %t", text, got, want)
		}
	}
}

// TestPlaceholderWords checks that each word of the table is found, as separators are removed
// before the comparison.
func TestPlaceholderWords(t *testing.T) {
	for _, word := range placeholders() {
		if !isPlaceholder(word) || !isPlaceholder(strings.ToUpper(word)) {
			t.Errorf("%q is in the table and never found", word)
		}
	}
}

// TestPlaceholderTokens checks that a placeholder is rejected if other machines can reach the
// listener, and is never shown.
func TestPlaceholderTokens(t *testing.T) {
	const refused = "auth.tokens[0].env: the value of the environment variable T is a placeholder, which anyone can guess"
	const noted = `"tokens[0]" holds a placeholder, which anyone can guess`
	const short = `"tokens[0]" holds a token of fewer than 16 characters, which can be guessed`
	tests := []struct{ listen, token, problem, note string }{
		{"127.0.0.1:1", "changeme", "", noted},
		{"", "replace-with-your-token", "", noted},
		{"127.0.0.1:1", "seven-7", "", short},
		{":1", "seven-7", "", short},
		{":1", "0123456789abcdef", "", ""},
		{":1", "ChangeMe", refused, noted},
		{"0.0.0.0:1", "XXXXXXXXXXXXXXXXXXXX", refused, noted},
		{"example.com:1", "your_token_here", refused, noted},
	}
	for _, tt := range tests {
		token := Token{Principal: "p", Env: "T", Value: NewSecret(tt.token)}
		j := new(reader)
		(&Config{Listen: tt.listen, Auth: Auth{Tokens: []Token{token}}}).check(j)
		problem, note := "", ""
		for _, p := range j.problems {
			problem += p.Path + ": " + p.Message
		}
		for _, n := range j.notes {
			note += n.Message
		}
		if problem != tt.problem || note != tt.note {
			t.Errorf("%q beside %q: %q, note %q; want %q, note %q", tt.token, tt.listen, problem, note, tt.problem, tt.note)
		}
		if said := append(j.problems, j.notes...).Error(); strings.Contains(said, tt.token) {
			t.Errorf("%q is shown: %s", tt.token, said)
		}
	}
}
