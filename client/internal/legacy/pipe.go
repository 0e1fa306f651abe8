// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// PipeConn is the connection of one legacy session over a pipe of its own
// (2025-11-25, basic/transports, "stdio").
type PipeConn struct {
	optional
	*stdio.Pipe
}

func (w *PipeConn) callTable() *session.Calls { return &w.Calls }

func (w *PipeConn) attach(s *clientSession) {
	// Between the end of the server's output and the end of the pipe the session takes
	// no call and is not closed yet, so that its calls fail with the cause.
	pending := s.pending.add()
	w.Attach(stdio.Handlers{Message: s.route, EOF: s.pending.sessionForgotten})
	// Ends with the pipe, and ends the session then. Waited for by close.
	w.Group.Start(func(ctx context.Context) {
		defer pending.received()
		select {
		case <-w.Dead:
			s.end(w.Calls.Err())
		case <-ctx.Done():
		}
	})
}

// roundTrip queues the request. The answer arrives on the pipe, so a call has no
// resources to release.
func (w *PipeConn) roundTrip(ctx context.Context, f call.Call, msg jsonrpc.Pieces) (*mcp.Result, error) {
	f.Call.SetRequest(f.Req)
	w.Begin(f.Call, msg)
	return f.Run(ctx)
}

func (w *PipeConn) noteClient(req *mcp.Request) { w.Served.Note(req) }

// post queues the message and does not wait. If the server does not read, the writer
// ends the pipe with that cause.
func (w *PipeConn) post(_ context.Context, msg []byte) error {
	if !w.Enqueue(jsonrpc.Pieces{msg}) {
		return w.Unavailable(nil, "it does not read its input")
	}
	return nil
}

func (w *PipeConn) retire() { w.Slot.MarkClosing() }

func (w *PipeConn) hurry() { w.Hurry() }

func (w *PipeConn) close(context.Context) { w.Close(w.Cut()) }
