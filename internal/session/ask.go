// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// core is the lock and the common state of a session, or of an exchange without one.
type core struct {
	rules     *Rules
	session   *Session // nil for an exchange without one
	principal string   // that its streams are charged to

	mu        sync.Mutex
	histories *histories // nil while nothing is retained
	ended     bool
	consumers int // that are attached
	lastAsk   uint64
	asks      map[mcp.ID]*Ask // nil while empty
}

// Ask is a request to the client, and holds its answer. It ends with the answer, or with
// the exchange or session that it belongs to.
type Ask struct {
	answer
	id     mcp.ID
	serial uint64 // of the asks of a session
	stream *Stream
	taken  bool // by a consumer; guarded by the core's lock
}

// ID returns the id of the request on the wire.
func (a *Ask) ID() mcp.ID { return a.id }

// answer is the end of an [Ask] or a [Question].
type answer struct {
	done chan struct{}
	end  Terminal // written before done is closed
}

func newAnswer() answer { return answer{done: make(chan struct{})} }

// Done returns a channel that is closed when there is an answer or an error.
func (a *answer) Done() <-chan struct{} { return a.done }

// Answer returns the answer, or the error that ended the wait for it. It must not be called
// before Done is closed.
func (a *answer) Answer() Terminal { return a.end }

func (a *answer) finish(end Terminal) {
	a.end = end
	close(a.done)
}

// Ask sends a request to the client on the stream; beside holds the members next to its
// params (see [mcp.Object.Beside]). A caller that stops waiting must call Withdraw.
func (s *Stream) Ask(method string, params, beside []byte) (*Ask, error) {
	c := s.core
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.ended:
		return nil, s.endedErrLocked()
	case s.isDiscardingLocked():
		return nil, ErrNoReceiver
	case len(c.asks) >= c.rules.Limits.Asks:
		return nil, ErrTooMany
	}
	c.lastAsk++
	a := &Ask{answer: newAnswer(), id: jsonrpc.NumberID(c.lastAsk), serial: c.lastAsk, stream: s}
	if c.asks == nil {
		c.asks = make(map[mcp.ID]*Ask, 1)
	}
	c.asks[a.id] = a
	s.pushLocked(Message{Head: jsonrpc.AppendBeside(jsonrpc.AppendRequest(nil, a.id, method, params), beside), ask: a})
	return a, nil
}

// Withdraw ends an ask; the caller no longer waits for its answer. If no consumer has taken it, the
// client never receives it. If the client has received it and not answered, Withdraw
// reports true: then the caller should send [Ask.Withdrawal].
func (s *Stream) Withdraw(a *Ask, why error) (notify bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.asks[a.id] != a {
		return false
	}
	s.withdrawLocked(a, why)
	return a.taken && !s.ended && !s.lost
}

// WithdrawUntaken is Withdraw for an ask that no consumer has taken. It reports whether
// that was so.
func (s *Stream) WithdrawUntaken(a *Ask, why error) bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if a.taken || s.core.asks[a.id] != a {
		return false
	}
	s.withdrawLocked(a, why)
	return true
}

func (s *Stream) withdrawLocked(a *Ask, why error) {
	s.core.endAskLocked(a, Terminal{Err: why})
	s.dropLocked(func(m *Message) bool { return m.ask == a })
}

func (c *core) endAskLocked(a *Ask, end Terminal) {
	if c.asks[a.id] != a {
		return
	}
	delete(c.asks, a.id)
	if len(c.asks) == 0 {
		c.asks = nil // a map does not shrink
	}
	a.finish(end)
}

// endAsksLocked ends the asks of one stream and returns those that the client has received,
// in the order in which they were sent.
func (c *core) endAsksLocked(s *Stream, err error) []*Ask {
	var open []*Ask
	for _, a := range c.asks {
		if a.stream == s {
			open = append(open, a)
		}
	}
	slices.SortFunc(open, func(a, b *Ask) int { return cmp.Compare(a.serial, b.serial) })
	for _, a := range open {
		c.endAskLocked(a, Terminal{Err: err})
	}
	return slices.DeleteFunc(open, func(a *Ask) bool { return !a.taken })
}

// Withdrawal returns the message that notifies a client that the ask is cancelled
// (2025-11-25, basic/utilities/cancellation).
func (a *Ask) Withdrawal() Message {
	params := append([]byte(`{"requestId":`), a.id.String()...)
	return Message{Class: Log, Head: jsonrpc.AppendNotification(nil, "notifications/cancelled", append(params, '}'))}
}
