// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// batchStream writes the streams of a batch to one response. It belongs to the goroutine
// of that response, as do its consumers; they share one wake channel, so that the
// goroutine waits for all of them at once.
//
// A client knows only the last event id of a response, and must resume all its streams
// with it. So the id of each event contains the position in every stream that has not
// ended.
type batchStream struct {
	wake    chan struct{}
	members []*batchMember
	ready   []session.Message // messages without a stream
}

// batchMember is one stream of a batch.
type batchMember struct {
	consumer *session.Consumer
	position session.EventID // zero if it cannot be resumed
}

func newBatchStream() *batchStream { return &batchStream{wake: make(chan struct{}, 1)} }

// addMessage adds a complete message without a stream.
func (b *batchStream) addMessage(m session.Message) { b.ready = append(b.ready, m) }

// add attaches to a stream, which can be resumed from then on. The caller must call write
// or detach: until then no other consumer can attach.
func (b *batchStream) add(s *session.Stream) {
	c := s.Attach(b.wake)
	c.MakeResumable()
	b.addConsumer(c)
}

// addConsumer adds a consumer that uses the wake channel of the batch.
func (b *batchStream) addConsumer(c *session.Consumer) {
	b.members = append(b.members, &batchMember{consumer: c, position: c.Prime()})
}

func (b *batchStream) empty() bool { return len(b.ready) == 0 && len(b.members) == 0 }

// isSpent reports whether there is nothing to write and never will be.
func (b *batchStream) isSpent() bool {
	for _, member := range b.members {
		if !member.consumer.IsSpent() {
			return false
		}
	}
	return len(b.ready) == 0
}

// write writes the queued messages and all that follow, until all streams have ended or
// the client is gone.
func (b *batchStream) write(p *response, keepAlive time.Duration, gone <-chan struct{}) {
	defer b.detach()
	for i := range b.ready {
		p.writeEvent(&b.ready[i])
	}
	p.writeComment()
	quiet := time.NewTimer(keepAlive)
	defer quiet.Stop()
	for b.writeReady(p); len(b.members) > 0 && p.err == nil; b.writeReady(p) {
		select {
		case <-b.wake:
			quiet.Reset(keepAlive)
		case <-quiet.C:
			p.writeComment()
			quiet.Reset(keepAlive)
		case <-gone:
			p.aborted = true
			return
		}
	}
	p.aborted = p.aborted || p.err != nil
}

// writeReady writes what the streams have queued, and detaches those that have ended.
func (b *batchStream) writeReady(p *response) {
	var open []*batchMember
	for _, member := range b.members {
		state := b.writeMember(p, member)
		if p.err != nil {
			break // the rest waits for the client to resume
		}
		if state == session.Open {
			open = append(open, member)
			continue
		}
		p.aborted = p.aborted || !isInOrder(state) // another consumer writes the rest
		member.consumer.Detach()
	}
	if p.err == nil {
		b.members = open
	}
	p.flush()
}

// eventID returns the position of the response after the message: in its own stream, and
// in the others that go on. A stream that has ended is named only if no other is left.
func (b *batchStream) eventID(own *batchMember, m *session.Message) string {
	if m.Event().IsZero() {
		return ""
	}
	own.position = m.Event()
	var ids []session.EventID
	for _, member := range b.members {
		if (member != own || !m.IsTerminal()) && !member.position.IsZero() {
			ids = append(ids, member.position)
		}
	}
	if m.IsTerminal() {
		defer func() { own.position = session.EventID{} }()
	}
	if len(ids) == 0 {
		ids = append(ids, own.position)
	}
	return joinEventIDs(ids)
}

// writeMember writes what one stream has queued. It takes messages until the queue is
// empty, because a consumer is woken once for any number of them.
func (b *batchStream) writeMember(p *response, member *batchMember) session.State {
	for {
		taken, state := member.consumer.Take(p.batch[:0])
		for i := range taken {
			p.writeEventAs(b.eventID(member, &taken[i]), &taken[i])
		}
		if state != session.Open || len(taken) == 0 || p.err != nil {
			return state
		}
	}
}

// detach detaches the remaining consumers, because the client has disconnected. A stream
// with an event that the client has received waits for it to resume; on any other the
// Handler gets an error.
func (b *batchStream) detach() {
	for _, member := range b.members {
		member.consumer.Detach()
	}
}
