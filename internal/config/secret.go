// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what every way of printing a Secret shows.
const redacted = "[redacted]"

// Secret is a text that is not printed: every verb of fmt, slog, and encoding
// to text or JSON show a placeholder. Reveal is the only way to the text, so
// that a search for it finds every use. The zero value is an empty text.
type Secret struct {
	// A pointer, because fmt prints the unexported strings of a struct that
	// holds a Secret in an unexported field without asking the Secret.
	text *string
}

// NewSecret returns a Secret that holds a text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the text is empty.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Equal reports whether two secrets hold the same text, in a time that depends
// only on their lengths.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// GoString returns a placeholder.
func (s Secret) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, redacted) // fmt gives its callers no way to report it
}

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
