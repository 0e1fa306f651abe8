// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// redacted replaces the text of a Secret in all output.
const redacted = "[redacted]"

// Secret is a text that is not printed: all verbs of fmt, slog, and encoding to text or JSON
// write a placeholder. Only Reveal returns the text, so that all uses can be searched for.
// The zero value is an empty text.
type Secret struct {
	// A pointer, because fmt prints unexported strings of a struct with a Secret in an
	// unexported field, without calling its methods.
	text *string
}

// NewSecret returns a Secret with a text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Token returns the text as a token of package mcp, which is not printed either.
func (s Secret) Token() mcp.Token { return mcp.NewToken(s.Reveal()) }

// IsZero reports whether the text is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Equal reports whether two secrets have the same text, in a time that depends only on their
// lengths.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// GoString returns a placeholder.
func (s Secret) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, redacted) // a fmt.Formatter cannot report an error
}

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
