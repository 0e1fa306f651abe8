// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// resident is a session that is open for listens, or the sole client's. It is lent to
// requests of its key like a session of the pool, so that the client's listens receive
// what its calls change.
//
// It does not count against the limits of the pool: the listen does.
type resident struct {
	holder   *scopedSession // holds the session
	key      call.ClientKey
	s        *clientSession
	lent     bool
	reusable bool // lent again after a request on s was given up: s is the sole client's
	unusable bool // a request on s was given up: s is not lent any more
	removed  bool // its listens have ended: s is closed when it is returned
}

// addResident registers the session of sl for requests of the key. It replaces an
// earlier session of sl.
func (p *pool) addResident(sl *scopedSession, key call.ClientKey, s *clientSession, reusable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.addResidentLocked(&resident{holder: sl, key: key, s: s, reusable: reusable})
	}
}

// addResidentLocked adds a resident, or replaces that of the same holder. The resident of
// the same session stays.
func (p *pool) addResidentLocked(r *resident) {
	i := slices.IndexFunc(p.residents, func(o *resident) bool { return o.holder == r.holder })
	switch {
	case i < 0:
		p.residents = append(p.residents, r)
	case p.residents[i].s != r.s:
		p.residents[i] = r
	}
}

// removeResident removes the resident of sl. It reports true if the session is lent:
// then release closes it, and the caller must not.
func (p *pool) removeResident(sl *scopedSession) (lent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.residents, func(r *resident) bool { return r.holder == sl })
	if i < 0 {
		return false
	}
	r := p.residents[i]
	p.residents = slices.Delete(p.residents, i, i+1)
	r.removed = true
	return r.lent
}

// lendResidentLocked lends a resident to the request, or returns nil.
func (p *pool) lendResidentLocked(req *mcp.Request) *resident {
	for _, r := range p.residents {
		if !r.lent && !r.unusable && r.key.IsOf(req) && r.s.isAlive() {
			r.lent = true
			return r
		}
	}
	return nil
}

// returnResident ends the loan of r. It reports true if the caller must retire the
// session.
func (p *pool) returnResident(r *resident, clean bool) (dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.lent, r.unusable = false, r.unusable || !clean && !r.reusable
	return r.removed
}

// adopt removes the newest idle session of the key from the pool and returns it, or
// nil.
func (p *pool) adopt(key call.ClientKey) *clientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if it := &p.idle[i]; it.key == key && !it.retained && it.s.isAlive() {
			return p.dropLocked(i)
		}
	}
	return nil
}
