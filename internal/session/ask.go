// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// core is the lock that a session, or an exchange without one, is kept under,
// and what all in it has in common.
type core struct {
	rules *Rules
	owner func() owner // of the session; nil where there is none

	principal string // in whose account its streams count

	mu       sync.Mutex
	past     *past // nil while nothing is kept
	ended    bool
	carriers int // that are attached
	lastAsk  uint64
	asks     map[mcp.ID]*Ask // nil while there are none
}

// Ask is a request of ours to the client, and the cell in which its answer
// arrives. It ends with the answer, or with what it was asked in.
type Ask struct {
	id     mcp.ID
	serial uint64 // of the asks of a session
	stream *Stream
	done   chan struct{}

	taken bool     // a carrier has it; guarded by the core's lock
	end   Terminal // written before done is closed
}

// ID returns the id of the request on the wire.
func (a *Ask) ID() mcp.ID { return a.id }

// Done returns a channel that is closed when Answer is there.
func (a *Ask) Done() <-chan struct{} { return a.done }

// Answer returns what ended the ask. It must not be called before Done is
// closed.
func (a *Ask) Answer() Terminal { return a.end }

// Ask puts a request to the client on the stream; beside is what stands beside its params
// (see [mcp.Object.Beside]). It must be ended by Withdraw
// where nobody waits for it any more.
func (s *Stream) Ask(method string, params, beside []byte) (*Ask, error) {
	c := s.core
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.ended:
		return nil, s.endedErrLocked()
	case s.isDeafLocked():
		return nil, ErrNoReceiver
	case len(c.asks) >= c.rules.Limits.Asks:
		return nil, ErrTooMany
	}
	c.lastAsk++
	a := &Ask{id: mcp.NumberID(c.lastAsk), serial: c.lastAsk, stream: s, done: make(chan struct{})}
	if c.asks == nil {
		c.asks = make(map[mcp.ID]*Ask, 1)
	}
	c.asks[a.id] = a
	s.pushLocked(Message{Head: mcp.AppendBeside(mcp.AppendRequest(nil, a.id, method, params), beside), ask: a})
	return a, nil
}

// Withdraw ends an ask that nobody waits for any more. If no carrier has taken
// it, the client never sees it. Where the client has seen it and has not
// answered, Withdraw reports true: then it ought to be told.
func (s *Stream) Withdraw(a *Ask, why error) (tell bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.core.asks[a.id] != a {
		return false
	}
	s.core.endAskLocked(a, Terminal{Err: why})
	s.dropLocked(func(m *Message) bool { return m.ask == a })
	return a.taken && !s.ended && !s.lost
}

// WithdrawUntaken is Withdraw for an ask that no carrier has taken yet. It
// reports whether that was so.
func (s *Stream) WithdrawUntaken(a *Ask, why error) bool {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if a.taken || s.core.asks[a.id] != a {
		return false
	}
	s.core.endAskLocked(a, Terminal{Err: why})
	s.dropLocked(func(m *Message) bool { return m.ask == a })
	return true
}

// answer completes the ask of that id, and reports whether there is one.
func (c *core) answer(id mcp.ID, end Terminal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.asks[id]
	if !ok || !a.taken {
		// An answer to what was never sent is a guess.
		c.rules.Counts.Strays.Add(1)
		return false
	}
	c.endAskLocked(a, end)
	return true
}

func (c *core) endAskLocked(a *Ask, end Terminal) {
	if c.asks[a.id] != a {
		return
	}
	delete(c.asks, a.id)
	if len(c.asks) == 0 {
		c.asks = nil // a map keeps its room
	}
	a.end = end
	close(a.done)
}

// endAsksLocked ends the asks of one stream and returns those that the client
// has, in the order in which they were asked.
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

// Withdrawal is the message by which a client learns that a question it has is
// not to be answered any more (2025-11-25, basic/utilities/cancellation).
func (a *Ask) Withdrawal() Message {
	params := append([]byte(`{"requestId":`), a.id.String()...)
	return Message{Class: Log, Head: mcp.AppendNotification(nil, "notifications/cancelled", append(params, '}'))}
}
