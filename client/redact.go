// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	maxLogged  = 200     // bytes of what is no message are logged
	maxScanned = 1 << 16 // bytes are looked through for secrets first
)

// redact takes out of a log message what the configuration gave to the server for
// itself: "Log messages MUST NOT contain: Credentials or secrets" (2026-07-28,
// server/utilities/logging). Everything else is passed on as it came, and so is the
// message's level, which has to be one. A message of which nothing can be passed on is
// none; of one with secrets in it nothing is passed on but its parameters.
func (s *setup) redact(n *mcp.Notification) (*mcp.Notification, bool) {
	if n.Method != methodMessage || s.secrets == nil {
		return n, true
	}
	raw := n.Params.Bytes()
	clean := mcp.RewriteMembers(raw, func(name string, value []byte) []byte {
		if name == mcp.FieldLevel.Key() {
			return value
		}
		return s.secrets.JSON(value)
	})
	isClean := len(clean) == len(raw) && (len(raw) == 0 || &clean[0] == &raw[0])
	if isClean && s.isClean(n.Params.Beside()) {
		return n, true
	}
	n, err := mcp.NewNotification(n.Method, clean)
	return n, err == nil
}

// isClean reports whether there is no secret in the members that stand beside an object.
func (s *setup) isClean(beside []byte) bool {
	if len(beside) == 0 {
		return true
	}
	text := mcp.AppendBeside([]byte(`{"":0}`), beside)
	return bytes.Equal(s.secrets.JSON(text), text)
}

// redactPrefix is the beginning of what is no message, as the log may have it. Secrets are
// looked for before it is cut.
func (s *setup) sanitize(text []byte) string {
	clean := s.secrets.CutText(string(text[:min(len(text), maxScanned)]))
	return sanitize(clean[:min(len(clean), maxLogged)])
}
