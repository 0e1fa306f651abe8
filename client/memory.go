// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Room makes room for the answer to the call, and ends the call where there is none. The
// server is not read from meanwhile.
func (c *httpCall) Room(bytes int, _ []byte) error {
	err := c.outbound.req.Reserve(&c.life, bytes)
	if err != nil {
		c.fail(err)
	}
	return err
}

// meteredReader makes room for a document as it is read.
type meteredReader struct {
	io.Reader
	bound frame.Bound // nil before it is known that the document is to be held
	have  int
	most  int // bytes that there is room for
}

// Read reads on.
func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.have += n
	if r.bound == nil || r.have <= r.most {
		return n, err
	}
	r.most = 2 * r.have
	if no := r.bound.Room(r.most, nil); no != nil {
		return n, no
	}
	return n, err
}

// sharedRoom makes room for messages of a connection that calls share. Where their clients
// are several it does not wait, so that none waits for what another reads.
type sharedBound struct {
	wait, now context.Context //nolint:containedctx // of the reader of the connection; now has ended
	calls     *session.Calls
	served    *clientsServed
}

func newSharedBound(ctx context.Context, calls *session.Calls, served *clientsServed) *sharedBound {
	now, cancel := context.WithCancel(ctx)
	cancel()
	return &sharedBound{wait: ctx, now: now, calls: calls, served: served}
}

// Room makes room for the answer of which the beginning is there. An answer to a call that
// has ended is skipped. What is no answer is bounded by its own length alone.
func (r *sharedBound) Room(bytes int, start []byte) error {
	ctx := r.wait
	if r.served.size() == severalClients {
		ctx = r.now
	}
	id, isAnswer := parseHead(start)
	if !isAnswer {
		return nil
	}
	for range 2 { // the second time where the request has ended meanwhile
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
		return nil // it may be the answer to another call
	}
	return mcp.ErrRequestEnded
}

// drop ends the call whose answer was skipped, and returns its id.
func (s *setup) drop(ctx context.Context, calls *session.Calls, no *frame.NoRoomError) mcp.ID {
	id, _ := parseHead(no.Head)
	if id.IsZero() {
		id = tailID(no.Tail)
	}
	if !calls.Respond(id, session.Terminal{Err: no.Err}) && !errors.Is(no.Err, mcp.ErrRequestEnded) {
		s.log.WarnContext(ctx, "backend's message was dropped, and the call that it answers is not known", slog.Any("reason", no.Err))
	}
	return id
}

// lookAtStart reports whether a message of which the beginning is there is an answer, and
// returns its id, which is zero where it comes later.
func parseHead(start []byte) (id mcp.ID, isAnswer bool) {
	start = bytes.TrimSpace(start[:min(len(start), 1<<10)])
	m, _ := mcp.Parse(start, backendLimits()) // the error is that of the end
	if m.Method != "" {
		return mcp.ID{}, false
	}
	return m.ID, !m.ID.IsZero() || bytes.HasPrefix(start, []byte(`{"result"`)) || bytes.HasPrefix(start, []byte(`{"error"`))
}

// idAtEnd returns the id of a response of which the end is there, where that is its last
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
