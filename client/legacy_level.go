// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ensureLevel has the session's log level be that of the next call, until that is
// over. The level is the session's (2025-11-25, server/utilities/logging). Where the
// calls are those of several clients, it is the least severe that one of them asks
// for: each gets what it has asked for, and what it has not is kept from it by the
// edge that serves it. That the level cannot be set does not concern the call.
func (s *legacySession) ensureLevel(ctx context.Context, level mcp.LogLevel) (over func()) {
	if level <= mcp.LogUnset {
		return func() {}
	}
	over = func() {}
	if s.addr.shared {
		own := level
		level = s.levels.begin(own)
		over = func() { s.levels.end(own) }
	}
	if _, err := s.tellLevel(ctx, level); err != nil {
		s.log.DebugContext(ctx, "backend did not take the log level")
	}
	return over
}

// levels are what the calls under way in one session ask for. The zero value is
// ready.
type levels struct {
	mu    sync.Mutex
	count [mcp.LogEmergency + 1]int
}

// begin notes a call and returns the least severe level that one asks for.
func (l *levels) begin(level mcp.LogLevel) mcp.LogLevel {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[level]++
	for least, n := range l.count {
		if n > 0 {
			return mcp.LogLevel(least)
		}
	}
	return level
}

// end notes that a call is over. The level is left as it is: the next call sets it.
func (l *levels) end(level mcp.LogLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[level]--
}

// tellLevel has the server know the level. One goroutine tells it at a time, and
// goes on as long as there is a newer one: a server that is slow to take levels is
// sent the last one, and not all of them side by side.
func (s *legacySession) tellLevel(ctx context.Context, level mcp.LogLevel) (res *mcp.Result, err error) {
	if len(s.offers.Logging) == 0 || !s.wantLevel(level) {
		return emptyResult()
	}
	for told, more := level, true; more; told, more = s.nextLevel(told) {
		res, err = s.setLevel(ctx, told)
	}
	return res, err
}

// wantLevel notes the level and reports whether its caller is to tell the server.
func (s *legacySession) wantLevel(level mcp.LogLevel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	tell := s.level != level && !s.telling
	s.level = level
	s.telling = s.telling || tell
	return tell
}

// nextLevel returns the level that is wanted by now, if it is not the one that
// has been told.
func (s *legacySession) nextLevel(told mcp.LogLevel) (next mcp.LogLevel, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling = s.level != told
	return s.level, s.telling
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
	return s.tellLevel(ctx, level)
}
