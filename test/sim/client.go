// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// client is one client of the gateway, and what it has received.
//
// It knows only what a client can know from its messages: questions, event ids, states for
// a retry. It answers and resumes by these alone, so that a misdirected message shows.
type client struct {
	no        int
	modern    bool
	principal string
	address   string
	place     uint64 // of a modern client on a pipe
	sess      *sess  // its current session, or nil
	requests  []*request
	responses []*response
	questions []int // of its session, unanswered
	resumes   bool  // it supports resumption
	primed    bool  // its streams begin with an event id
	opening   bool  // it has sent initialize
	cursors   []cursor
	states    []*state // of parked requests
}

// newClient returns a client: an anonymous one, a modern one, or one of a principal.
//
// Several clients share each of a few principals, addresses and places, so that a failure
// to isolate them shows. A modern client without a principal is identified only by the
// place of its connection.
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

// owner returns the account of the client's sessions.
func (c *client) owner() string {
	if c.principal != "" {
		return c.principal
	}
	return c.address
}

func peer() *mcp.Peer { return &mcp.Peer{} }

// openSession requests a session.
func (c *client) openSession(w *world) {
	c.opening = true
	w.send(clientMessage{what: initialize, from: c, principal: c.principal})
}

// sessionOpened handles the answer to initialize. The client abandons its previous session.
//
// Most real clients do that: they open a session, leave it without a DELETE, and open the
// next (M095, M102). Eviction and expiry exist for the abandoned sessions.
func (c *client) sessionOpened(w *world, s *sess) {
	c.sess, c.opening = s, false
	c.questions = nil
	w.send(clientMessage{what: initialized, from: c, principal: c.principal, sessID: s.real.ID})
}

// sessionUnknown handles the answer that a session is unknown: the client opens another.
func (c *client) sessionUnknown(id string) {
	if c.sess != nil && c.sess.real.ID == id {
		c.sess, c.questions = nil, nil
	}
}

// clientAct lets one of the clients act.
func (w *world) clientAct() {
	c := w.clients[w.src.Intn(len(w.clients))]
	n := w.src.Intn(20)
	switch {
	case n < 6:
		c.readSome(w)
	case c.modern:
		c.actModern(w, n)
	case w.set.churn && n < 18:
		c.churn(w)
	case c.sess == nil && c.opening && n < 18:
		c.readSome(w)
	case c.sess == nil, w.set.crowded && n == 19 && w.src.Intn(3) < 2:
		c.openSession(w)
	default:
		c.actLegacy(w, n)
	}
}

// churn opens a session, or ends one of all those that the client has had.
//
// Sessions begin and end as fast as possible, from several addresses, in a small table:
// this finds wrong counts per owner, which need an owner that disappears and returns.
func (c *client) churn(w *world) {
	own := make([]*sess, 0, len(w.sessions))
	for _, s := range w.sessions {
		if s.client == c && s.listed {
			own = append(own, s)
		}
	}
	if len(own) == 0 || w.src.Intn(2) == 0 {
		c.openSession(w)
		return
	}
	w.send(clientMessage{what: remove, from: c, principal: c.principal, sessID: own[w.src.Intn(len(own))].real.ID})
}

// actModern lets a modern client act. Retries come first: a parked request expires, and
// states that pile up are useless after that.
func (c *client) actModern(w *world, n int) {
	what := modernCall
	if n > 16 {
		what = modernListen
	}
	if n < 12 && len(c.states) > 0 {
		w.send(c.retry(w))
		return
	}
	if n == 12 {
		c.closeOne(w)
		return
	}
	if n > 13 || len(c.responses) == 0 {
		w.send(clientMessage{what: what, from: c, principal: c.principal, id: w.src.Intn(6), response: c.newResponse(w), script: w.src.Intn(8)})
		return
	}
	c.readSome(w)
}

// retry retries a parked request, sometimes a second time or with wrong data.
//
// A state may be used twice, as by a client that has timed out and tries again, or by an
// attacker. Each part that the state is bound to is then changed separately, so that no
// other check can be the one that refuses it (I22).
func (c *client) retry(w *world) clientMessage {
	at := w.src.Intn(len(c.states))
	s := c.states[at]
	if w.quiescing || !w.set.allows(Duplicate) || !w.src.OneIn(3) {
		c.states = append(c.states[:at], c.states[at+1:]...)
	}
	t := clientMessage{what: modernRetry, from: c, principal: c.principal, state: s, method: askedIn, event: s.digest, id: w.src.Intn(6), response: c.newResponse(w), place: c.place}
	if s.of == nil && w.src.OneIn(3) {
		t.script = firstStateScript // it is asked for input once more
	}
	switch {
	case w.quiescing || !w.set.allows(Foreign):
	case w.src.OneIn(6):
		t.event = "another digest"
	case w.src.OneIn(6):
		t.principal = "another principal"
	case w.src.OneIn(6):
		t.place += 3
	case w.src.OneIn(6):
		t.method = "prompts/get"
	}
	return t
}

// actLegacy lets a legacy client act. Ids are drawn from six, and cancellations and answers
// use random ones: often the request has ended, was never begun, or is another one with the
// same id (M011, M017).
func (c *client) actLegacy(w *world, n int) {
	t := clientMessage{from: c, principal: c.principal, sessID: c.sess.real.ID}
	if len(c.cursors) > 0 && n < 12 {
		n = 14
	}
	switch {
	case n < 11:
		t.what, t.id, t.response, t.script = call, w.src.Intn(6), c.newResponse(w), w.src.Intn(8)
	case n < 13:
		t.what, t.id = answer, c.pickQuestion(w)
	case n < 15:
		t.what = get
		t.event, t.response = c.pickCursor(w)
		if at := t.response.at; at != nil && at.of == nil && w.set.allows(Takeover) && w.src.OneIn(3) {
			// It begins anew at the same time: the replay of the first connection is still
			// in transit when the second takes the stream over.
			w.send(t)
			t.event, t.response = "", c.newResponse(w)
		}
	case n < 16 && !w.src.OneIn(2):
		t.what, t.id = cancelled, w.src.Intn(noID+1)
	case n < 17:
		t.what, t.script = notification, w.src.Intn(8)
		if w.src.OneIn(2) {
			t.what = initialized
		}
	case n < 19:
		c.closeOne(w)
		return
	default:
		switch k := w.src.Intn(8); {
		case k == 7, k > 2 && w.set.crowded:
			t.what = remove
		case k > 4:
			t.what = initialize
		default:
			c.readSome(w)
			return
		}
	}
	w.send(t)
}

// closeOne makes the client close one of its connections, which is not a cancellation.
//
// In the legacy era a broken connection has no effect on the request: it continues, and its
// answer is retained. In the modern era it is the cancellation (I25). The client does the
// same in both.
func (c *client) closeOne(w *world) {
	if w.set.allows(Reset) {
		w.resetOne(c, Reset)
	}
}

// pickQuestion returns a question to answer, mostly an open one.
//
// A small number that was not asked may be the question of another session, which counts
// from the same number (M015, M018).
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

// isReading reports whether the client reads the same stream on another connection, or is
// about to.
//
// A client has one position on a stream. With two, messages would be replayed twice, and
// the model could not decide which replay was owed.
func (c *client) isReading(p *response) bool {
	for _, o := range c.responses {
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

// cursor is the position of a client on a stream that it has lost.
type cursor struct {
	at    *stream
	event string
}

// pickCursor returns an event id to resume from, or "", and the connection for it.
//
// A client that sends no event id begins anew even if it could resume: only then are the
// messages that were requeued for it dropped.
func (c *client) pickCursor(w *world) (string, *response) {
	p := c.newResponse(w)
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
	p.at, p.event = at.at, at.event // the newest event that it has so far
	if w.set.allows(OldCursor) && w.src.OneIn(4) {
		return w.older(at), p
	}
	return at.event, p
}

func (c *client) newResponse(w *world) *response {
	p := &response{client: c, capacity: 1 + w.src.Intn(6)}
	c.responses = append(c.responses, p)
	return p
}

// readSome reads from one of the client's connections.
func (c *client) readSome(w *world) {
	n := len(c.responses)
	if n == 0 {
		return
	}
	at := c.pickResponse(w, func(p *response) bool { return len(p.unread) > 0 && p.at != nil })
	p := c.responses[at]
	for range min(len(p.unread), 1+w.src.Intn(4)) {
		w.clientReads(p)
	}
	if p.at != nil && p.at.of != nil && p.at.of.state != nil && p.at.of.terminals > 0 {
		c.hangUp(w, p)
	}
	c.forgetResponse(at)
}

// pickResponse chooses one of the client's connections, a wanted one if there is any.
func (c *client) pickResponse(w *world, wanted func(*response) bool) int {
	from := w.src.Intn(len(c.responses))
	for i := range c.responses {
		if at := (from + i) % len(c.responses); wanted(c.responses[at]) {
			return at
		}
	}
	return from
}

// forgetResponse removes a connection that has nothing more to read. If the stream may
// continue elsewhere, the client records its position.
//
// A position is kept only while something may be owed on it. Cursors of answered requests
// would crowd out the useful ones; older and made-up cursors test that resuming an answered
// request is harmless (M007, M065).
func (c *client) forgetResponse(at int) {
	if p := c.responses[at]; p.left || p.ended && len(p.unread) == 0 {
		if p.event != "" && p.at != nil && !p.stray && !c.isReading(p) && (p.at.of == nil || p.at.of.terminals == 0 && !p.at.of.cancelled) {
			c.cursors = append(c.cursors, cursor{at: p.at, event: p.event})
		}
		c.responses = append(c.responses[:at], c.responses[at+1:]...)
	}
}

// hangUp closes the connection on which the client received a state. The client has mostly
// retried before the gateway notices: the request, which may be parked again by then, must
// not be affected by the end of an exchange that it has left.
func (c *client) hangUp(w *world, p *response) {
	if w.quiescing || p.ended || p.left || !w.set.allows(HalfOpen) || w.src.OneIn(4) {
		return
	}
	w.fault(HalfOpen)
	p.left = true
	after := [...]time.Duration{2 * askWindow, time.Second, 5 * time.Second}[w.src.Intn(3)]
	w.spawn(&disconnectNotice{p: p, at: w.now.Add(after)})
	if len(c.states) > 0 && w.src.OneIn(2) {
		w.send(c.retry(w))
	}
}

// clientReads reads one packet, and checks that the client may receive it.
func (w *world) clientReads(p *response) {
	pk := p.unread[0]
	p.unread = p.unread[1:]
	c, s := p.client, p.at
	if pk.mark == 0 { // the first event, which has no message
		p.event = pk.event
		return
	}
	// This is the most important rule of the project: a message that a client reads on a
	// connection was appended to that stream, and to no other (M033, M034, M036).
	if o := w.marks[pk.mark]; o.at != s {
		w.fail("I8", "%s reads m%d on %s, where it was not appended", c, pk.mark, s.name)
		return
	}
	if w.tracing() {
		w.logf("%s reads m%d at %d of %s", c, pk.mark, pk.pos, s.name)
	}
	// Without ids a gap is no loss: what was not written was requeued, and is counted.
	if pk.pos != p.pos+1 && (pk.event != "" || pk.pos <= p.pos) {
		w.fail("I13", "%s gets position %d of %s after %d", c, pk.pos, s.name, p.pos)
	}
	p.pos, p.event = pk.pos, pk.event
	switch pk.kind {
	case question:
		if c.sess == s.sess {
			c.questions = append(c.questions, pk.no)
		}
	case terminal:
		if s.of.state != nil {
			c.states = append(c.states, s.of.state)
		}
		s.of.terminals++
		if s.of.terminals > 1 && !s.of.resumed {
			w.fail("I36", "%s gets %d terminals", s.of, s.of.terminals)
		}
	default:
	}
}
