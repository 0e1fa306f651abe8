// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	maxLogged  = 200     // bytes of invalid output that are logged
	maxScanned = 1 << 16 // bytes that are searched for secrets first
)

// redact removes from a log message the secrets that the configuration gave to the
// server: "Log messages MUST NOT contain: Credentials or secrets" (2026-07-28,
// server/utilities/logging). Everything else is forwarded unmodified, including the
// level, which is required. Of a message with secrets only the parameters are
// forwarded. It reports false if nothing can be forwarded.
func (s *setup) redact(n *mcp.Notification) (*mcp.Notification, bool) {
	if n.Method != methodMessage || s.secrets == nil {
		return n, true
	}
	raw := n.Params.Bytes()
	clean := jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
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

// isClean reports whether the members beside an object contain no secrets.
func (s *setup) isClean(beside []byte) bool {
	if len(beside) == 0 {
		return true
	}
	text := jsonrpc.AppendBeside([]byte(`{"":0}`), beside)
	return bytes.Equal(s.secrets.JSON(text), text)
}

// sanitize returns the beginning of invalid output in a form that may be logged.
// Secrets are removed before the text is cut.
func (s *setup) sanitize(text []byte) string {
	clean := s.secrets.CutText(string(text[:min(len(text), maxScanned)]))
	return sanitize(clean[:min(len(clean), maxLogged)])
}
