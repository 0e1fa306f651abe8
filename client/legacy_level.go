// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ensureLevel has the session's log level be that of the next call. The level is
// the session's (2025-11-25, server/utilities/logging), so that a session which
// several requests share has the last one's. That it cannot be set does not
// concern the call.
func (s *legacySession) ensureLevel(ctx context.Context, level mcp.LogLevel) {
	if level <= mcp.LogUnset || len(s.offers.Logging) == 0 || !s.noteLevel(level) {
		return
	}
	if _, err := s.setLevel(ctx, level); err != nil {
		s.log.DebugContext(ctx, "backend did not take the log level")
	}
}

// noteLevel notes the level and reports whether the server is to be told.
func (s *legacySession) noteLevel(level mcp.LogLevel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.level != level
	s.level = level
	return changed
}

func (s *legacySession) setLevel(ctx context.Context, level mcp.LogLevel) (*mcp.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	params := mcp.AppendString([]byte(`{"level":`), level.String())
	return s.roundTrip(ctx, methodSetLevel, append(params, '}'))
}

// serveLevel serves logging/setLevel of the session's own client.
func (s *legacySession) serveLevel(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldLevel)
	level, ok := mcp.ParseLogLevel(name)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown log level %.40q", name)
	}
	if len(s.offers.Logging) == 0 || !s.noteLevel(level) {
		return emptyResult()
	}
	return s.setLevel(ctx, level)
}
