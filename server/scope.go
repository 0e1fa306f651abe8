// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"log/slog"
	"runtime/debug"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// endScope ends what is kept for a session. The functions that run then are a
// Handler's, and this is called where nobody else would catch a panic: on the
// goroutine that sweeps it would end the process, and with it all other sessions.
func (s *Server) endScope(scope *mcp.Scope) {
	defer func() {
		if p := recover(); p != nil {
			s.panics.Add(1)
			s.log.Error("end of a session panicked", slog.String("session", scope.Key()),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	scope.End()
}
