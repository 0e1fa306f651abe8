// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// A Token is a credential that is not printed: all verbs of fmt, slog, and encoding to text
// or JSON write a placeholder. Only Reveal returns the text.
type Token struct {
	// A pointer, because fmt prints unexported strings of a struct with a Token in an
	// unexported field, without calling its methods.
	text *string
}

// NewToken returns a Token with a text.
func NewToken(text string) Token { return Token{text: &text} }

// Reveal returns the text.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// IsZero reports whether the text is empty.
func (t Token) IsZero() bool { return t.Reveal() == "" }

const redacted = "[redacted]"

// String returns a placeholder.
func (t Token) String() string { return redacted }

// GoString returns a placeholder.
func (t Token) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (t Token) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, redacted) // a fmt.Formatter cannot report an error
}

// LogValue returns a placeholder.
func (t Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder.
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }
