// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// bundle carries several streams on one response: those of a batch. It belongs to
// the goroutine of that response, as each of its carriers does; they share one
// channel, so that it waits for all of them at once.
//
// A client knows one last event id of a response, and has to come back for the
// rest of all its streams. So the id of each event says where the response stands
// on all of them that have not ended.
type batchStream struct {
	wake    chan struct{}
	members []*batchMember
	ready   []session.Message // what was said without a stream
}

// seat is one stream of a bundle.
type batchMember struct {
	consumer *session.Consumer
	position session.EventID // zero where it cannot be resumed
}

func newBatchStream() *batchStream { return &batchStream{wake: make(chan struct{}, 1)} }

// say adds a message that is there already, and has no stream.
func (b *batchStream) addMessage(m session.Message) { b.ready = append(b.ready, m) }

// add takes the right to carry a stream, which can be resumed from then on. The
// response must be written, or detach called: nobody else can take what is on it.
func (b *batchStream) add(s *session.Stream) {
	c := s.Attach(b.wake)
	c.MakeResumable()
	b.addConsumer(c)
}

// carry adds a stream that is carried already, by the bundle's channel.
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

// write writes what is there and what comes, until all streams have ended or the
// client is gone.
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

// round writes all that the streams have, and lets go of those that have ended.
func (b *batchStream) writeReady(p *response) {
	var open []*batchMember
	for _, member := range b.members {
		state := b.writeMember(p, member)
		if p.err != nil {
			break // what is left is for whoever comes back
		}
		if state == session.Open {
			open = append(open, member)
			continue
		}
		p.aborted = p.aborted || !isInOrder(state) // somebody else carries the rest
		member.consumer.Detach()
	}
	if p.err == nil {
		b.members = open
	}
	p.flush()
}

// place is where the response stands once the message is written: on its own
// stream, and on the others that go on. A stream that has ended is named only where
// there is no other.
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

// drain writes all that waits on one stream. A carrier is woken once for any number of
// messages, so that whoever takes only some of them would leave the rest until another
// comes.
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

// detach gives back what is still carried, because the client has gone. What it
// has an event of waits for it to come back; a stream of which it knows nothing
// tells its Handler that nobody listens.
func (b *batchStream) detach() {
	for _, member := range b.members {
		member.consumer.Detach()
	}
}
