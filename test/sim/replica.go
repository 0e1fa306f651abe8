// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

// replica is one instance of the gateway. All have the same keys, and none knows what
// another keeps: what arrives at the wrong one is refused there, and what needs
// nothing that is kept is served by any.
type replica struct {
	no    int
	table *session.Table
	lot   *session.ParkedRequests[journey, request]
	box   *seal.Box

	lotClosed bool
	owners    []string  // of sessions that are listed, in the order in which they came
	triedAt   time.Time // when the table was full for a session, which may have had all of the largest owner tried
}

// The states that clients get, by what they begin with: of a request that is parked
// in one replica, and of a backend, which any of them takes back.
const (
	parkedKind   = "parked."
	verbatimKind = "verbatim."
)

// secret is what all replicas seal with.
func secret() []byte { return bytes.Repeat([]byte("k"), seal.MinKey) }

func (w *world) newReplica(no int) *replica {
	box, err := seal.New(secret())
	if err != nil {
		w.fail("I22", "no box: %v", err)
	}
	at := &replica{no: no, box: box, table: session.NewTable(w.set.sessions), lot: session.NewParkedRequests[journey, request](w.set.parking)}
	w.spawn(&warden{at: at})
	w.spawn(&sweeper{home: at, at: w.now})
	return at
}

// anyReplica is where a request arrives that belongs to none.
func (w *world) anyReplica() *replica { return w.replicas[w.src.Intn(len(w.replicas))] }

// route chooses where a message arrives: at the replica of what it names, mostly, or
// at any where it names nothing. A state is nothing that whoever spreads requests
// could read.
func (w *world) route(t *travel) *replica {
	if t.what == modernRetry {
		if w.calm && t.state.of != nil {
			return w.replicas[t.state.home.no] // which may have begun anew meanwhile
		}
		return w.anyReplica()
	}
	home := w.homeOf(t.sessID)
	if home == nil {
		return w.anyReplica()
	}
	if !w.calm && len(w.replicas) > 1 && w.set.allows(Astray) && w.src.OneIn(12) {
		w.fault(Astray)
		return w.replicas[1-home.no]
	}
	return home
}

// homeOf returns the replica that has a session, or had it.
func (w *world) homeOf(id string) *replica {
	for _, s := range w.sessions {
		if s.real.ID == id {
			return s.home
		}
	}
	return nil
}

// state is what a client has to come back with.
type state struct {
	text   string
	digest string
	asked  int

	home *replica // that gave it out
	of   *journey // that is parked there; nil for a state of a backend
}

// park seals the state of a request that is parked.
//
// All replicas can open it, and only one has what it names. That another can read
// it is what lets it say so, in place of serving the request a second time (I36).
func (at *replica) park(j *journey) *state {
	return &state{text: at.box.Seal(parkedKind, []byte(j.id)), digest: j.digest, asked: j.asked, home: at, of: j}
}

// handOn seals the state of a backend, for one client and request.
func (at *replica) handOn(r *request) *state {
	digest := "digest"
	return &state{text: at.box.Seal(verbatimKind, []byte(r.client.principal), digest), digest: digest, home: at}
}

// comesBack serves the retry of a request that has ended with a state.
func (t *visit) comesBack(w *world) bool {
	if t.state.of == nil {
		t.comesBackToAny(w)
		return false
	}
	id, err := t.to.box.Open(parkedKind, t.state.text)
	if err != nil {
		w.fail("I22", "a state is opened where it was not sealed, with the same keys: %v", err)
		return false
	}
	if t.to.no != t.state.home.no {
		w.stats.Misled++
	}
	return t.comesBackTo(w, string(id))
}

// comesBackToAny serves a retry with the state of a backend. It is a request like
// any other, and goes on wherever it arrives.
func (t *visit) comesBackToAny(w *world) {
	who, err := t.to.box.Open(verbatimKind, t.state.text, t.event)
	if ok, want := err == nil && string(who) == t.principal, t.event == t.state.digest && t.principal == t.from.principal; ok != want {
		w.fail("I22", "%s brings the state of a backend for %q with %q to a replica: taken: %v, want %v", t.from, t.principal, t.event, ok, want)
	} else if !ok {
		t.turnAway()
		return
	}
	if t.to.no != t.state.home.no {
		w.stats.HandedOn++
	}
	w.beginAlone(t)
}

// isNoneOther: a retry of what is parked is never a request of its own: it goes on with
// what its state is of, or it is refused.
func (w *world) isNoneOther(r *request, t *visit) {
	if t.what == modernRetry && t.state.of != nil && (r.on != t.state.of || t.to != t.state.home) {
		w.fail("I36", "%s is a retry of what is parked at replica %d, and begins anew at replica %d", r, t.state.home.no, t.to.no)
	}
}
