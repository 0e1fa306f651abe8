// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ParkedRequest is one request that may be parked, from its beginning until its
// terminal has an exchange to go to, or never will. It is served in one exchange
// after another, and in none while it is parked.
type ParkedRequest[T, X any] struct {
	value *T
	lot   *ParkedRequests[T, X]

	// Below: guarded by lot.mu.
	owner   Owner
	at      *X        // that it is served in; nil while it is parked, and when it is over
	last    *X        // that it was served in last; never nil
	id      string    // while it is parked
	until   time.Time // while it is parked
	rounds  int
	asked   int
	asks    []*Question // without an answer, in their order
	landed  bool        // its terminal is on its way to where it is; it is not parked again
	over    bool        // whoever serves it is done
	dropped bool        // nobody will come back for it
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

// Value returns what New was given.
func (p *ParkedRequest[T, X]) Value() *T { return p.value }

// Exchange returns the exchange that the request is served in, nil while there is none.
// The error is [mcp.ErrRequestEnded] once there never will be.
func (p *ParkedRequest[T, X]) Exchange() (*X, error) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	if p.over || p.dropped {
		return nil, mcp.ErrRequestEnded
	}
	return p.at, nil
}

// LastExchange returns the exchange that the request was served in last.
func (p *ParkedRequest[T, X]) LastExchange() *X {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	return p.last
}

// Ask adds a question, to be put when the request is parked next. The error is
// [mcp.ErrRequestEnded], ErrTooMany or ErrClosed. The question must be ended by
// Withdraw where nobody waits for it any more.
func (p *ParkedRequest[T, X]) Ask(method string, params []byte) (*Question, error) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	switch {
	case p.over || p.dropped || p.landed:
		return nil, mcp.ErrRequestEnded
	case p.lot.closed:
		return nil, ErrClosed
	case len(p.asks) >= p.lot.limits.Asks:
		return nil, ErrTooMany
	}
	p.asked++
	q := &Question{Key: QuestionKey(p.asked), Method: method, Params: params, done: make(chan struct{})}
	p.asks = append(p.asks, q)
	return q, nil
}

// Finish says that the terminal is on its way to the exchange that the request is served
// in, which it returns: the questions that are open end, and none is put any more. It
// returns nil, and does nothing, where there is no such exchange.
func (p *ParkedRequest[T, X]) Finish() *X {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	if p.over || p.dropped || p.at == nil {
		return nil
	}
	p.landed = true
	p.failLocked(mcp.ErrRequestEnded)
	return p.at
}

// QuestionKey names the n-th question of a request. Keys are unique in all rounds
// of it, so that an answer which comes twice is never another question's.
func QuestionKey(n int) string { return "q" + strconv.Itoa(n) }

// Withdraw ends a question that nobody waits for any more. Where the client has it
// already, its answer will be one to nothing.
func (p *ParkedRequest[T, X]) Withdraw(q *Question, why error) {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	if i := slices.Index(p.asks, q); i >= 0 {
		p.asks = slices.Delete(p.asks, i, i+1)
		q.finish(Terminal{Err: why})
	}
}

// ParkedRound is what a request is parked with.
type ParkedRound[X any] struct {
	Left      *X // the exchange that is to end with the questions
	Questions []*Question
	Until     time.Time // when it expires
	Next      time.Time // when the first of all requests expires
}

// Park takes the request out of its exchange, with all questions that have no
// answer, and keeps it for its owner under the id, which is new and cannot be
// guessed, until it is claimed or expires. Whoever parks it ends that exchange
// with the questions, and calls DropIfParked where that fails. It reports false where
// there is nothing to ask, or no exchange to leave.
//
// Where the request cannot be parked its questions end with the reason, which is
// for whoever asked; the request stays where it is.
func (p *ParkedRequest[T, X]) Park(id string, owner Owner, now time.Time) (ParkedRound[X], bool) {
	l := p.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.at == nil || len(p.asks) == 0 {
		return ParkedRound[X]{}, false
	}
	if err := l.refusalLocked(p, owner.Principal); err != nil {
		p.failLocked(err)
		return ParkedRound[X]{}, false
	}
	p.rounds++
	r := ParkedRound[X]{Left: p.at, Questions: slices.Clone(p.asks), Until: now.Add(l.limits.Wait)}
	p.at, p.id, p.owner, p.until = nil, id, owner, r.Until
	l.addLocked(p)
	r.Next = l.nextLocked()
	return r, true
}
