// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// resident is a session that is open for a listen, or is the home of the only client. It is
// lent to requests of its key like a session of the pool, so that what a call changes in a
// session is seen by the listens of the same client.
//
// It counts against no limit of the pool: the listen pays for it.
type resident struct {
	slot  *scopedSession // the place of the session
	key   poolKey
	s     *legacySession
	lent  bool
	kept  bool // it is lent again after a request on s was given up: s is the only client's
	spent bool // a request on s was given up: s is lent no more
	gone  bool // its listens have ended: s is closed when it comes back
}

// host registers the session of a slot to be lent to requests of the key. The slot
// may have another session than before.
func (p *pool) host(sl *scopedSession, key poolKey, s *legacySession, kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.registerLocked(&resident{slot: sl, key: key, s: s, kept: kept})
	}
}

// registerLocked adds a resident, in the place of the one that its slot had before. One
// that is there already stays.
func (p *pool) registerLocked(r *resident) {
	i := slices.IndexFunc(p.residents, func(o *resident) bool { return o.slot == r.slot })
	switch {
	case i < 0:
		p.residents = append(p.residents, r)
	case p.residents[i].s != r.s:
		p.residents[i] = r
	}
}

// dismiss removes the resident of a slot. It reports true if the session is lent:
// then release closes it, and the caller must not.
func (p *pool) dismiss(sl *scopedSession) (lent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.residents, func(r *resident) bool { return r.slot == sl })
	if i < 0 {
		return false
	}
	r := p.residents[i]
	p.residents = slices.Delete(p.residents, i, i+1)
	r.gone = true
	return r.lent
}

// residentLocked lends a resident to the request, or returns nil.
func (p *pool) residentLocked(req *mcp.Request) *resident {
	for _, r := range p.residents {
		if !r.lent && !r.spent && r.key.isOf(req) && r.s.isAlive() {
			r.lent = true
			return r
		}
	}
	return nil
}

// returned takes a resident back. It reports true if its session is to be closed.
func (p *pool) returned(r *resident, clean bool) (dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.lent, r.spent = false, r.spent || !clean && !r.kept
	return r.gone
}

// adopt takes the newest idle session of the key out of the pool, or returns nil.
func (p *pool) adopt(key poolKey) *legacySession {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if it := &p.idle[i]; it.key == key && !it.spent && it.s.isAlive() {
			return p.dropLocked(i)
		}
	}
	return nil
}
