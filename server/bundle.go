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
type bundle struct {
	wake     chan struct{}
	carriers []*session.Carrier
	ready    []session.Message // what was said without a stream
}

func newBundle() *bundle { return &bundle{wake: make(chan struct{}, 1)} }

// say adds a message that is there already, and has no stream.
func (b *bundle) say(m session.Message) { b.ready = append(b.ready, m) }

// add takes the right to carry a stream. From then on the response must be
// written, or detach called: nobody else can take what is on it.
func (b *bundle) add(s *session.Stream) { b.carriers = append(b.carriers, s.Attach(b.wake)) }

func (b *bundle) empty() bool { return len(b.ready) == 0 && len(b.carriers) == 0 }

// carry writes what is there and what comes, until all streams have ended or the
// client is gone.
func (b *bundle) carry(p *response, keepAlive time.Duration, gone <-chan struct{}) {
	defer b.detach()
	for i := range b.ready {
		p.event(&b.ready[i])
	}
	p.comment()
	quiet := time.NewTimer(keepAlive)
	defer quiet.Stop()
	for b.round(p); len(b.carriers) > 0 && p.err == nil; b.round(p) {
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
	p.cut = p.err != nil
}

// round writes all that the streams have, and lets go of those that have ended.
func (b *bundle) round(p *response) {
	open := b.carriers[:0]
	var taken []session.Message
	for _, c := range b.carriers {
		var state session.State
		taken, state = drain(c, taken[:0])
		for i := range taken {
			p.event(&taken[i])
		}
		if state == session.Open {
			open = append(open, c)
			continue
		}
		c.Detach()
	}
	b.carriers = open
	p.flush()
}

// drain takes all that waits on one stream. A carrier is woken once for any
// number of messages, so that whoever takes only some of them would leave the
// rest until another comes.
func drain(c *session.Carrier, taken []session.Message) ([]session.Message, session.State) {
	for {
		n := len(taken)
		var state session.State
		taken, state = c.Take(taken)
		if state != session.Open || len(taken) == n {
			return taken, state
		}
	}
}

// detach gives back what is still carried, because the client has gone: a
// stream without a carrier tells its Handler that nobody listens.
func (b *bundle) detach() {
	for _, c := range b.carriers {
		c.Detach()
	}
}
