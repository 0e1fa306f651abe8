// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// client is one client of the gateway, and what it has seen.
//
// It knows what a client can know, from what it has read: questions that reached
// it, ids of events, states to come back with. That it answers and resumes by these
// alone is what makes a message that went astray visible: nobody would act on it.
type client struct {
	no        int
	modern    bool
	principal string
	address   string
	place     uint64 // of a modern client on a pipe
	sess      *sess  // that it uses; nil where it has none
	mine      []*request
	pipes     []*pipe
	questions []int // that it has not answered, of its session
	resumes   bool  // it knows how to come back
	primed    bool  // its streams begin with an event id
	opening   bool  // it has asked for a session
	cursors   []cursor
	states    []*state // of requests that were parked
}

// newClient makes a client: an anonymous one, a modern one, or one of a principal.
//
// Few principals, addresses and places, each shared by several clients: what is to
// be kept apart has to meet first. The modern client without a principal has the
// place of its connection as its only name.
func newClient(no, kind, resumes int) *client {
	c := &client{no: no, resumes: resumes < 3, primed: resumes == 1 || resumes == 2}
	switch kind {
	case 0:
		c.address = fmt.Sprintf("10.0.0.%d", no%2)
	case 1:
		c.modern = true
		c.place = uint64(no % 3)
		c.principal = [...]string{"p", "", "q"}[no%3]
	case 2:
		c.principal = "p"
	default:
		c.principal = "q"
	}
	return c
}

func (c *client) String() string { return fmt.Sprintf("c%d", c.no) }

// owner is who pays for the client's sessions.
func (c *client) owner() string {
	if c.principal != "" {
		return c.principal
	}
	return c.address
}

func peer() *mcp.Peer { return &mcp.Peer{} }

// opens asks for a session.
func (c *client) opens(w *world) {
	c.opening = true
	w.send(travel{what: initialize, from: c, principal: c.principal})
}

// learns is the answer to initialize. The session that the client had before is
// left to itself.
//
// Most real clients do just that: they open a session, forget it without a word,
// and open the next (M095, M102). The sessions of which nobody thinks any more are
// what eviction and sweeping are for.
func (c *client) learns(w *world, s *sess) {
	c.sess, c.opening = s, false
	c.questions = nil
	w.send(travel{what: initialized, from: c, principal: c.principal, sessID: s.real.ID})
}

// unlearns is the answer that a session is not known: the client opens another.
func (c *client) unlearns(id string) {
	if c.sess != nil && c.sess.real.ID == id {
		c.sess, c.questions = nil, nil
	}
}

// clientActs has one of the clients do something.
func (w *world) clientActs() {
	c := w.clients[w.src.Intn(len(w.clients))]
	n := w.src.Intn(20)
	switch {
	case n < 6:
		c.readsSome(w)
	case c.modern:
		c.actsModern(w, n)
	case w.set.churn && n < 18:
		c.churns(w)
	case c.sess == nil && c.opening && n < 18:
		c.readsSome(w)
	case c.sess == nil, w.set.crowded && n == 19 && w.src.Intn(3) < 2:
		c.opens(w)
	default:
		c.actsLegacy(w, n)
	}
}

// churns opens a session, or ends one of those that the client has ever had.
//
// Sessions come and go as fast as they can, from several addresses, in a table for
// a few: counts by owner go wrong here, where an owner disappears and comes back,
// and not where clients work.
func (c *client) churns(w *world) {
	own := make([]*sess, 0, len(w.sessions))
	for _, s := range w.sessions {
		if s.client == c && s.listed {
			own = append(own, s)
		}
	}
	if len(own) == 0 || w.src.Intn(2) == 0 {
		c.opens(w)
		return
	}
	w.send(travel{what: remove, from: c, principal: c.principal, sessID: own[w.src.Intn(len(own))].real.ID})
}

// To come back goes before all else: a parked request has a time, and the states
// that pile up are worth nothing behind it.
func (c *client) actsModern(w *world, n int) {
	what := modernCall
	if n > 16 {
		what = modernListen
	}
	if n < 12 && len(c.states) > 0 {
		w.send(c.retry(w))
		return
	}
	if n == 12 {
		c.drops(w)
		return
	}
	if n > 13 || len(c.pipes) == 0 {
		w.send(travel{what: what, from: c, principal: c.principal, id: w.src.Intn(6), pipe: c.newPipe(w), script: w.src.Intn(8)})
		return
	}
	c.readsSome(w)
}

// retry comes back with what a request was parked as: sometimes again, or with what
// is not the client's own.
//
// A state that is kept is brought a second time, as by a client that has timed out
// and tries again, or by somebody who has read it on the way. Each part of what it
// is bound to is then changed by itself, so that no other check can be what refuses
// it (I22).
func (c *client) retry(w *world) travel {
	at := w.src.Intn(len(c.states))
	s := c.states[at]
	if w.calm || !w.set.allows(Duplicate) || !w.src.OneIn(3) {
		c.states = append(c.states[:at], c.states[at+1:]...)
	}
	t := travel{what: modernRetry, from: c, principal: c.principal, state: s, method: askedIn, event: s.digest, id: w.src.Intn(6), pipe: c.newPipe(w), place: c.place}
	if s.of == nil && w.src.OneIn(3) {
		t.script = handsOn // it is asked once more
	}
	switch {
	case w.calm || !w.set.allows(Foreign):
	case w.src.OneIn(6):
		t.event = "another digest"
	case w.src.OneIn(6):
		t.principal = "somebody else"
	case w.src.OneIn(6):
		t.place += 3
	case w.src.OneIn(6):
		t.method = "prompts/get"
	}
	return t
}

// Ids are drawn from six, and cancellations and answers name them at random: that
// what they name has ended, was never begun, or is another request of the same id
// by now is common (M011, M017).
func (c *client) actsLegacy(w *world, n int) {
	t := travel{from: c, principal: c.principal, sessID: c.sess.real.ID}
	if len(c.cursors) > 0 && n < 12 {
		n = 14
	}
	switch {
	case n < 11:
		t.what, t.id, t.pipe, t.script = call, w.src.Intn(6), c.newPipe(w), w.src.Intn(8)
	case n < 13:
		t.what, t.id = answer, c.pickQuestion(w)
	case n < 15:
		t.what = get
		t.event, t.pipe = c.pickCursor(w)
		if at := t.pipe.at; at != nil && at.of == nil && w.set.allows(Takeover) && w.src.OneIn(3) {
			// It does not wait for what becomes of that, and begins anew too: what the
			// first fetches is still on its way when the second takes the stream over.
			w.send(t)
			t.event, t.pipe = "", c.newPipe(w)
		}
	case n < 16 && !w.src.OneIn(2):
		t.what, t.id = cancelled, w.src.Intn(noID+1)
	case n < 17:
		t.what, t.script = note, w.src.Intn(8)
		if w.src.OneIn(2) {
			t.what = initialized
		}
	case n < 19:
		c.drops(w)
		return
	default:
		switch k := w.src.Intn(8); {
		case k == 7, k > 2 && w.set.crowded:
			t.what = remove
		case k > 4:
			t.what = initialize
		default:
			c.readsSome(w)
			return
		}
	}
	w.send(t)
}

// drops has the client close one of its connections, which is no cancellation.
//
// In the older era a connection that breaks says nothing about the request: it goes
// on, and its answer is kept. In the newer one it is the cancellation (I25). The
// client does the same in both.
func (c *client) drops(w *world) {
	if w.set.allows(Reset) {
		w.resetOne(c, Reset)
	}
}

// pickQuestion returns a question to answer: mostly one that is open.
//
// A small number that was not asked may be the question of another session, which
// counts its own from the same beginning (M015, M018).
func (c *client) pickQuestion(w *world) int {
	if n := len(c.questions); n > 0 && (!w.set.allows(DeadAnswer) || !w.src.OneIn(4)) {
		at := w.src.Intn(n)
		no := c.questions[at]
		if !w.set.allows(DeadAnswer) || !w.src.OneIn(4) {
			c.questions = append(c.questions[:at], c.questions[at+1:]...)
		}
		return no
	}
	return w.src.Intn(8)
}

// follows reports whether the client has another connection to the same stream, or
// means to have one.
//
// A client has one place on a stream. Had it two, a rest would be fetched twice,
// and the model could not say which of the two was owed.
func (c *client) follows(p *pipe) bool {
	for _, o := range c.pipes {
		if o != p && o.at == p.at && !o.stray {
			return true
		}
	}
	for _, at := range c.cursors {
		if at.at == p.at {
			return true
		}
	}
	return false
}

// cursor is where a client was on a stream when it lost it.
type cursor struct {
	at    *stream
	event string
}

// pickCursor returns an event id to come back with, or "", and the connection for it.
//
// A client that names no event begins anew though it could have come back: what was
// given back for it is then settled for good, which happens nowhere else.
func (c *client) pickCursor(w *world) (string, *pipe) {
	p := c.newPipe(w)
	n := len(c.cursors)
	switch k := w.src.Intn(8); {
	case k == 7 && w.set.allows(HostileCursor):
		w.fault(HostileCursor)
		p.stray = true
		return w.hostileCursor(), p
	case k < 1 || n == 0:
		return "", p
	}
	i := w.src.Intn(n)
	at := c.cursors[i]
	c.cursors = append(c.cursors[:i], c.cursors[i+1:]...)
	p.at, p.event = at.at, at.event // it has nothing newer until something comes
	if w.set.allows(OldCursor) && w.src.OneIn(4) {
		return w.older(at), p
	}
	return at.event, p
}

func (c *client) newPipe(w *world) *pipe {
	p := &pipe{client: c, room: 1 + w.src.Intn(6)}
	c.pipes = append(c.pipes, p)
	return p
}

// readsSome reads from one of the client's connections.
func (c *client) readsSome(w *world) {
	n := len(c.pipes)
	if n == 0 {
		return
	}
	at := c.pickPipe(w, func(p *pipe) bool { return len(p.flow) > 0 && p.at != nil })
	p := c.pipes[at]
	for range min(len(p.flow), 1+w.src.Intn(4)) {
		w.clientReads(p)
	}
	if p.at != nil && p.at.of != nil && p.at.of.state != nil && p.at.of.got > 0 {
		c.hangsUp(w, p)
	}
	c.letGo(at)
}

// pickPipe chooses one of the client's connections: one that is as wanted, if there
// is any.
func (c *client) pickPipe(w *world, wanted func(*pipe) bool) int {
	from := w.src.Intn(len(c.pipes))
	for i := range c.pipes {
		if at := (from + i) % len(c.pipes); wanted(c.pipes[at]) {
			return at
		}
	}
	return from
}

// letGo forgets a connection that has nothing more to say. If there may be more
// elsewhere, the client remembers where it was.
//
// A position is worth keeping only while something may be owed on it. Cursors of
// answered requests would crowd out those that lead somewhere; that coming back to
// an answered one is harmless is what older cursors and made-up ones try (M007,
// M065).
func (c *client) letGo(at int) {
	if p := c.pipes[at]; p.left || p.ended && len(p.flow) == 0 {
		if p.event != "" && p.at != nil && !p.stray && !c.follows(p) && (p.at.of == nil || p.at.of.got == 0 && !p.at.of.cancelled) {
			c.cursors = append(c.cursors, cursor{at: p.at, event: p.event})
		}
		c.pipes = append(c.pipes[:at], c.pipes[at+1:]...)
	}
}

// hangsUp: a client that knows with what to come back has no use for the connection on
// which it learned that. It is mostly back with its answers before the gateway notices:
// the request, which may be parked again by then, must be no worse off for the end of an
// exchange that it has left.
func (c *client) hangsUp(w *world, p *pipe) {
	if w.calm || p.ended || p.left || !w.set.allows(HalfOpen) || w.src.OneIn(4) {
		return
	}
	w.fault(HalfOpen)
	p.left = true
	after := [...]time.Duration{2 * askWindow, time.Second, 5 * time.Second}[w.src.Intn(3)]
	w.spawn(&notice{p: p, at: w.now.Add(after)})
	if len(c.states) > 0 && w.src.OneIn(2) {
		w.send(c.retry(w))
	}
}

// clientReads has the client read one packet, and holds it against what it may see
// there.
func (w *world) clientReads(p *pipe) {
	pk := p.flow[0]
	p.flow = p.flow[1:]
	c, s := p.client, p.at
	if pk.mark == 0 { // the first event, which has no message
		p.event = pk.event
		return
	}
	// This is the rule that the project is there for, held at the only place that
	// counts: what a client reads on a connection was put on that stream, and on no
	// other (M033, M034, M036).
	if o := w.marks[pk.mark]; o.at != s {
		w.fail("I8", "%s reads m%d on %s, where it does not belong", c, pk.mark, s.name)
		return
	}
	if w.tell() {
		w.say("%s reads m%d at %d of %s", c, pk.mark, pk.pos, s.name)
	}
	// Where there are no ids a gap is no loss: what was not written there has gone
	// back, and is counted.
	if pk.pos != p.pos+1 && (pk.event != "" || pk.pos <= p.pos) {
		w.fail("I13", "%s gets position %d of %s behind %d", c, pk.pos, s.name, p.pos)
	}
	p.pos, p.event = pk.pos, pk.event
	switch pk.sort {
	case question:
		if c.sess == s.sess {
			c.questions = append(c.questions, pk.no)
		}
	case terminal:
		if s.of.state != nil {
			c.states = append(c.states, s.of.state)
		}
		s.of.got++
		if s.of.got > 1 && !s.of.again {
			w.fail("I36", "%s gets %d terminals", s.of, s.of.got)
		}
	default:
	}
}
