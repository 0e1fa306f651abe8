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

// pipeLink reaches a server over pipes that it opens: one for all in the modern
// era, one for each session in the legacy era.
type pipeLink struct {
	*setup
	connect func(ctx context.Context) (transportConn, error)
	quit    func() // lets go of what connect needs
	slots   processSlots

	// What a probe leaves: a process that was started to be asked is not ended to be
	// started again a moment later.
	mu         sync.Mutex
	spare      *pipe   // probed, and not used yet
	lateModern *modern // on a pipe whose probe was answered late
	late       bool    // a server of both eras has answered after it was asked to shake hands
	stopped    bool
}

// probePipe is how long a server on a pipe may be silent about the probe before
// it is asked to shake hands as well. A legacy server should answer with an
// error, and some answer nothing before initialize; but a server may also be
// slow to start. So the probe stays open meanwhile, and its answer still counts.
const probePipe = 3 * time.Second

// detect opens a pipe only where it has to be asked over: for a pinned legacy server
// each session opens its own.
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
		return &modern{setup: l.setup, wire: newModernPipe(p), version: l.Version}, nil
	}
	return l.probe(ctx, p)
}

// open opens a pipe once there is a place for it. What cannot be opened gives its
// processSlot back at once; what was opened gives it back when its far end has gone.
func (l *pipeLink) open(ctx context.Context, n slotPurpose) (*pipe, error) {
	at := l.slots.take(ctx, n)
	if at == nil {
		return nil, l.errNoSlot()
	}
	far, err := l.connect(ctx)
	if err != nil {
		at.release()
		return nil, err
	}
	return newPipe(l.setup, far, at), nil
}

// errNoSlot says that nothing was sent and what decides it. It is no failure of the
// server: that it is asked again at once would help nobody.
func (l *pipeLink) errNoSlot() error {
	return l.fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d processes are in use (limits.processes)", l.slots.max)
}

// probe asks over a new pipe. The pipe is kept for whatever era it turns out to
// be.
func (l *pipeLink) probe(ctx context.Context, p *pipe) (protocol, error) {
	m := &modern{setup: l.setup, wire: newModernPipe(p), version: mcp.LatestModern}
	began := time.Now()
	end, err := l.sendProbe(ctx, m, p)
	if err != nil {
		p.close(l.closed())
		return nil, err
	}
	switch {
	case end == nil: // silent so far
		l.keepSpare(p)
		silent := newLegacy(l.setup, l, mcp.LatestLegacy)
		silent.spent = time.Since(began)
		return silent, nil
	case isClosed(p.dead):
		// Some legacy servers end when something comes before initialize.
		p.close(l.closed())
		return newLegacy(l.setup, l, mcp.LatestLegacy), nil
	}
	p.discover = nil
	found, err := l.decide(end.Result, end.Err)
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

// sendProbe sends the probe and returns how it ended, nil while it has not.
func (l *pipeLink) sendProbe(ctx context.Context, m *modern, p *pipe) (*session.Terminal, error) {
	call, err := p.calls.Open(methodDiscover)
	if err != nil {
		return &session.Terminal{Err: err}, nil
	}
	p.discover = call
	p.begin(call, m.buildRequest(&mcp.Request{Client: l.self()}, new(mcp.Object), call))
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

// terminalOf returns the terminal of a call whose messages interest nobody.
func terminalOf(call *session.Call) *session.Terminal {
	for {
		m, end := call.Next()
		if m == nil {
			return end
		}
	}
}

// dial returns a pipe for a legacy session: the one that was probed, if it is
// still there.
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

// reuse returns the pipe that was probed, nil where there is none any more. It
// was opened for nobody; a client has to have a place for it.
func (l *pipeLink) reuse(ctx context.Context, n slotPurpose) (*pipe, error) {
	p := l.takeSpare()
	switch {
	case p == nil:
		return nil, nil
	case p.calls.Err() != nil:
		p.close(l.closed())
		return nil, nil //nolint:nilerr // it is another one that is wanted
	case n.internal:
		return p, nil
	}
	at := l.slots.take(ctx, n)
	if at == nil {
		l.keepSpare(p)
		return nil, l.errNoSlot()
	}
	// The pipe is a client's from now on. The place that is kept for what no client
	// has asked for is free for the next probe.
	l.slots.swap(p.slot, at)
	at.release()
	return p, nil
}

// failed looks whether the probe of a silent server has been answered after all:
// then the handshake has failed because the server is modern, and the pipe is
// good for that.
func (l *pipeLink) failed(wire legacyWire) (keep bool) {
	w, ok := wire.(*legacyPipe)
	if !ok || w.discover == nil || isClosed(w.dead) {
		return false
	}
	end := l.answered(w)
	if end == nil {
		return false
	}
	l.keepLateModern(&modern{setup: l.setup, wire: newModernPipe(w.pipe), version: mcp.LatestModern, discovered: end.Result})
	return true
}

// sseFallback: there is one way to speak over a pipe.
func (l *pipeLink) sseFallback(context.Context, legacyWire) legacyWire { return nil }

// answered returns the answer to the probe, if there is one by now and it says that
// the server is modern. It is not waited for: the handshake had its time, and so had
// this.
func (l *pipeLink) answered(w *legacyPipe) *session.Terminal {
	end := terminalOf(w.discover)
	if end == nil {
		return nil
	}
	if found, _ := l.decide(end.Result, end.Err); found != isModern {
		return nil
	}
	return end
}

// mistaken: a server of both eras that was slow to start has answered the probe, and
// shaken hands as well. Its next process is not asked to before it has answered.
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

// silence is how long a probe may be unanswered before the server is asked to shake
// hands. One that is known to be of both eras, and slow, has more of the time for its
// first answer, but leaves some for a handshake.
func (l *pipeLink) probeWait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late {
		return l.Handshake * 2 / 3
	}
	return l.probeTime(probePipe)
}

// sharesStream: on a pipe a message that names no call can belong to any.
func (l *pipeLink) sharesStream() bool { return true }

// keepSpare keeps the probed pipe for the first session. An sseFallback one, of a probe
// before, is ended: two would be two processes for one client.
func (l *pipeLink) keepSpare(p *pipe) {
	if old := l.swapSpare(p); old != nil {
		old.close(l.closed())
	}
}

func (l *pipeLink) takeSpare() *pipe { return l.swapSpare(nil) }

// swapSpare returns the pipe to be put away, which is the new one when the link
// has stopped.
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

// stop ends what was opened and never used. It comes after the protocols, so that
// nobody takes the spare any more, and before quit, which all children must precede.
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

// lastClose closes the protocol when there is no more context to do it in.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: there is none
func (p *modern) closeBackground() { p.close(context.Background()) }

// NewPipe returns a client of a server that is reached over a stream of lines,
// which open opens: a socket, or a server in this process. Closing the stream
// ends the server, and is done once. open may be called more than once.
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
