// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/legacy"
	"github.com/signalbox-mcp/signalbox/client/internal/modern"
	"github.com/signalbox-mcp/signalbox/client/internal/process"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NewPipe returns a client of a server on a stream of lines, such as a socket or a
// server in this process. open opens the stream, and may be called more than once.
// Closing the stream, which is done once, ends the server.
func NewPipe(open func(ctx context.Context) (io.ReadWriteCloser, error), cfg Config) *Client {
	s := cfg.setup()
	connect := func(ctx context.Context) (stdio.Remote, error) {
		ctx, cancel := context.WithTimeout(ctx, s.Connect)
		defer cancel()
		rwc, err := open(ctx)
		if err != nil {
			return nil, s.Unavailable(err, "it could not be reached")
		}
		return stream{rwc}, nil
	}
	return newClient(s, newPipeLink(s, connect, func() {}))
}

// NewCommand returns a client of a server that runs as a child process. A modern server
// is one process, a legacy one a process per session. Each process has a process group
// of its own and ends with this process.
func NewCommand(cmd Command, cfg Config) *Client {
	s := cfg.setup()
	s.SetSecrets(redact.New(nil, cmd.Env))
	l := process.NewLauncher(s, process.Command(cmd))
	connect := func(ctx context.Context) (stdio.Remote, error) { return l.Start(ctx) }
	pipes := newPipeLink(s, connect, l.Quit)
	pipes.launcher, pipes.starts = l, true
	return newClient(s, pipes)
}

func newPipeLink(s *call.Setup, connect func(context.Context) (stdio.Remote, error), quit func()) *pipeLink {
	return &pipeLink{Setup: s, connect: connect, quit: quit, slots: stdio.Slots{Max: s.MaxProcesses}}
}

// stream is a Remote that ends when it is closed.
type stream struct{ io.ReadWriteCloser }

func (s stream) End(string) { s.Close() }

func (s stream) Hurry() {}

func (s stream) ExitReason(call.ClientCount) (text, reason string) {
	return "it closed the connection", code.TalkExited
}

// pipeLink connects to a server over pipes that it opens: one for all requests in the
// modern era, one per session in the legacy era.
type pipeLink struct {
	*call.Setup
	connect func(ctx context.Context) (stdio.Remote, error)
	quit    func() // releases what connect needs
	slots   stdio.Slots
	starts  bool // connect starts a process

	launcher *process.Launcher // nil without a command

	// What a probe leaves. A process started for a probe is kept for use, instead of
	// being ended and started again.
	lateModern atomic.Pointer[modern.Protocol] // its probe was answered after the handshake began
	late       atomic.Bool                     // a server of both eras has answered the probe after the handshake began

	mu      sync.Mutex
	spare   *stdio.Pipe // probed, and not used yet
	stopped bool
}

// probePipe is how long a server on a pipe may leave the probe unanswered before a
// handshake is sent as well. A legacy server should answer with an error, but some
// answer nothing before initialize. A server may also start slowly, so the probe
// remains open and a late response still counts.
const probePipe = 3 * time.Second

// detect opens a pipe only to probe or for a modern server. With a configured legacy
// version, each session opens its own.
func (l *pipeLink) detect(ctx context.Context, _ *mcp.Request) (protocol, error) {
	if m := l.lateModern.Swap(nil); m != nil {
		return m, nil
	}
	if l.Version.Era() == mcp.EraLegacy {
		return legacy.New(l.Setup, l, l.Version), nil
	}
	p, err := l.open(ctx, stdio.Purpose{Internal: true})
	if err != nil {
		return nil, err
	}
	if l.Version.Era() == mcp.EraModern {
		return modern.NewPipe(p, l.Version), nil
	}
	return l.probe(ctx, p)
}

// open waits for a process slot and opens a pipe. If that fails the slot is released at
// once; otherwise it is released when the remote end has ended.
func (l *pipeLink) open(ctx context.Context, n stdio.Purpose) (*stdio.Pipe, error) {
	slot := l.slots.Take(ctx, n)
	if slot == nil {
		return nil, l.errNoSlot()
	}
	began := time.Now()
	remote, err := l.connect(ctx)
	if err != nil {
		slot.Release()
		return nil, err
	}
	p := stdio.NewPipe(l.Setup, remote, slot)
	if l.starts {
		p.Launched = began
	}
	return p, nil
}

// errNoSlot reports the process limit. It is no failure of the server, so the request
// is not retried at once.
func (l *pipeLink) errNoSlot() error {
	return l.Fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d processes are in use (limits.processes)", l.slots.Max)
}

// probe sends a probe over a new pipe. The pipe is kept, whatever the era.
func (l *pipeLink) probe(ctx context.Context, p *stdio.Pipe) (protocol, error) {
	m := modern.NewPipe(p, mcp.LatestModern)
	began := time.Now()
	end, err := l.sendProbe(ctx, m, p)
	if err != nil {
		p.Close(l.Closed())
		return nil, err
	}
	switch {
	case end == nil: // no response so far
		l.keepSpare(p)
		silent := legacy.New(l.Setup, l, mcp.LatestLegacy)
		silent.ProbeTime = time.Since(began)
		return silent, nil
	case call.IsClosed(p.Dead):
		// Some legacy servers exit when they receive a message before initialize.
		p.Close(l.Closed())
		return legacy.New(l.Setup, l, mcp.LatestLegacy), nil
	}
	p.Discover = nil
	found, err := decide(l.Setup, end.Result, end.Err)
	switch found {
	case isModern:
		m.Discovered = end.Result
		return m, nil
	case isLegacy, isSilent:
		l.keepSpare(p)
		return legacy.New(l.Setup, l, mcp.LatestLegacy), nil
	default:
		p.Close(l.Closed())
		return nil, err
	}
}

// sendProbe sends the probe and returns its terminal, or nil if there is no response in
// time.
func (l *pipeLink) sendProbe(ctx context.Context, m *modern.Protocol, p *stdio.Pipe) (*session.Terminal, error) {
	call, err := p.Calls.Open(call.MethodDiscover)
	if err != nil {
		return &session.Terminal{Err: err}, nil
	}
	p.Discover = call
	p.Begin(call, m.DiscoverRequest(call.ID()))
	timer := time.NewTimer(l.probeWait())
	defer timer.Stop()
	select {
	case <-call.Done():
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, l.Closed()
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

// Dial returns a pipe for a legacy session: the probed one, if it still exists.
func (l *pipeLink) Dial(ctx context.Context, _ *mcp.Request, n stdio.Purpose) (legacy.Conn, error) {
	p, err := l.reuse(ctx, n)
	if p == nil && err == nil {
		p, err = l.open(ctx, n)
	}
	if err != nil {
		return nil, err
	}
	return &legacy.PipeConn{Pipe: p}, nil
}

// reuse returns the probed pipe, or nil. That pipe occupies the slot of internal
// requests; a client's request must get a slot of its own for it.
func (l *pipeLink) reuse(ctx context.Context, n stdio.Purpose) (*stdio.Pipe, error) {
	p := l.swapSpare(nil)
	switch {
	case p == nil:
		return nil, nil
	case p.Calls.Err() != nil:
		p.Close(l.Closed())
		return nil, nil //nolint:nilerr // the caller opens another one
	case n.Internal:
		return p, nil
	}
	slot := l.slots.Take(ctx, n)
	if slot == nil {
		l.keepSpare(p)
		return nil, l.errNoSlot()
	}
	// The pipe now belongs to a client. The reserved slot is free for the next probe.
	l.slots.Swap(p.Slot, slot)
	slot.Release()
	return p, nil
}

// HandshakeFailed handles a failed handshake. If the open probe has been answered
// meanwhile, the server is modern, and the pipe is kept for that.
func (l *pipeLink) HandshakeFailed(wire legacy.Conn) (keep bool) {
	w, ok := wire.(*legacy.PipeConn)
	if !ok || w.Discover == nil || call.IsClosed(w.Dead) {
		return false
	}
	end := l.answered(w)
	if end == nil {
		return false
	}
	m := modern.NewPipe(w.Pipe, mcp.LatestModern)
	m.Discovered = end.Result
	l.lateModern.Store(m)
	return true
}

// SSEFallback returns nil: pipes have no other transport.
func (l *pipeLink) SSEFallback(context.Context, legacy.Conn) legacy.Conn { return nil }

// answered returns the response to the probe if there is one and it comes from a modern
// server. It does not wait: the probe had the time of the handshake too.
func (l *pipeLink) answered(w *legacy.PipeConn) *session.Terminal {
	end := terminalOf(w.Discover)
	if end == nil {
		return nil
	}
	if found, _ := decide(l.Setup, end.Result, end.Err); found != isModern {
		return nil
	}
	return end
}

// IsModern reports whether a server of both eras has answered the probe after its
// handshake. It reports true only once: the probe of the next process waits longer.
func (l *pipeLink) IsModern(wire legacy.Conn) bool {
	w, ok := wire.(*legacy.PipeConn)
	if !ok || w.Discover == nil || l.answered(w) == nil {
		return false
	}
	return !l.late.Swap(true)
}

// probeWait returns how long a probe may be unanswered before the handshake. A server
// of both eras that is known to start slowly gets most of Handshake, with some left for
// a handshake.
func (l *pipeLink) probeWait() time.Duration {
	if l.late.Load() {
		return l.Handshake * 2 / 3
	}
	return probeTime(l.Setup, probePipe)
}

// SharesStream reports true: a message on a pipe that names no call may belong to any.
func (l *pipeLink) SharesStream() bool { return true }

// keepSpare keeps the probed pipe for the first session. It closes the one of an
// earlier probe, so that one client does not use two processes.
func (l *pipeLink) keepSpare(p *stdio.Pipe) {
	if old := l.swapSpare(p); old != nil {
		old.Close(l.Closed())
	}
}

// swapSpare returns the pipe kept before, or after stop p itself.
func (l *pipeLink) swapSpare(p *stdio.Pipe) *stdio.Pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return p
	}
	old := l.spare
	l.spare = p
	return old
}

// closeSpare closes the probed pipe, if no session has taken it.
func (l *pipeLink) closeSpare() {
	if p := l.swapSpare(nil); p != nil {
		p.Close(l.Closed())
	}
}

// stop closes pipes that were opened and never used. It runs after the protocols have
// closed, so that the spare is not taken any more, and before quit, which requires that
// all children have ended.
func (l *pipeLink) stop() {
	if p := l.lastSpare(); p != nil {
		p.Close(l.Closed())
	}
	if m := l.lateModern.Swap(nil); m != nil {
		m.CloseBackground()
	}
	l.quit()
}

func (l *pipeLink) lastSpare() *stdio.Pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	return l.spare
}
