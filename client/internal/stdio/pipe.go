// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stdio exchanges messages with one MCP server as lines on a pipe: a child
// process, or any stream (2026-07-28, basic/transports/stdio).
//
// A [Pipe] has one goroutine that reads and one that writes. [Slots] limit the pipes to
// one server.
package stdio

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NoticeTime is how long close waits for cancellations and responses to be sent.
const NoticeTime = time.Second

// hurriedNotice is NoticeTime after Hurry.
const hurriedNotice = 200 * time.Millisecond

// Remote is the remote end of a pipe: a child process, or a stream that a caller
// opened.
type Remote interface {
	io.Reader
	io.Writer

	// End ends the remote end within a bounded time, and returns when it is gone.
	// Blocked reads and writes return. It is called once. why is logged; it is empty if
	// nothing is wrong.
	End(why string)

	// Hurry makes End take about a second at most. It may be called concurrently with End.
	Hurry()

	// ExitReason describes how the remote end ended, for an error: an exit status, and
	// its last lines on stderr if only one client was served, which gets the error.
	// reason is the code of the cause, or "". It may block briefly to find out.
	ExitReason(served call.ClientCount) (text, reason string)
}

// Pipe is a line-based connection to one server (basic/transports/stdio), with one
// reader, one writer, and the calls that share it. It ends once, for whatever reason,
// and then ends all its calls. The methods may be called concurrently.
type Pipe struct {
	*call.Setup
	remote Remote
	Slot   *Slot // of remote
	Calls  session.Calls
	Served call.ClientsServed
	Group  call.Goroutines

	// Launched is when the start of the process began; zero if the remote end is not one.
	Launched time.Time
	answered atomic.Pointer[time.Time] // when the remote end wrote something for the first time

	// Discover is the probe, while a silent server has not responded to it.
	Discover *session.Call

	handlers   atomic.Pointer[Handlers]
	wake       chan struct{} // capacity 1: something is queued
	Dead       chan struct{} // closed when the pipe has ended
	writerDone chan struct{} // closed when the writer has ended

	remoteCloser call.CloseOnce // of remote
	hurried      atomic.Bool

	// mu guards what follows. Many goroutines add to the queue, and one writes it.
	mu      sync.Mutex
	queue   batch
	unsent  []*session.Call // calls that cannot be sent, until it is known why
	writing writeState
	ended   bool
	why     string // why the remote end must end; "" if nothing is wrong
	reason  string // the code of why, or ""
}

// Handlers handle what the reader of a pipe finds, on its goroutine. They must not
// block.
type Handlers struct {
	// Message handles the messages that are not responses. If nil, they are dropped.
	Message func(m *mcp.Message)

	// Answered is called for each response, also to cancelled calls. It may be nil.
	Answered func(id mcp.ID)

	// EOF is called when the remote end has closed its output, before the last line is
	// handled. It may be nil.
	EOF func()
}

// NewPipe returns a pipe that reads and writes. It owns remote, and slot until remote
// has ended.
func NewPipe(s *call.Setup, remote Remote, slot *Slot) *Pipe {
	p := &Pipe{
		Setup: s, remote: remote, Slot: slot, Calls: session.Calls{Numbers: call.NewNumbers()},
		wake: make(chan struct{}, 1), Dead: make(chan struct{}), writerDone: make(chan struct{}),
	}
	s.OtherOutput.Store(nil)
	p.Attach(Handlers{})
	p.Group.Start(p.readAll)  // ends with remote, which fail ends
	p.Group.Start(p.writeAll) // ends with its context, or with remote
	return p
}

// Opening returns how the process at the remote end became ready, which it is now.
func (p *Pipe) Opening() call.Opening {
	o := call.Opening{Start: p.Launched, Ready: time.Now()}
	if at := p.answered.Load(); at != nil {
		o.Responded = *at
	}
	if r, ok := p.remote.(interface{ Installing() time.Duration }); ok {
		if d := r.Installing(); d > 0 {
			o.Began = p.Launched.Add(d)
		}
	}
	kept := o
	p.Opened.Store(&kept)
	return o
}

// Attach replaces the handlers.
func (p *Pipe) Attach(h Handlers) { p.handlers.Store(&h) }

// Hurry makes Close short.
func (p *Pipe) Hurry() {
	p.hurried.Store(true)
	p.remote.Hurry()
}

// Close ends the pipe and the remote end, and returns when both have ended. err is the
// error of its calls. The writer gets a short time to write what is queued.
func (p *Pipe) Close(err error) {
	if p.end(err, "") {
		notice := NoticeTime
		if p.hurried.Load() {
			notice = hurriedNotice
		}
		call.Within(p.writerDone, notice)
	}
	p.closeRemote()
	p.Group.Close()
}

// fail ends the pipe because of err: its calls at once, the remote end in the
// background. Only the first error counts.
func (p *Pipe) fail(err error) {
	text, _ := describe(err)
	if p.end(err, text) {
		p.Group.Start(func(context.Context) { p.closeRemote() }) // bounded by remote.End
	}
}

// end ends the use of the pipe, once. why is what is wrong with the remote end.
func (p *Pipe) end(err error, why string) (first bool) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return false
	}
	text, reason := describe(err)
	if why != "" {
		p.reason = reason
	}
	p.ended, p.why = true, why // nothing more is queued, so that Close does not wait for a growing queue
	p.mu.Unlock()
	// Mark the slot first, because callers may ask for one from now on. Then end the
	// calls, so that each has its error before it can see that the pipe is dead.
	p.Slot.MarkClosing()
	p.refuseUnsent(text, reason)
	p.Calls.End(err)
	close(p.Dead)
	return true
}

// closeRemote ends the remote end once, and then releases its slot.
func (p *Pipe) closeRemote() {
	p.remoteCloser.Once(func() {
		p.mu.Lock()
		why := p.why
		p.mu.Unlock()
		p.remote.End(why)
		p.Slot.Release()
	})
}

// describe returns what is wrong with the remote end, without the outcome for calls, and
// the code of the cause.
func describe(err error) (text, reason string) {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return f.Message, f.Reason
	}
	return err.Error(), ""
}
