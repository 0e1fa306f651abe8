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

// logLevel are what the calls under way in one session ask for, and what its server was
// told. The zero value is ready.
type logLevel struct {
	mu      sync.Mutex
	count   [mcp.LogEmergency + 1]int
	wanted  mcp.LogLevel // last
	telling *setLevelCall
}

// setLevelCall is what tells the server a level, and whichever is wanted by then.
type setLevelCall struct {
	done chan struct{} // closed when res and err are set
	res  *mcp.Result
	err  error
}

// begin notes a call and returns the least severe level that one asks for.
func (l *logLevel) begin(level mcp.LogLevel) mcp.LogLevel {
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
func (l *logLevel) end(level mcp.LogLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[level]--
}

// want notes the level and returns what tells the server, nil where it knows. first
// reports that it is the caller who has to begin that.
func (l *logLevel) want(level mcp.LogLevel) (t *setLevelCall, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.wanted == level
	l.wanted = level
	first = l.telling == nil && !known
	if first {
		l.telling = &setLevelCall{done: make(chan struct{})}
	}
	return l.telling, first
}

// next takes in what the server has said, and returns the level that is wanted by
// now, if it is another one.
func (l *logLevel) next(told mcp.LogLevel, res *mcp.Result, err error) (next mcp.LogLevel, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted != told {
		return l.wanted, true
	}
	t := l.telling
	l.telling = nil
	t.res, t.err = res, err
	close(t.done)
	return told, false
}

// tellLevel has the server know the level. It is told by one goroutine at a time, which
// goes on as long as there is a newer one: a server that is slow to take levels is
// sent the last one, and not all of them side by side. That goroutine is nobody's
// request, because the level is not: others wait for it, and whoever came first may go.
func (s *legacySession) tellLevel(ctx context.Context, level mcp.LogLevel) (*mcp.Result, error) {
	if len(s.offers.Logging) == 0 {
		return emptyResult()
	}
	t, first := s.levels.want(level)
	if first {
		// Each level has the write deadline; the session's close waits for it and ends it.
		s.tasks.start(func(ctx context.Context) {
			for more := true; more; {
				res, err := s.setLevel(ctx, level)
				level, more = s.levels.next(level, res, err)
			}
		})
	}
	if t == nil {
		return emptyResult()
	}
	return s.awaitLevel(ctx, t)
}

// awaitLevel waits until the server was told of the newest level, for as long as
// that may take.
func (s *legacySession) awaitLevel(ctx context.Context, t *setLevelCall) (*mcp.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	select {
	case <-t.done:
		return t.res, t.err
	case <-s.gone:
		return nil, s.lossCause()
	case <-ctx.Done():
		return nil, s.givenUp(ctx, mcp.Unknown)
	}
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
