// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// SharedBound reserves memory for messages of a connection that several calls share. If
// they belong to several clients it does not wait, so that no client waits for
// another's response.
type SharedBound struct {
	wait, now context.Context //nolint:containedctx // of the reader of the connection; now has ended
	calls     *session.Calls
	served    *ClientsServed
}

// NewSharedBound returns the bound of a connection that is read until ctx ends.
func NewSharedBound(ctx context.Context, calls *session.Calls, served *ClientsServed) *SharedBound {
	now, cancel := context.WithCancel(ctx)
	cancel()
	return &SharedBound{wait: ctx, now: now, calls: calls, served: served}
}

// Room reserves memory for the response that starts with start. A response to a call
// that has ended is skipped. Other messages are limited only by their own length.
func (r *SharedBound) Room(bytes int, start []byte) error {
	ctx := r.wait
	if r.served.Size() == SeveralClients {
		ctx = r.now
	}
	id, isAnswer := parseHead(start)
	if !isAnswer {
		return nil
	}
	for range 2 { // once more if the request has ended meanwhile
		req := r.calls.Receiver(id)
		if req == nil {
			return mcp.ErrRequestEnded
		}
		err := req.Reserve(ctx, bytes)
		if !errors.Is(err, mcp.ErrRequestEnded) {
			return err
		}
	}
	if id.IsZero() {
		return nil // it may be the response to another call
	}
	return mcp.ErrRequestEnded
}

// Drop ends the call after its response was skipped, and returns its id.
func (s *Setup) Drop(ctx context.Context, calls *session.Calls, no *frame.NoRoomError) mcp.ID {
	id, _ := parseHead(no.Head)
	if id.IsZero() {
		id = tailID(no.Tail)
	}
	if !calls.Respond(id, session.Terminal{Err: no.Err}) && !errors.Is(no.Err, mcp.ErrRequestEnded) {
		s.Log.WarnContext(ctx, "backend's message was dropped; the call that it answers is unknown", slog.Any("reason", no.Err))
	}
	return id
}

// parseHead reports whether the message that starts with start is a response, and
// returns its id, or no id if that comes later in the message.
func parseHead(start []byte) (id mcp.ID, isAnswer bool) {
	start = bytes.TrimSpace(start[:min(len(start), 1<<10)])
	m, _ := mcp.Parse(start, BackendLimits()) // the error is expected: the message is incomplete
	if m.Method != "" {
		return mcp.ID{}, false
	}
	return m.ID, !m.ID.IsZero() || bytes.HasPrefix(start, []byte(`{"result"`)) || bytes.HasPrefix(start, []byte(`{"error"`))
}

// tailID returns the id of the response that ends with end, if the id is its last
// member.
func tailID(end []byte) mcp.ID {
	end, ok := bytes.CutSuffix(bytes.TrimSpace(end), []byte("}"))
	at := bytes.LastIndex(end, []byte(`"id"`))
	if !ok || at < 0 {
		return mcp.ID{}
	}
	raw, ok := bytes.CutPrefix(bytes.TrimSpace(end[at+len(`"id"`):]), []byte(":"))
	if !ok {
		return mcp.ID{}
	}
	id, err := mcp.ParseID(bytes.TrimSpace(raw))
	if err != nil {
		return mcp.ID{}
	}
	return id
}
