// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/session"
)

// replica is one instance of the gateway. All replicas have the same keys, and none knows
// the state of another: a message for the state of another replica is refused, and one that
// needs no state is served by any.
type replica struct {
	no     int
	table  *session.Table
	parked *session.ParkedRequests[parkable, request]
	box    *seal.Box

	parkedClosed   bool
	owners         []string  // with published sessions, in the order of their arrival
	largestTriedAt time.Time // when all sessions of the largest owner may have been tried for eviction
}

// Prefixes of the states that clients receive: of a request that is parked in one replica,
// and of a backend, which every replica accepts.
const (
	parkedKind   = "parked."
	verbatimKind = "verbatim."
)

// secret returns the key of all replicas.
func secret() []byte { return bytes.Repeat([]byte("k"), seal.MinKey) }

func (w *world) newReplica(no int) *replica {
	box, err := seal.New(secret())
	if err != nil {
		w.fail("I22", "no box: %v", err)
	}
	at := &replica{no: no, box: box, table: session.NewTable(w.set.sessions), parked: session.NewParkedRequests[parkable, request](w.set.parking)}
	w.spawn(&parkExpiry{at: at})
	w.spawn(&sweeper{home: at, at: w.now})
	return at
}

// anyReplica chooses where a request arrives that belongs to no replica.
func (w *world) anyReplica() *replica { return w.replicas[w.src.Intn(len(w.replicas))] }

// route chooses where a message arrives: mostly at the replica of its session, or at any if
// it names none. A load balancer cannot read a state.
func (w *world) route(t *clientMessage) *replica {
	if t.what == modernRetry {
		if w.quiescing && t.state.of != nil {
			return w.replicas[t.state.home.no] // which may have restarted meanwhile
		}
		return w.anyReplica()
	}
	home := w.homeOf(t.sessID)
	if home == nil {
		return w.anyReplica()
	}
	if !w.quiescing && len(w.replicas) > 1 && w.set.allows(Astray) && w.src.OneIn(12) {
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

// state is the request state that a client must send with its retry.
type state struct {
	text   string
	digest string
	asked  int

	home *replica  // that issued it
	of   *parkable // that is parked there; nil for a state of a backend
}

// sealParked seals the state of a parked request.
//
// All replicas can open it, and only one has the request. Because another replica can read
// the state, it refuses the retry instead of serving the request a second time (I36).
func (at *replica) sealParked(j *parkable) *state {
	return &state{text: at.box.Seal(parkedKind, []byte(j.id)), digest: j.digest, asked: j.asked, home: at, of: j}
}

// sealBackendState seals a state of a backend, for one client and request.
func (at *replica) sealBackendState(r *request) *state {
	digest := "digest"
	return &state{text: at.box.Seal(verbatimKind, []byte(r.client.principal), digest), digest: digest, home: at}
}

// retry serves the retry of a request that ended with a state.
func (t *arrival) retry(w *world) bool {
	if t.state.of == nil {
		t.retryAnywhere(w)
		return false
	}
	id, err := t.to.box.Open(parkedKind, t.state.text)
	if err != nil {
		w.fail("I22", "a replica cannot open a state sealed with the same keys: %v", err)
		return false
	}
	if t.to.no != t.state.home.no {
		w.stats.Misled++
	}
	return t.retryParked(w, string(id))
}

// retryAnywhere serves a retry with the state of a backend. Any replica serves it like a
// new request.
func (t *arrival) retryAnywhere(w *world) {
	sealedFor, err := t.to.box.Open(verbatimKind, t.state.text, t.event)
	if ok, want := err == nil && string(sealedFor) == t.principal, t.event == t.state.digest && t.principal == t.from.principal; ok != want {
		w.fail("I22", "%s retries with the state of a backend for %q with %q: accepted: %v, want %v", t.from, t.principal, t.event, ok, want)
	} else if !ok {
		t.refuse()
		return
	}
	if t.to.no != t.state.home.no {
		w.stats.HandedOn++
	}
	w.beginStateless(t)
}

// checkRetry checks that a retry of a parked request is never served as a new request: it
// continues the parked one, or it is refused.
func (w *world) checkRetry(r *request, t *arrival) {
	if t.what == modernRetry && t.state.of != nil && (r.parkable != t.state.of || t.to != t.state.home) {
		w.fail("I36", "%s retries a request parked at replica %d, and begins anew at replica %d", r, t.state.home.no, t.to.no)
	}
}
