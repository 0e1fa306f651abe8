// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"
	"sync/atomic"
)

// PendingLimits bound the bytes that a [Pending] counts.
type PendingLimits struct {
	Total        int64
	PerPrincipal int64

	// Grain is the unit in which streams count; zero means 16 KiB. The remainder of less
	// than a grain per stream costs about as much as its connection.
	Grain int
}

// Pending counts the bytes of answers that clients have not read, for each principal and in
// total. An answer counts from when its first part is received from a backend until its
// last part is written to the client, or dropped. Messages retained for a disconnected
// client count in the [LogPool] instead.
//
// Its methods may be called concurrently. A nil Pending has no limits. Answers smaller than
// a grain cost it nothing.
type Pending struct {
	limits  PendingLimits
	bytes   atomic.Int64 // of all accounts, without reservations
	waiting atomic.Bool  // space is not nil

	// mu may be acquired with a session's lock held. It is a leaf.
	mu       sync.Mutex
	accounts map[string]*account // in use
	reserved int64               // of all accounts
	leader   *Reservation        // see Grow; nil for none
	space    chan struct{}       // closed when there may be space; nil while none is waiting
}

// account counts the bytes of one principal.
type account struct {
	principal string
	bytes     atomic.Int64

	// Below: guarded by Pending.mu.
	users    int // streams and reservations that count in it
	reserved int64
	leader   *Reservation
}

// pendingGrain is the default of PendingLimits.Grain.
const pendingGrain = 16 << 10

// NewPending returns a Pending with the given limits.
func NewPending(limits PendingLimits) *Pending {
	if limits.Grain <= 0 {
		limits.Grain = pendingGrain
	}
	return &Pending{limits: limits, accounts: make(map[string]*account)}
}

// Bytes returns how many bytes are counted.
func (p *Pending) Bytes() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes.Load() + p.reserved
}

// Excess names a limit that is reached.
type Excess uint8

// The limits of a Pending.
const (
	NoExcess Excess = iota
	PrincipalExcess
	TotalExcess
	RequestEnded // of a Reservation that was released
)

// Excess returns the limit that the unread answers of a principal have reached. Unless it
// is NoExcess, the principal's next request must be refused. Reservations do not count
// here: they become answers or end soon.
func (p *Pending) Excess(principal string) Excess {
	if p == nil {
		return NoExcess
	}
	all := p.bytes.Load()
	switch {
	case all >= p.limits.Total:
		return TotalExcess
	case all < p.limits.PerPrincipal:
		return NoExcess // of any principal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.accounts[principal]; a != nil && a.bytes.Load() >= p.limits.PerPrincipal {
		return PrincipalExcess
	}
	return NoExcess
}

// openLocked returns the account of a principal for one more user.
func (p *Pending) openLocked(principal string) *account {
	a := p.accounts[principal]
	if a == nil {
		a = &account{principal: principal}
		p.accounts[principal] = a
	}
	a.users++
	return a
}

func (p *Pending) closeLocked(a *account) {
	if a.users--; a.users == 0 {
		delete(p.accounts, a.principal)
	}
}

func (p *Pending) open(principal string) *account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.openLocked(principal)
}

func (p *Pending) close(a *account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(a)
}

// add counts n bytes more of an account, or fewer.
func (p *Pending) add(a *account, n int64) {
	a.bytes.Add(n)
	p.bytes.Add(n)
	if n < 0 && p.waiting.Load() {
		p.signal()
	}
}

// isFull reports whether an account or the total has reached its limit.
func (p *Pending) isFull(a *account) bool {
	return a.bytes.Load() >= p.limits.PerPrincipal || p.bytes.Load() >= p.limits.Total
}

// signal makes waiting reservations retry.
func (p *Pending) signal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalLocked()
}

func (p *Pending) signalLocked() {
	if p.space != nil {
		close(p.space)
		p.space = nil
		p.waiting.Store(false)
	}
}

// Reservation reserves space for one answer that is being received from a backend. It must
// be released, after which it reserves nothing. Its methods may be called concurrently.
type Reservation struct {
	pending   *Pending
	principal string
	state     atomic.Int32

	// Below: guarded by pending.mu.
	account *account // nil before the first Grow
	bytes   int64
}

// The states of a Reservation.
const (
	unused = iota
	used
	released
)

// Init initializes a new Reservation for an answer to the principal.
func (r *Reservation) Init(p *Pending, principal string) { r.pending, r.principal = p, principal }

// Grow extends the reservation to an answer of that many bytes. If a limit is reached it
// changes nothing, and returns the limit and a channel that is closed when the caller
// should retry.
//
// A reservation may grow while less is counted than the limits, so that the last one may
// exceed them. If reservations alone reach a limit, one of each principal, and one of all,
// may continue: otherwise all could wait for each other with half an answer each.
func (r *Reservation) Grow(bytes int64) (excess Excess, room <-chan struct{}) {
	p := r.pending
	if p == nil {
		return NoExcess, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.state.CompareAndSwap(unused, used) {
		r.account = p.openLocked(r.principal)
	}
	switch {
	case r.state.Load() == released:
		return RequestEnded, nil
	case bytes <= r.bytes:
		return NoExcess, nil
	}
	if excess = p.admitLocked(r); excess != NoExcess {
		if p.space == nil {
			p.space = make(chan struct{})
			p.waiting.Store(true)
		}
		// From here on add signals. This retry sees what it did before.
		if excess = p.admitLocked(r); excess != NoExcess {
			return excess, p.space
		}
	}
	p.reserved += bytes - r.bytes
	r.account.reserved += bytes - r.bytes
	r.bytes = bytes
	return NoExcess, nil
}

// admitLocked returns the limit that keeps a reservation from growing. It may make the
// reservation a leader, which it remains until it is released.
func (p *Pending) admitLocked(r *Reservation) Excess {
	a, held, all := r.account, r.account.bytes.Load(), p.bytes.Load()
	ownFull := held+a.reserved >= p.limits.PerPrincipal && a.leader != r
	allFull := all+p.reserved >= p.limits.Total && p.leader != r
	switch {
	case ownFull && (a.leader != nil || held >= p.limits.PerPrincipal):
		return PrincipalExcess
	case allFull && (p.leader != nil || all >= p.limits.Total):
		return TotalExcess
	}
	if ownFull {
		a.leader = r
	}
	if allFull {
		p.leader = r
	}
	return NoExcess
}

// Release ends the reservation. The answer itself counts on its stream.
func (r *Reservation) Release() {
	p := r.pending
	if p == nil || r.state.CompareAndSwap(unused, released) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.state.Swap(released) == released {
		return
	}
	a := r.account
	p.reserved -= r.bytes
	a.reserved -= r.bytes
	if a.leader == r {
		a.leader = nil
	}
	if p.leader == r {
		p.leader = nil
	}
	p.closeLocked(a)
	p.signalLocked()
}
