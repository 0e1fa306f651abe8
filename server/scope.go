// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"log/slog"
	"runtime/debug"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// endScope ends the state kept for a session. It runs functions of a Handler, and no
// caller recovers a panic: on the goroutine that sweeps, one would end the process and
// all other sessions with it.
func (s *Server) endScope(scope *mcp.Scope) {
	defer func() {
		if p := recover(); p != nil {
			s.panics.Add(1)
			s.log.Error("panic at the end of a session", slog.String("session", scope.Key()),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	scope.End()
}
