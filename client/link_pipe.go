// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pipeLink connects to a server over pipes that it opens: one for all requests in the
// modern era, one per session in the legacy era.
type pipeLink struct {
	*setup
	connect func(ctx context.Context) (transportConn, error)
	quit    func() // releases what connect needs
	slots   processSlots

	// What a probe leaves. A process started for a probe is kept for use, instead of
	// being ended and started again.
	mu         sync.Mutex
	spare      *pipe   // probed, and not used yet
	lateModern *modern // its probe was answered after the handshake began
	late       bool    // a server of both eras has answered the probe after the handshake began
	stopped    bool
}

// probePipe is how long a server on a pipe may leave the probe unanswered before a
// handshake is sent as well. A legacy server should answer with an error, but some
// answer nothing before initialize. A server may also start slowly, so the probe
// remains open and a late response still counts.
const probePipe = 3 * time.Second

// detect opens a pipe only to probe or for a modern server. With a configured legacy
// version, each session opens its own.
func (l *pipeLink) detect(ctx context.Context) (protocol, error) {
	if p := l.takeLateModern(); p != nil {
		return p, nil
	}
	if l.Version.Era() == mcp.EraLegacy {
		return newLegacy(l.setup, l, l.Version), nil
	}
	p, err := l.open(ctx, slotPurpose{internal: true})
	if err != nil {
		return nil, err
	}
	if l.Version.Era() == mcp.EraModern {
		return newModernPipe(p, l.Version), nil
	}
	return l.probe(ctx, p)
}

// open waits for a process slot and opens a pipe. If that fails the slot is released at
// once; otherwise it is released when the remote end has ended.
func (l *pipeLink) open(ctx context.Context, n slotPurpose) (*pipe, error) {
	slot := l.slots.take(ctx, n)
	if slot == nil {
		return nil, l.errNoSlot()
	}
	remote, err := l.connect(ctx)
	if err != nil {
		slot.release()
		return nil, err
	}
	return newPipe(l.setup, remote, slot), nil
}

// errNoSlot reports the process limit. It is no failure of the server, so the request
// is not retried at once.
func (l *pipeLink) errNoSlot() error {
	return l.fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d processes are in use (limits.processes)", l.slots.max)
}

// probe sends a probe over a new pipe. The pipe is kept, whatever the era.
func (l *pipeLink) probe(ctx context.Context, p *pipe) (protocol, error) {
	m := newModernPipe(p, mcp.LatestModern)
	began := time.Now()
	end, err := l.sendProbe(ctx, m, p)
	if err != nil {
		p.close(l.closed())
		return nil, err
	}
	switch {
	case end == nil: // no response so far
		l.keepSpare(p)
		silent := newLegacy(l.setup, l, mcp.LatestLegacy)
		silent.probeTime = time.Since(began)
		return silent, nil
	case isClosed(p.dead):
		// Some legacy servers exit when they receive a message before initialize.
		p.close(l.closed())
		return newLegacy(l.setup, l, mcp.LatestLegacy), nil
	}
	p.discover = nil
	found, err := decide(l.setup, end.Result, end.Err)
	switch found {
	case isModern:
		m.discovered = end.Result
		return m, nil
	case isLegacy:
		l.keepSpare(p)
		return newLegacy(l.setup, l, mcp.LatestLegacy), nil
	default:
		p.close(l.closed())
		return nil, err
	}
}

// sendProbe sends the probe and returns its terminal, or nil if there is no response in
// time.
func (l *pipeLink) sendProbe(ctx context.Context, m *modern, p *pipe) (*session.Terminal, error) {
	call, err := p.calls.Open(methodDiscover)
	if err != nil {
		return &session.Terminal{Err: err}, nil
	}
	p.discover = call
	p.begin(call, m.discoverRequest(call.ID()))
	timer := time.NewTimer(l.probeWait())
	defer timer.Stop()
	select {
	case <-call.Done():
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, l.closed()
	}
	return terminalOf(call), nil
}

// terminalOf returns the terminal of a call and drops its messages, or nil if it has
// not ended.
func terminalOf(call *session.Call) *session.Terminal {
	for {
		m, end := call.Next()
		if m == nil {
			return end
		}
	}
}

// dial returns a pipe for a legacy session: the probed one, if it still exists.
func (l *pipeLink) dial(ctx context.Context, n slotPurpose) (legacyWire, error) {
	p, err := l.reuse(ctx, n)
	if p == nil && err == nil {
		p, err = l.open(ctx, n)
	}
	if err != nil {
		return nil, err
	}
	return &legacyPipe{pipe: p}, nil
}

// reuse returns the probed pipe, or nil. That pipe occupies the slot of internal
// requests; a client's request must get a slot of its own for it.
func (l *pipeLink) reuse(ctx context.Context, n slotPurpose) (*pipe, error) {
	p := l.takeSpare()
	switch {
	case p == nil:
		return nil, nil
	case p.calls.Err() != nil:
		p.close(l.closed())
		return nil, nil //nolint:nilerr // the caller opens another one
	case n.internal:
		return p, nil
	}
	slot := l.slots.take(ctx, n)
	if slot == nil {
		l.keepSpare(p)
		return nil, l.errNoSlot()
	}
	// The pipe now belongs to a client. The reserved slot is free for the next probe.
	l.slots.swap(p.slot, slot)
	slot.release()
	return p, nil
}

// failed handles a failed handshake. If the open probe has been answered meanwhile, the
// server is modern, and the pipe is kept for that.
func (l *pipeLink) failed(wire legacyWire) (keep bool) {
	w, ok := wire.(*legacyPipe)
	if !ok || w.discover == nil || isClosed(w.dead) {
		return false
	}
	end := l.answered(w)
	if end == nil {
		return false
	}
	m := newModernPipe(w.pipe, mcp.LatestModern)
	m.discovered = end.Result
	l.keepLateModern(m)
	return true
}

// sseFallback returns nil: pipes have no other transport.
func (l *pipeLink) sseFallback(context.Context, legacyWire) legacyWire { return nil }

// answered returns the response to the probe if there is one and it comes from a modern
// server. It does not wait: the probe had the time of the handshake too.
func (l *pipeLink) answered(w *legacyPipe) *session.Terminal {
	end := terminalOf(w.discover)
	if end == nil {
		return nil
	}
	if found, _ := decide(l.setup, end.Result, end.Err); found != isModern {
		return nil
	}
	return end
}

// isModern reports whether a server of both eras has answered the probe after its
// handshake. It reports true only once: the probe of the next process waits longer.
func (l *pipeLink) isModern(wire legacyWire) bool {
	w, ok := wire.(*legacyPipe)
	if !ok || w.discover == nil || l.answered(w) == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.late
	l.late = true
	return !before
}

// probeWait returns how long a probe may be unanswered before the handshake. A server
// of both eras that is known to start slowly gets most of Handshake, with some left for
// a handshake.
func (l *pipeLink) probeWait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late {
		return l.Handshake * 2 / 3
	}
	return probeTime(l.setup, probePipe)
}

// sharesStream reports true: a message on a pipe that names no call may belong to any.
func (l *pipeLink) sharesStream() bool { return true }

// keepSpare keeps the probed pipe for the first session. It closes the one of an
// earlier probe, so that one client does not use two processes.
func (l *pipeLink) keepSpare(p *pipe) {
	if old := l.swapSpare(p); old != nil {
		old.close(l.closed())
	}
}

func (l *pipeLink) takeSpare() *pipe { return l.swapSpare(nil) }

// swapSpare returns the pipe to close. After stop that is p itself.
func (l *pipeLink) swapSpare(p *pipe) *pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return p
	}
	old := l.spare
	l.spare = p
	return old
}

func (l *pipeLink) keepLateModern(m *modern) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lateModern = m
}

func (l *pipeLink) takeLateModern() *modern {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.lateModern
	l.lateModern = nil
	return m
}

func (l *pipeLink) markStopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// stop closes pipes that were opened and never used. It runs after the protocols have
// closed, so that the spare is not taken any more, and before quit, which requires that
// all children have ended.
func (l *pipeLink) stop() {
	if p := l.takeSpare(); p != nil {
		p.close(l.closed())
	}
	if m := l.takeLateModern(); m != nil {
		m.closeBackground()
	}
	l.markStopped()
	l.quit()
}

// NewPipe returns a client of a server on a stream of lines, such as a socket or a
// server in this process. open opens the stream, and may be called more than once.
// Closing the stream, which is done once, ends the server.
func NewPipe(open func(ctx context.Context) (io.ReadWriteCloser, error), cfg Config) *Client {
	s := newSetup(cfg)
	connect := func(ctx context.Context) (transportConn, error) {
		ctx, cancel := context.WithTimeout(ctx, s.Connect)
		defer cancel()
		rwc, err := open(ctx)
		if err != nil {
			return nil, s.unavailable(err, "it could not be reached")
		}
		return stream{rwc}, nil
	}
	return newClient(s, newPipeLink(s, connect, func() {}))
}

func newPipeLink(s *setup, connect func(context.Context) (transportConn, error), quit func()) *pipeLink {
	return &pipeLink{setup: s, connect: connect, quit: quit, slots: processSlots{max: s.MaxProcesses}}
}

// stream is a transportConn that ends when it is closed.
type stream struct{ io.ReadWriteCloser }

func (s stream) end(string) { s.Close() }

func (s stream) exitReason(clientCount) string { return "it closed the connection" }
