// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Why a request cannot be parked, or not be claimed.
var (
	// ErrFull is for a request that there is no room to park for.
	ErrFull = errors.New("too many requests are parked")

	// ErrRounds is for a request that asks for input too often.
	ErrRounds = errors.New("input was asked for too often")

	// ErrClosed is for a lot that takes nothing any more.
	ErrClosed = errors.New("no request can be resumed any more")
)

// ParkedLimits bound a ParkedRequests. All must be set.
type ParkedLimits struct {
	Total        int           // requests that are parked
	PerPrincipal int           // of them, of one principal that is not anonymous
	Rounds       int           // how often one request is parked
	Asks         int           // questions of one request without an answer
	Wait         time.Duration // how long one is parked
}

// Owner is whom a parked request belongs to: it is resumed by a request of which
// all this is the same, and by no other.
type Owner struct {
	Place     uint64 // a pipe by its number; 0 is HTTP, where all connections are alike
	Principal string
	Method    string
	Digest    string // of the parameters
}

// ParkedRequests keeps the requests of modern clients that wait for input, apart from any
// exchange: a client is asked by the terminal of one request and answers with
// another (2026-07-28, basic/patterns/mrtr). T is what its user knows a request
// by, and X one of the exchanges that it is served in.
//
// A ParkedRequests and all its requests are kept under one lock.
type ParkedRequests[T, X any] struct {
	limits ParkedLimits

	mu     sync.Mutex
	closed bool
	parked map[string]*ParkedRequest[T, X] // by the id under which they can be claimed
	used   map[string]int                  // by principal, of parked
}

// NewLot returns an empty ParkedRequests.
func NewParkedRequests[T, X any](limits ParkedLimits) *ParkedRequests[T, X] {
	return &ParkedRequests[T, X]{limits: limits}
}

// New returns a request that is served in an exchange. It takes no room before
// it is parked.
func (l *ParkedRequests[T, X]) New(value *T, at *X) *ParkedRequest[T, X] {
	p := new(ParkedRequest[T, X])
	l.Register(p, value, at)
	return p
}

// Register is New with a ParkedRequest of the caller's, which is a new one.
func (l *ParkedRequests[T, X]) Register(p *ParkedRequest[T, X], value *T, at *X) {
	*p = ParkedRequest[T, X]{value: value, lot: l, at: at, last: at}
}

// Len returns how many requests are parked.
func (l *ParkedRequests[T, X]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

// refusalLocked says why a request cannot be parked, nil where it can.
func (l *ParkedRequests[T, X]) refusalLocked(p *ParkedRequest[T, X], principal string) error {
	switch {
	case l.closed:
		return ErrClosed
	case p.rounds >= l.limits.Rounds:
		return ErrRounds
	case len(l.parked) >= l.limits.Total, principal != "" && l.used[principal] >= l.limits.PerPrincipal:
		return ErrFull
	default:
		return nil
	}
}

// failLocked ends all questions of the request.
func (p *ParkedRequest[T, X]) failLocked(err error) {
	for _, q := range p.asks {
		q.finish(Terminal{Err: err})
	}
	p.asks = nil
}

func (l *ParkedRequests[T, X]) addLocked(p *ParkedRequest[T, X]) {
	if l.parked == nil {
		l.parked, l.used = make(map[string]*ParkedRequest[T, X]), make(map[string]int)
	}
	l.parked[p.id] = p
	l.used[p.owner.Principal]++
}

func (l *ParkedRequests[T, X]) removeLocked(p *ParkedRequest[T, X]) {
	delete(l.parked, p.id)
	if l.used[p.owner.Principal]--; l.used[p.owner.Principal] == 0 {
		delete(l.used, p.owner.Principal)
	}
	if len(l.parked) == 0 {
		l.parked, l.used = nil, nil // a map keeps its room
	}
	p.id, p.until = "", time.Time{}
}

// dropLocked takes out a parked request that nobody will come back for. Its
// questions stay open until Fail, so that whoever serves it can be told first.
func (l *ParkedRequests[T, X]) dropLocked(p *ParkedRequest[T, X]) {
	l.removeLocked(p)
	p.dropped = true
}

// DropIfParked drops the request if it is parked since it left this exchange, whose end
// has not reached the client: nobody has the questions. It reports whether that
// is so; then whoever serves it is to be told to stop, and Fail to be called.
func (p *ParkedRequest[T, X]) DropIfParked(left *X) bool {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	if p.id == "" || p.last != left {
		return false
	}
	p.lot.dropLocked(p)
	return true
}

// Fail ends the questions of a request that was dropped.
func (p *ParkedRequest[T, X]) Fail(why error) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	p.failLocked(why)
}

// Lookup returns the request that is parked under the id for this owner, and the
// questions that it waits with, and changes nothing. The error is ErrUnknown or
// ErrForeign.
func (l *ParkedRequests[T, X]) Lookup(id string, owner Owner, now time.Time) (*ParkedRequest[T, X], []*Question, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.findLocked(id, owner, now)
	if err != nil {
		return nil, nil, err
	}
	return p, slices.Clone(p.asks), nil
}

func (l *ParkedRequests[T, X]) findLocked(id string, owner Owner, now time.Time) (*ParkedRequest[T, X], error) {
	switch p := l.parked[id]; {
	case p == nil:
		return nil, ErrUnknown
	case p.owner.Principal != owner.Principal:
		return nil, ErrForeign
	case p.owner != owner, !now.Before(p.until):
		return nil, ErrUnknown
	default:
		return p, nil
	}
}

// Resumed is what a request is found like when it is claimed.
type Resumed struct {
	Over bool // whoever served it is done: the exchange is to get its terminal
	Open bool // there are questions without an answer
}

// Resume takes the request that is parked under the id into an exchange, once:
// from then on there is nothing under that id. Its questions end with the answers
// that are there for them. The error is that of Lookup.
func (l *ParkedRequests[T, X]) Resume(id string, owner Owner, to *X, answers map[string]Terminal, now time.Time) (Resumed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.findLocked(id, owner, now)
	if err != nil {
		return Resumed{}, err
	}
	l.removeLocked(p)
	p.last = to
	if p.over {
		return Resumed{Over: true}, nil
	}
	p.at = to
	p.asks = slices.DeleteFunc(p.asks, func(q *Question) bool {
		end, ok := answers[q.Key]
		if ok {
			q.finish(end)
		}
		return ok
	})
	return Resumed{Open: len(p.asks) > 0}, nil
}

// End is the end of whoever serves the request. It returns the exchange that the
// terminal goes to, nil where there is none. Then kept reports whether one may
// come: the request is parked, and whoever claims it is told.
func (p *ParkedRequest[T, X]) End() (at *X, kept bool) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	p.over = true
	p.failLocked(mcp.ErrRequestEnded)
	at, p.at = p.at, nil
	return at, p.id != ""
}

// Expire drops the requests whose time has passed and returns them, in the order
// of their ends: whoever serves them is to be told to stop, and Fail to be
// called. next is when it is worth calling again, zero where nothing is parked.
func (l *ParkedRequests[T, X]) Expire(now time.Time) (due []*ParkedRequest[T, X], next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due = l.clearLocked(func(p *ParkedRequest[T, X]) bool { return !now.Before(p.until) })
	return due, l.nextLocked()
}

func (l *ParkedRequests[T, X]) nextLocked() (next time.Time) {
	for _, p := range l.parked {
		if next.IsZero() || p.until.Before(next) {
			next = p.until
		}
	}
	return next
}

// DropPlace drops the requests of one place, because nobody can come back for them
// there, and returns them as Expire does.
func (l *ParkedRequests[T, X]) DropPlace(place uint64) []*ParkedRequest[T, X] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clearLocked(func(p *ParkedRequest[T, X]) bool { return p.owner.Place == place })
}

// Close drops all requests, and returns them as Expire does. No other is parked
// any more.
func (l *ParkedRequests[T, X]) Close() []*ParkedRequest[T, X] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.clearLocked(func(*ParkedRequest[T, X]) bool { return true })
}

// clearLocked drops the requests that f chooses, in the order in which they would
// have expired.
func (l *ParkedRequests[T, X]) clearLocked(f func(*ParkedRequest[T, X]) bool) []*ParkedRequest[T, X] {
	var gone []*ParkedRequest[T, X]
	for _, p := range l.parked {
		if f(p) {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(a, b *ParkedRequest[T, X]) int {
		return cmp.Or(a.until.Compare(b.until), strings.Compare(a.id, b.id))
	})
	for _, p := range gone {
		l.dropLocked(p)
	}
	return gone
}
