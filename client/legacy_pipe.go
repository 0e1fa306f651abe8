// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyPipe carries one legacy session over a pipe of its own
// (2025-11-25, basic/transports, "stdio").
type legacyPipe struct {
	*pipe
}

func (w *legacyPipe) table() *session.Calls { return &w.calls }

func (w *legacyPipe) attach(s *legacySession) {
	w.pipe.attach(s.route)
	// Between the end of the server's output and the end of the pipe the session takes no
	// call, and is not closed: the calls that it has wait for the reason.
	fate := s.due.await()
	w.setOnEOF(s.due.forget)
	// Ends with the pipe; waited for by close. That the pipe is gone is the end
	// of the session.
	w.group.start(func(ctx context.Context) {
		defer fate.heard()
		select {
		case <-w.dead:
			s.lose(w.calls.Err())
		case <-ctx.Done():
		}
	})
}

// carry: the answer comes on the pipe that the session has anyway, so that nothing of
// a call is to be let go.
func (w *legacyPipe) carry(ctx context.Context, f outboundCall, msg mcp.Pieces) (*mcp.Result, error) {
	f.call.SetRequest(f.req)
	w.begin(f.call, msg)
	return f.run(ctx)
}

func (w *legacyPipe) serves(req *mcp.Request) { w.served.note(req) }

// post does not wait for the line to be written. A server that does not read is found
// out by the writer, which ends the pipe with the reason.
func (w *legacyPipe) post(_ context.Context, msg []byte) error {
	if !w.enqueue(mcp.Pieces{msg}) {
		return w.unavailable(nil, "it does not read its input")
	}
	return nil
}

func (w *legacyPipe) ready(mcp.Version) {}

func (w *legacyPipe) opened(context.Context) {}

// noListenReason: a pipe tells until it ends, and its end is the session's.
func (w *legacyPipe) noListenStream() <-chan struct{} { return nil }

func (w *legacyPipe) leave() { w.slot.markClosing() }

func (w *legacyPipe) close(context.Context) { w.pipe.close(w.cut()) }
