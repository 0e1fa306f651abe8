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
type bundle struct {
	wake  chan struct{}
	seats []*seat
	ready []session.Message // what was said without a stream
}

// seat is one stream of a bundle.
type seat struct {
	carrier *session.Consumer
	at      session.EventID // zero where it cannot be resumed
}

func newBundle() *bundle { return &bundle{wake: make(chan struct{}, 1)} }

// say adds a message that is there already, and has no stream.
func (b *bundle) say(m session.Message) { b.ready = append(b.ready, m) }

// add takes the right to carry a stream, which can be resumed from then on. The
// response must be written, or detach called: nobody else can take what is on it.
func (b *bundle) add(s *session.Stream) {
	c := s.Attach(b.wake)
	c.MakeResumable()
	b.carry(c)
}

// carry adds a stream that is carried already, by the bundle's channel.
func (b *bundle) carry(c *session.Consumer) {
	b.seats = append(b.seats, &seat{carrier: c, at: c.Prime()})
}

func (b *bundle) empty() bool { return len(b.ready) == 0 && len(b.seats) == 0 }

// isSpent reports whether there is nothing to write and never will be.
func (b *bundle) isSpent() bool {
	for _, t := range b.seats {
		if !t.carrier.IsSpent() {
			return false
		}
	}
	return len(b.ready) == 0
}

// write writes what is there and what comes, until all streams have ended or the
// client is gone.
func (b *bundle) write(p *response, keepAlive time.Duration, gone <-chan struct{}) {
	defer b.detach()
	for i := range b.ready {
		p.event(&b.ready[i])
	}
	p.comment()
	quiet := time.NewTimer(keepAlive)
	defer quiet.Stop()
	for b.round(p); len(b.seats) > 0 && p.err == nil; b.round(p) {
		select {
		case <-b.wake:
			quiet.Reset(keepAlive)
		case <-quiet.C:
			p.comment()
			quiet.Reset(keepAlive)
		case <-gone:
			p.cut = true
			return
		}
	}
	p.cut = p.cut || p.err != nil
}

// round writes all that the streams have, and lets go of those that have ended.
func (b *bundle) round(p *response) {
	var open []*seat
	for _, t := range b.seats {
		state := b.drain(p, t)
		if p.err != nil {
			break // what is left is for whoever comes back
		}
		if state == session.Open {
			open = append(open, t)
			continue
		}
		p.cut = p.cut || !isInOrder(state) // somebody else carries the rest
		t.carrier.Detach()
	}
	if p.err == nil {
		b.seats = open
	}
	p.flush()
}

// place is where the response stands once the message is written: on its own
// stream, and on the others that go on. A stream that has ended is named only where
// there is no other.
func (b *bundle) place(own *seat, m *session.Message) string {
	if m.Event().IsZero() {
		return ""
	}
	own.at = m.Event()
	var ids []session.EventID
	for _, t := range b.seats {
		if (t != own || !m.IsTerminal()) && !t.at.IsZero() {
			ids = append(ids, t.at)
		}
	}
	if m.IsTerminal() {
		defer func() { own.at = session.EventID{} }()
	}
	if len(ids) == 0 {
		ids = append(ids, own.at)
	}
	return spell(ids)
}

// drain writes all that waits on one stream. A carrier is woken once for any number of
// messages, so that whoever takes only some of them would leave the rest until another
// comes.
func (b *bundle) drain(p *response, t *seat) session.State {
	for {
		taken, state := t.carrier.Take(p.batch[:0])
		for i := range taken {
			p.eventAs(b.place(t, &taken[i]), &taken[i])
		}
		if state != session.Open || len(taken) == 0 || p.err != nil {
			return state
		}
	}
}

// detach gives back what is still carried, because the client has gone. What it
// has an event of waits for it to come back; a stream of which it knows nothing
// tells its Handler that nobody listens.
func (b *bundle) detach() {
	for _, t := range b.seats {
		t.carrier.Detach()
	}
}
