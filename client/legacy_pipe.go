// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyPipe is the connection of one legacy session over a pipe of its own
// (2025-11-25, basic/transports, "stdio").
type legacyPipe struct {
	*pipe
}

func (w *legacyPipe) callTable() *session.Calls { return &w.calls }

func (w *legacyPipe) attach(s *legacySession) {
	w.pipe.attach(s.route)
	// Between the end of the server's output and the end of the pipe the session takes
	// no call and is not closed yet, so that its calls fail with the cause.
	pending := s.pending.add()
	w.setOnEOF(s.pending.sessionForgotten)
	// Ends with the pipe, and ends the session then. Waited for by close.
	w.group.start(func(ctx context.Context) {
		defer pending.received()
		select {
		case <-w.dead:
			s.end(w.calls.Err())
		case <-ctx.Done():
		}
	})
}

// roundTrip queues the request. The answer arrives on the pipe, so a call has no
// resources to release.
func (w *legacyPipe) roundTrip(ctx context.Context, f outboundCall, msg jsonrpc.Pieces) (*mcp.Result, error) {
	f.call.SetRequest(f.req)
	w.begin(f.call, msg)
	return f.run(ctx)
}

func (w *legacyPipe) noteClient(req *mcp.Request) { w.served.note(req) }

// post queues the message and does not wait. If the server does not read, the writer
// ends the pipe with that cause.
func (w *legacyPipe) post(_ context.Context, msg []byte) error {
	if !w.enqueue(jsonrpc.Pieces{msg}) {
		return w.unavailable(nil, "it does not read its input")
	}
	return nil
}

func (w *legacyPipe) setVersion(mcp.Version) {}

func (w *legacyPipe) initialized(context.Context) {}

// noListenStream returns nil: the pipe ends with the session.
func (w *legacyPipe) noListenStream() <-chan struct{} { return nil }

func (w *legacyPipe) retire() { w.slot.markClosing() }

func (w *legacyPipe) close(context.Context) { w.pipe.close(w.cut()) }
