// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ensureLevel sets the session's log level (2025-11-25, server/utilities/logging) for
// the next call. The caller must call over when the call is over. In a shared session
// the level is the least severe that a call in progress asks for; the server edge of
// each client drops the rest. A failure to set the level does not fail the call.
func (s *clientSession) ensureLevel(ctx context.Context, level mcp.LogLevel) (over func()) {
	over = func() {}
	if level <= mcp.LogUnset {
		return over
	}
	if s.routing.shared {
		own := level
		level = s.logLevel.begin(own)
		over = func() { s.logLevel.end(own) }
	}
	if _, err := s.applyLevel(ctx, level, false); err != nil {
		s.Log.DebugContext(ctx, "backend rejected the log level")
	}
	return over
}

// serveLevel serves logging/setLevel of the client that owns the session.
func (s *clientSession) serveLevel(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldLevel)
	level, ok := mcp.ParseLogLevel(name)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown log level %.40q", name)
	}
	return s.applyLevel(ctx, level, true)
}

// logLevel is the log level of one session: what its calls ask for, and what was sent
// to the server. The zero value is ready.
type logLevel struct {
	mu     sync.Mutex
	count  [mcp.LogEmergency + 1]int
	wanted mcp.LogLevel // the last one requested
	failed bool         // the server has not accepted it
	call   *setLevelCall
}

// setLevelCall sends logging/setLevel, again if another level is requested meanwhile.
type setLevelCall struct {
	done chan struct{} // closed when res and err are set
	res  *mcp.Result
	err  error
}

// begin counts a call's level and returns the least severe one.
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

// end removes a call's level. The server keeps its level until the next call sets one.
func (l *logLevel) end(level mcp.LogLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[level]--
}

// request records the level and returns the call that sends it, nil if that is over. If
// first is set, the caller must start the sending. A level that the server has not accepted
// is sent again only if retry is set: a call must not wait for that each time.
func (l *logLevel) request(level mcp.LogLevel, retry bool) (t *setLevelCall, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.wanted == level && (!l.failed || !retry)
	l.wanted = level
	first = l.call == nil && !known
	if first {
		l.call = &setLevelCall{done: make(chan struct{})}
	}
	return l.call, first
}

// next records the server's answer to the level that was sent. If another one was
// requested meanwhile, next returns that.
func (l *logLevel) next(sent mcp.LogLevel, res *mcp.Result, err error) (next mcp.LogLevel, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted != sent {
		return l.wanted, true
	}
	t := l.call
	l.call, l.failed = nil, err != nil
	t.res, t.err = res, err
	close(t.done)
	return sent, false
}

// applyLevel sends the level to the server and waits until the server has answered for the
// newest level, at most for the write deadline. retry is as in logLevel.request.
//
// One goroutine at a time sends levels, as long as there is a newer one, so that a slow
// server gets the latest one instead of all of them in parallel. That goroutine belongs
// to no request, because other requests wait for it, and the first one may give up.
func (s *clientSession) applyLevel(ctx context.Context, level mcp.LogLevel, retry bool) (*mcp.Result, error) {
	if len(s.offers.Logging) == 0 {
		return call.EmptyResult()
	}
	t, first := s.logLevel.request(level, retry)
	if first {
		// Each attempt has the write deadline. Waited for and ended by the session's
		// close.
		s.group.Start(func(ctx context.Context) {
			for more := true; more; {
				res, err := s.setLevel(ctx, level)
				level, more = s.logLevel.next(level, res, err)
			}
		})
	}
	if t == nil {
		return call.EmptyResult()
	}
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	select {
	case <-t.done:
		return t.res, t.err
	case <-s.ended:
		return nil, s.endCause()
	case <-ctx.Done():
		return nil, s.GivenUp(ctx, mcp.Unknown)
	}
}

func (s *clientSession) setLevel(ctx context.Context, level mcp.LogLevel) (*mcp.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	params := jsonscan.AppendString([]byte(`{"level":`), level.String())
	return s.ownCall(ctx, call.MethodSetLevel, append(params, '}'))
}
