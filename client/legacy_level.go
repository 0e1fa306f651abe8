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
	// told is closed when the server knows the level, for those who wait while it is
	// being told. It is guarded by the session's lock.
	told chan struct{}

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
	if len(s.offers.Logging) == 0 {
		return emptyResult()
	}
	tell, told := s.wantLevel(level)
	if !tell {
		// A call is not to overtake the level that somebody else is telling for it.
		return s.awaitLevel(ctx, told)
	}
	for told, more := level, true; more; told, more = s.nextLevel(told) {
		res, err = s.setLevel(ctx, told)
	}
	return res, err
}

// awaitLevel waits until the server was told of the newest level, for as long as
// that may take.
func (s *legacySession) awaitLevel(ctx context.Context, told <-chan struct{}) (*mcp.Result, error) {
	if told == nil {
		return emptyResult()
	}
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	select {
	case <-told:
		return emptyResult()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wantLevel notes the level and reports whether its caller is to tell the server.
// told is closed when somebody else has told it, nil where it knows.
func (s *legacySession) wantLevel(level mcp.LogLevel) (tell bool, told <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tell = s.level != level && !s.telling
	s.level = level
	if tell {
		s.telling, s.levels.told = true, make(chan struct{})
	}
	if !s.telling {
		return false, nil
	}
	return tell, s.levels.told
}

// nextLevel returns the level that is wanted by now, if it is not the one that
// has been told.
func (s *legacySession) nextLevel(told mcp.LogLevel) (next mcp.LogLevel, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling = s.level != told
	if !s.telling {
		close(s.levels.told)
	}
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
