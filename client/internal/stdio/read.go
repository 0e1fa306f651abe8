// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxJunk limits the lines on the server's output that are not messages.
const maxJunk = 100

// readAll is the reader goroutine. For a large response it waits for memory if the pipe
// serves only one client.
func (p *Pipe) readAll(ctx context.Context) {
	lines := frame.NewLineReader(p.remote, p.MaxMessage)
	lines.Bound(call.NewSharedBound(ctx, &p.Calls, &p.Served))
	junk := 0
	for {
		line, err := lines.Next()
		if err == nil && p.answered.Load() == nil {
			now := time.Now()
			p.answered.Store(&now)
		}
		if lines.IsAtEnd() {
			p.outputEnded()
		}
		if noRoom, ok := errors.AsType[*frame.NoRoomError](err); ok {
			p.reportAnswer(p.Drop(ctx, &p.Calls, noRoom))
			continue
		}
		if err != nil {
			p.fail(p.endReason(err))
			return
		}
		if p.handleLine(line) {
			continue
		}
		if junk++; junk == 1 {
			// It is shown, because it is often a banner printed to the wrong stream.
			// Later lines are only counted.
			shown := p.Sanitize(line)
			p.OtherOutput.Store(&shown)
			p.Log.LogAttrs(ctx, slog.LevelWarn, "backend wrote a line to its output that is not a message", slog.String("line", shown))
		}
		if junk >= maxJunk {
			p.fail(call.Because(code.TalkOtherOutput, p.Lost(nil, "it wrote %d lines to its output that are not messages", junk)))
			return
		}
	}
}

// outputEnded stops writing to a remote end that has closed its output. It runs before
// the last line is handled, because the caller that receives that line may send the
// next request at once. Calls in progress end later, when the exit reason is known.
func (p *Pipe) outputEnded() {
	p.stopWriting(nil)
	if f := p.handlers.Load().EOF; f != nil {
		f()
	}
	p.Slot.MarkClosing() // before the calls, because their callers may ask for a slot
	p.Calls.Close(call.Because(code.TalkExited, p.Unavailable(nil, "it has closed its output")))
}

// endReason returns the error of the calls in progress when reading ended.
func (p *Pipe) endReason(err error) error {
	if long, ok := errors.AsType[*frame.TooLongError](err); ok {
		return p.TooLong(long)
	}
	how, reason := p.remote.ExitReason(p.Served.Size())
	if how == "" {
		how = "it closed its output"
	}
	return call.Because(reason, p.Lost(err, "%s", how))
}

// handleLine processes one line. It reports false if the line is not a message.
func (p *Pipe) handleLine(line []byte) bool {
	if jsonrpc.IsBatch(line) {
		return p.handleBatch(line)
	}
	m, err := mcp.Parse(line, call.BackendLimits())
	switch {
	// An invalid response ends its call. A log line that contains an "id" does not.
	case err != nil && !m.ID.IsZero() && bytes.Contains(line, []byte("jsonrpc")):
		return p.Calls.Respond(m.ID, session.Terminal{Err: p.Malformed(err)})
	case err != nil:
		return false
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		p.Respond(&p.Calls, m.ID, &m)
		p.reportAnswer(m.ID)
	default:
		if f := p.handlers.Load().Message; f != nil {
			kept := m // copied because it escapes; most messages are responses, which do not
			f(&kept)
		}
	}
	return true
}

// reportAnswer reports a response to the handler, whatever became of its call.
func (p *Pipe) reportAnswer(id mcp.ID) {
	if f := p.handlers.Load().Answered; f != nil {
		f(id)
	}
}

// handleBatch processes the elements of a batch (2025-03-26). Invalid elements do not
// affect the others, but the line then counts as invalid.
func (p *Pipe) handleBatch(line []byte) bool {
	parts, err := jsonrpc.SplitBatch(line, call.MaxBatch, call.BackendLimits())
	if err != nil {
		return false
	}
	all := true
	for _, part := range parts {
		// Batches do not nest. Nesting would also be recursion without a limit.
		if jsonrpc.IsBatch(part) || !p.handleLine(part) {
			all = false
		}
	}
	return all
}
