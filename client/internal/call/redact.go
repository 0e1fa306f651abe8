// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Redact removes from a log message the secrets that the configuration gave to the
// server: "Log messages MUST NOT contain: Credentials or secrets" (2026-07-28,
// server/utilities/logging). Everything else is forwarded unmodified, including the
// level, which is required. Of a message with secrets only the parameters are
// forwarded. It reports false if nothing can be forwarded.
func (s *Setup) Redact(n *mcp.Notification) (*mcp.Notification, bool) {
	if n.Method != MethodMessage || s.Secrets == nil {
		return n, true
	}
	raw := n.Params.Bytes()
	clean := jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		if name == mcp.FieldLevel.Key() {
			return value
		}
		return s.Secrets.JSON(value)
	})
	isClean := len(clean) == len(raw) && (len(raw) == 0 || &clean[0] == &raw[0])
	if isClean && s.isClean(n.Params.Beside()) {
		return n, true
	}
	n, err := mcp.NewNotification(n.Method, clean)
	return n, err == nil
}

// isClean reports whether the members beside an object contain no secrets.
func (s *Setup) isClean(beside []byte) bool {
	if len(beside) == 0 {
		return true
	}
	text := jsonrpc.AppendBeside([]byte(`{"":0}`), beside)
	return bytes.Equal(s.Secrets.JSON(text), text)
}

const (
	maxLogged  = 200     // bytes of invalid output that are logged
	maxScanned = 1 << 16 // bytes that are searched for secrets first
)

// Sanitize returns the beginning of invalid output in a form that may be logged.
// Secrets are removed before the text is cut.
func (s *Setup) Sanitize(text []byte) string {
	clean := s.Secrets.CutText(string(text[:min(len(text), maxScanned)]))
	return Sanitize(clean[:min(len(clean), maxLogged)])
}

// Sanitize returns a server's text in a form that is safe for terminals and logs. It
// escapes control characters, line breaks, characters that change the writing
// direction, and invalid UTF-8. Quotes and backslashes are left to the log format,
// which escapes them itself.
func Sanitize(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && r != '\t' && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r != '\t' && isDeceptive(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func isDeceptive(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
