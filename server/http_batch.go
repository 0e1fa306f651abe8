// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyBatch serves a batch, which only 2025-03-26 has (basic, "Batching"). Each message
// in it is checked separately, as if it had been sent alone: wrapping a message in a
// batch must not bypass a limit or a policy.
//
// The session is looked up first, because it determines the revision. A batch without a
// session cannot be the initialize that would open one, and is refused as in the later
// revisions.
func (s *Server) legacyBatch(p *response, r *http.Request, from sender, body []byte) *refusal {
	if r.Header.Get(sessionHeader) == "" {
		return refuseBatch()
	}
	sess, no := s.legacySession(r, from, mcp.ID{})
	switch {
	case no != nil:
		return no
	case sess.Client.Version != mcp.V20250326:
		return refuseBatch()
	}
	parts, err := jsonrpc.SplitBatch(body, s.cfg.Limits.Batch, s.cfg.Limits.message())
	if err != nil {
		return refuseParse(mcp.ID{}, err)
	}
	b := &batch{server: s, sess: sess, identity: from.identity, remote: r.RemoteAddr, wake: make(chan struct{}, 1)}
	for _, part := range parts {
		b.admit(r.Context(), part)
	}
	if len(b.ready) == 0 && len(b.open) == 0 {
		p.writeAccepted()
		return nil
	}
	p.beginStream()
	p.aborted = !b.write(p, r.Context().Done())
	return nil
}

// refuseBatch names the revision, so that the reader of the error knows which one the
// client would have to use: earlier revisions have no batches either.
func refuseBatch() *refusal {
	return refuse(http.StatusBadRequest, "only %s has batches", mcp.V20250326)
}

// batch serves the messages of one batch. The streams of its requests share one response,
// which cannot be resumed: its events have no ids.
type batch struct {
	server   *Server
	identity *mcp.Identity // of the sender
	sess     *session.Session
	remote   string
	ready    []session.Message   // answers without a stream
	open     []*session.Consumer // of the streams that have not ended
	wake     chan struct{}       // of all of them
}

// admit serves one message. One that does not parse is answered with an error, with its
// id if that could be read, and does not affect the others.
func (b *batch) admit(ctx context.Context, part []byte) {
	m, err := mcp.Parse(part, b.server.cfg.Limits.message())
	switch {
	case isInvalidCancel(&m, err):
		b.server.observeIdleCancel(ctx, Event{Principal: b.sess.Principal, Remote: b.remote, Session: b.sess.Scope.Key()}, nil)
		return
	case err != nil:
		b.refuse(ctx, refuseParse(m.ID, err))
		return
	}
	switch m.Kind {
	case mcp.KindRequest:
		b.request(ctx, &m)
	case mcp.KindNotification:
		b.server.legacyNotification(ctx, b.sess, &m, b.identity, b.remote)
	default:
		b.server.legacyResponse(ctx, b.sess, &m, b.remote)
	}
}

// request begins a request. Its stream is added before its Handler starts, so that every
// message has a consumer.
func (b *batch) request(ctx context.Context, m *mcp.Message) {
	switch {
	case b.sess.InFlight(m.ID):
		b.refuse(ctx, b.server.refuseBegin(m.ID, session.ErrDuplicate))
		return
	case m.Method == "ping":
		b.reply(pong(m.ID))
		return
	case m.Method == "initialize":
		b.refuse(ctx, refuseMessage(0, m.ID, mcp.Errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch")))
		return
	}
	taskCtx, ir, no := b.server.beginLegacyRequest(ctx, b.sess, m, b.identity)
	if no != nil {
		b.refuse(ctx, no)
		return
	}
	b.open = append(b.open, ir.x.Stream().Attach(b.wake))
	ir.sess = b.sess
	if !b.server.start(taskCtx, ir) {
		ir.x.Finish(session.Message{Head: jsonrpc.AppendError(nil, m.ID, errShuttingDown())})
	}
}

// reply adds an answer without a stream.
func (b *batch) reply(m session.Message) { b.ready = append(b.ready, m) }

// refuse is reply for a refusal.
func (b *batch) refuse(ctx context.Context, no *refusal) {
	b.server.noteRefusal(ctx, no.inSession(b.sess), b.sess.Principal, b.remote)
	b.reply(no.message())
}

// write writes the answers, and the messages that precede them, until all requests have
// ended. It reports false if the client has not received all of them.
func (b *batch) write(p *response, gone <-chan struct{}) (whole bool) {
	defer func() {
		for _, c := range b.open {
			c.Detach()
		}
	}()
	for i := range b.ready {
		p.writeEvent(&b.ready[i])
	}
	p.writeComment() // writes the header, too
	quiet := time.NewTimer(b.server.cfg.KeepAlive)
	defer quiet.Stop()
	for b.writeQueued(p, gone) {
		if len(b.open) == 0 {
			return p.err == nil
		}
		select {
		case <-b.wake:
		case <-quiet.C:
			p.writeComment()
		case <-gone:
			return false
		}
		quiet.Reset(b.server.cfg.KeepAlive)
	}
	return false
}

// writeQueued writes what the streams have queued, and detaches those that have ended. It
// reports false if the client is gone, or a stream has not ended in order.
func (b *batch) writeQueued(p *response, gone <-chan struct{}) bool {
	var open []*session.Consumer
	for i, c := range b.open {
		state, isGone := p.writeQueued(c, streamOptions{gone: gone})
		switch {
		case isGone, state != session.Open && !isInOrder(state):
			b.open = append(open, b.open[i:]...)
			return false
		case state == session.Open:
			open = append(open, c)
		default:
			c.Detach()
		}
	}
	b.open = open
	return true
}
