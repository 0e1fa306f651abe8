// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ParkedRequest is one request that may be parked. It lasts until its terminal has an
// exchange, or can never have one. It is served in a sequence of exchanges, and in none
// while it is parked.
type ParkedRequest[T, X any] struct {
	value *T
	set   *ParkedRequests[T, X]

	// Below: guarded by set.mu.
	owner        Owner
	exchange     *X        // that it is served in; nil while parked and once ended
	lastExchange *X        // the last exchange; never nil
	id           string    // while it is parked
	until        time.Time // while it is parked
	rounds       int
	asked        int
	questions    []*Question // unanswered, in order
	finishing    bool        // its terminal is being sent to exchange; it is not parked again
	ended        bool        // its Handler has returned
	dropped      bool        // it cannot be resumed
}

// Question is one input request of a result of type input_required, and holds its answer.
type Question struct {
	Key    string // unique among the questions of its request
	Method string
	Params []byte

	answer
}

// Value returns the value passed to Register.
func (p *ParkedRequest[T, X]) Value() *T { return p.value }

// Exchange returns the exchange that the request is served in, or nil while it has none.
// The error is [mcp.ErrRequestEnded] if there never will be one.
func (p *ParkedRequest[T, X]) Exchange() (*X, error) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if p.ended || p.dropped {
		return nil, mcp.ErrRequestEnded
	}
	return p.exchange, nil
}

// LastExchange returns the exchange that the request was served in last.
func (p *ParkedRequest[T, X]) LastExchange() *X {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	return p.lastExchange
}

// Ask adds a question, which is sent when the request is parked next. The error is
// [mcp.ErrRequestEnded], ErrTooMany or ErrClosed. A caller that stops waiting must call
// Withdraw.
func (p *ParkedRequest[T, X]) Ask(method string, params []byte) (*Question, error) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	switch {
	case p.ended || p.dropped || p.finishing:
		return nil, mcp.ErrRequestEnded
	case p.set.closed:
		return nil, ErrClosed
	case len(p.questions) >= p.set.limits.Asks:
		return nil, ErrTooMany
	}
	p.asked++
	q := &Question{Key: QuestionKey(p.asked), Method: method, Params: params, answer: newAnswer()}
	p.questions = append(p.questions, q)
	return q, nil
}

// Finish notes that the terminal is being sent to the current exchange, and returns that
// exchange: the open questions end, and none can be asked. It returns nil and does nothing
// if there is no current exchange.
func (p *ParkedRequest[T, X]) Finish() *X {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if p.ended || p.dropped || p.exchange == nil {
		return nil
	}
	p.finishing = true
	p.failLocked(mcp.ErrRequestEnded)
	return p.exchange
}

// QuestionKey returns the key of the n-th question of a request. Keys are unique across all
// rounds, so that a repeated answer never answers another question.
func QuestionKey(n int) string { return "q" + strconv.Itoa(n) }

// Withdraw ends a question; the caller no longer waits for its answer. If the client has received
// it, its answer is ignored.
func (p *ParkedRequest[T, X]) Withdraw(q *Question, why error) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if i := slices.Index(p.questions, q); i >= 0 {
		p.questions = slices.Delete(p.questions, i, i+1)
		q.finish(Terminal{Err: why})
	}
}

// ParkedRound is one round of questions with which a request is parked.
type ParkedRound[X any] struct {
	Left      *X // the exchange that must end with the questions
	Questions []*Question
	Until     time.Time // when the request expires
	Next      time.Time // when the first of all requests expires
}

// Park moves the request out of its exchange, with all open questions, and keeps it for its
// owner under the id until it is resumed or expires. The id must be new and impossible to
// guess. The caller must end that exchange with the questions, and call DropIfParked if
// that fails. Park reports false if there is no question or no exchange to leave.
//
// If the request cannot be parked, its questions end with the reason, and it stays in its
// exchange.
func (p *ParkedRequest[T, X]) Park(id string, owner Owner, now time.Time) (ParkedRound[X], bool) {
	l := p.set
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.exchange == nil || len(p.questions) == 0 {
		return ParkedRound[X]{}, false
	}
	if err := l.checkLocked(p, owner.Principal); err != nil {
		p.failLocked(err)
		return ParkedRound[X]{}, false
	}
	p.rounds++
	r := ParkedRound[X]{Left: p.exchange, Questions: slices.Clone(p.questions), Until: now.Add(l.limits.Wait)}
	p.exchange, p.id, p.owner, p.until = nil, id, owner, r.Until
	l.addLocked(p)
	r.Next = l.nextLocked()
	return r, true
}
