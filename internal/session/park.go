// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"slices"
	"strconv"
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

	// ErrUnanswered ends the questions of a request whose client did not come back.
	ErrUnanswered = errors.New("the client did not come back with the input")
)

// LotLimits bound a Lot. All must be set.
type LotLimits struct {
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

// Lot keeps the requests of modern clients that wait for input, apart from any
// exchange: a client is asked by the terminal of one request and answers with
// another (2026-07-28, basic/patterns/mrtr). T is what its user knows a request by.
//
// A Lot and all its requests are kept under one lock.
type Lot[T any] struct {
	limits LotLimits

	mu     sync.Mutex
	closed bool
	parked map[string]*Parking[T] // by the id under which they can be claimed
	used   map[string]int         // by principal, of parked
}

// Parking is one request that may be parked, from its beginning until its
// terminal has an exchange to go to, or never will. It is served in one exchange
// after another, and in none while it is parked.
type Parking[T any] struct {
	Value T

	lot *Lot[T]

	// Below: guarded by lot.mu.
	owner   Owner
	x       *Exchange // that it is served in; nil while it is parked, and when it is over
	id      string    // while it is parked
	until   time.Time // while it is parked
	rounds  int
	asked   int
	asks    []*Question // without an answer, in their order
	ended   bool        // whoever serves it is done, and its terminal waits for an exchange
	dropped bool        // nobody will take its terminal
}

// Question is something that a client is asked by a result of type
// input_required, and the cell in which the answer arrives.
type Question struct {
	Key    string // among the questions of its request
	Method string
	Params []byte

	done chan struct{}
	end  Terminal // written before done is closed
}

// Done returns a channel that is closed when Answer is there.
func (q *Question) Done() <-chan struct{} { return q.done }

// Answer returns what ended the question. It must not be called before Done is
// closed.
func (q *Question) Answer() Terminal { return q.end }

func (q *Question) finish(end Terminal) {
	q.end = end
	close(q.done)
}

// NewLot returns an empty Lot.
func NewLot[T any](limits LotLimits) *Lot[T] { return &Lot[T]{limits: limits} }

// New returns a request that is served in an exchange. It takes no room before
// it is parked.
func (l *Lot[T]) New(x *Exchange, value T) *Parking[T] {
	return &Parking[T]{Value: value, lot: l, x: x}
}

// Len returns how many requests are parked.
func (l *Lot[T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

// Exchange returns the exchange that the request is served in, nil while there is
// none.
func (p *Parking[T]) Exchange() *Exchange {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	return p.x
}

// Ask adds a question, to be put when the request is parked next. The error is
// [mcp.ErrRequestEnded], ErrTooMany or ErrClosed. The question must be ended by
// Withdraw where nobody waits for it any more.
func (p *Parking[T]) Ask(method string, params []byte) (*Question, error) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	switch {
	case p.ended || p.dropped:
		return nil, mcp.ErrRequestEnded
	case p.lot.closed:
		return nil, ErrClosed
	case len(p.asks) >= p.lot.limits.Asks:
		return nil, ErrTooMany
	}
	p.asked++
	q := &Question{Key: questionKey(p.asked), Method: method, Params: params, done: make(chan struct{})}
	p.asks = append(p.asks, q)
	return q, nil
}

// Withdraw ends a question that nobody waits for any more. Where the client has it
// already, its answer will be one to nothing.
func (p *Parking[T]) Withdraw(q *Question, why error) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	if i := slices.Index(p.asks, q); i >= 0 {
		p.asks = slices.Delete(p.asks, i, i+1)
		q.finish(Terminal{Err: why})
	}
}

// Round is what a request is parked with.
type Round struct {
	Exchange  *Exchange // that it has left, and that is to end with the questions
	Questions []*Question
	Until     time.Time // when it expires
}

// Park takes the request out of its exchange, with all questions that have no
// answer, and keeps it for its owner under the id, which is new and cannot be
// guessed, until it is claimed or expires. Whoever parks
// it ends that exchange with the questions, and calls Drop where that fails. It
// reports false where there is nothing to ask, or no exchange to leave.
//
// Where the request cannot be parked its questions end with the reason, which is
// for whoever asked; the request stays where it is.
func (p *Parking[T]) Park(id string, owner Owner, now time.Time) (Round, bool) {
	l := p.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.x == nil || p.ended || len(p.asks) == 0 {
		return Round{}, false
	}
	if err := l.refusalLocked(p, owner.Principal); err != nil {
		p.failLocked(err)
		return Round{}, false
	}
	p.rounds++
	r := Round{Exchange: p.x, Questions: slices.Clone(p.asks), Until: now.Add(l.limits.Wait)}
	p.x, p.id, p.owner, p.until = nil, id, owner, r.Until
	l.addLocked(p)
	return r, true
}

// refusalLocked says why a request cannot be parked, nil where it can.
func (l *Lot[T]) refusalLocked(p *Parking[T], principal string) error {
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
func (p *Parking[T]) failLocked(err error) {
	for _, q := range p.asks {
		q.finish(Terminal{Err: err})
	}
	p.asks = nil
}

func (l *Lot[T]) addLocked(p *Parking[T]) {
	if l.parked == nil {
		l.parked, l.used = make(map[string]*Parking[T]), make(map[string]int)
	}
	l.parked[p.id] = p
	l.used[p.owner.Principal]++
}

func (l *Lot[T]) removeLocked(p *Parking[T]) {
	delete(l.parked, p.id)
	if l.used[p.owner.Principal]--; l.used[p.owner.Principal] == 0 {
		delete(l.used, p.owner.Principal)
	}
	if len(l.parked) == 0 {
		l.parked, l.used = nil, nil // a map keeps its room
	}
	p.id, p.until = "", time.Time{}
}

// dropLocked is the end of a parked request that nobody will come back for.
func (l *Lot[T]) dropLocked(p *Parking[T], why error) {
	l.removeLocked(p)
	p.dropped = true
	p.failLocked(why)
}

// Drop ends a request whose questions have not reached anybody: its exchange was
// over before it could end with them.
func (p *Parking[T]) Drop() {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	if p.id != "" {
		p.lot.dropLocked(p, mcp.ErrRequestEnded)
	}
}

// Look returns the request that is parked under the id for this owner, and the
// questions that it waits with, and changes nothing. The error is ErrUnknown or
// ErrForeign.
func (l *Lot[T]) Look(id string, owner Owner, now time.Time) (*Parking[T], []*Question, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.findLocked(id, owner, now)
	if err != nil {
		return nil, nil, err
	}
	return p, slices.Clone(p.asks), nil
}

func (l *Lot[T]) findLocked(id string, owner Owner, now time.Time) (*Parking[T], error) {
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

// Claim takes the request that is parked under the id into an exchange, once:
// from then on there is nothing under that id. Its questions end with the answers
// that are there for them; open reports whether any is left, and ended that the
// request is done, so that the exchange is to get its terminal. The error is that
// of Look.
func (l *Lot[T]) Claim(id string, owner Owner, x *Exchange, answers map[string]Terminal, now time.Time) (ended, open bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.findLocked(id, owner, now)
	if err != nil {
		return false, false, err
	}
	l.removeLocked(p)
	left := p.asks[:0]
	for _, q := range p.asks {
		if end, ok := answers[q.Key]; ok {
			q.finish(end)
			continue
		}
		left = append(left, q)
	}
	p.asks = left
	if p.ended {
		return true, false, nil
	}
	p.x = x
	return false, len(left) > 0, nil
}

// End is the end of whoever serves the request. It returns the exchange that the
// terminal goes to. Where there is none, kept reports whether one may come: then
// Claim says so.
func (p *Parking[T]) End() (x *Exchange, kept bool) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	p.ended = true
	p.failLocked(mcp.ErrRequestEnded)
	x, p.x = p.x, nil
	return x, p.id != ""
}

// Expire ends the requests whose time has passed and returns them, in the order
// of their ends; whoever serves them is to be told to stop. next is when it is
// worth calling again, zero where nothing is parked.
func (l *Lot[T]) Expire(now time.Time) (due []*Parking[T], next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := make(map[*Parking[T]]time.Time)
	for _, p := range l.parked {
		switch {
		case !now.Before(p.until):
			until[p] = p.until
			due = append(due, p)
		case next.IsZero() || p.until.Before(next):
			next = p.until
		}
	}
	slices.SortFunc(due, func(a, b *Parking[T]) int { return until[a].Compare(until[b]) })
	for _, p := range due {
		l.dropLocked(p, ErrUnanswered)
	}
	return due, next
}

// Leave ends the requests of one place, and returns them: nobody can come back
// for them there.
func (l *Lot[T]) Leave(place uint64) []*Parking[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clearLocked(func(p *Parking[T]) bool { return p.owner.Place == place })
}

// Close ends all requests that are parked, and returns them. No other is parked
// any more.
func (l *Lot[T]) Close() []*Parking[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.clearLocked(func(*Parking[T]) bool { return true })
}

func (l *Lot[T]) clearLocked(of func(*Parking[T]) bool) []*Parking[T] {
	var gone []*Parking[T]
	for _, p := range l.parked {
		if of(p) {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(a, b *Parking[T]) int { return a.until.Compare(b.until) })
	for _, p := range gone {
		l.dropLocked(p, ErrClosed)
	}
	return gone
}

// questionKey names the n-th question of a request. Keys are unique in all rounds
// of it, so that an answer which comes twice is never another question's.
func questionKey(n int) string { return "q" + strconv.Itoa(n) }
