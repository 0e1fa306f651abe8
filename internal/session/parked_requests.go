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

// Errors of parking and resuming a request.
var (
	// ErrFull is returned if the limit of parked requests is reached.
	ErrFull = errors.New("too many parked requests")

	// ErrRounds is returned for a request that asks for input too often.
	ErrRounds = errors.New("too many rounds of input requests")

	// ErrClosed is returned after ParkedRequests.Close.
	ErrClosed = errors.New("closed: requests can no longer be parked or resumed")
)

// ParkedLimits bound a ParkedRequests. All fields must be set.
type ParkedLimits struct {
	Total        int           // parked requests
	PerPrincipal int           // parked requests of one named principal
	Rounds       int           // how often one request is parked
	Asks         int           // unanswered questions of one request
	Wait         time.Duration // how long one is parked
}

// Owner identifies the owner of a parked request. Only a request for which all fields are
// the same resumes it.
type Owner struct {
	Place     uint64 // the number of a pipe; 0 is HTTP, where all connections are alike
	Principal string
	Profile   string // see Session
	Method    string
	Digest    string // of the parameters
}

// ParkedRequests holds the requests of modern clients that wait for input, apart from any
// exchange: the terminal of one request asks for input, and the answer arrives in another
// (2026-07-28, basic/patterns/mrtr). T is the caller's state of a request, X the type of
// its exchanges.
//
// One lock guards a ParkedRequests and all its requests.
type ParkedRequests[T, X any] struct {
	limits ParkedLimits

	mu           sync.Mutex
	closed       bool
	parked       map[string]*ParkedRequest[T, X] // by the id that resumes them
	perPrincipal map[string]int                  // the number of parked requests by principal
}

// NewParkedRequests returns an empty ParkedRequests.
func NewParkedRequests[T, X any](limits ParkedLimits) *ParkedRequests[T, X] {
	return &ParkedRequests[T, X]{limits: limits}
}

// Register initializes a new request, which is served in the exchange at. It counts only
// while it is parked.
func (l *ParkedRequests[T, X]) Register(p *ParkedRequest[T, X], value *T, at *X) {
	*p = ParkedRequest[T, X]{value: value, set: l, exchange: at, lastExchange: at}
}

// Len returns the number of parked requests.
func (l *ParkedRequests[T, X]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}

// checkLocked returns why a request cannot be parked, or nil.
func (l *ParkedRequests[T, X]) checkLocked(p *ParkedRequest[T, X], principal string) error {
	switch {
	case l.closed:
		return ErrClosed
	case p.rounds >= l.limits.Rounds:
		return ErrRounds
	case len(l.parked) >= l.limits.Total, principal != "" && l.perPrincipal[principal] >= l.limits.PerPrincipal:
		return ErrFull
	default:
		return nil
	}
}

// failLocked ends all questions of the request.
func (p *ParkedRequest[T, X]) failLocked(err error) {
	for _, q := range p.questions {
		q.finish(Terminal{Err: err})
	}
	p.questions = nil
}

func (l *ParkedRequests[T, X]) addLocked(p *ParkedRequest[T, X]) {
	if l.parked == nil {
		l.parked, l.perPrincipal = make(map[string]*ParkedRequest[T, X]), make(map[string]int)
	}
	l.parked[p.id] = p
	l.perPrincipal[p.owner.Principal]++
}

func (l *ParkedRequests[T, X]) removeLocked(p *ParkedRequest[T, X]) {
	delete(l.parked, p.id)
	if l.perPrincipal[p.owner.Principal]--; l.perPrincipal[p.owner.Principal] == 0 {
		delete(l.perPrincipal, p.owner.Principal)
	}
	if len(l.parked) == 0 {
		l.parked, l.perPrincipal = nil, nil // a map does not shrink
	}
	p.id, p.until = "", time.Time{}
}

// dropLocked removes a parked request that cannot be resumed. Its questions remain open
// until Fail, so that its Handler can be stopped first.
func (l *ParkedRequests[T, X]) dropLocked(p *ParkedRequest[T, X]) {
	l.removeLocked(p)
	p.dropped = true
}

// DropIfParked drops the request if it has been parked since it left this exchange, and
// the result of the exchange could not be delivered: the client has no questions to answer. It reports whether it
// did; then the caller must stop the Handler and call Fail.
func (p *ParkedRequest[T, X]) DropIfParked(left *X) bool {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if p.id == "" || p.lastExchange != left {
		return false
	}
	p.set.dropLocked(p)
	return true
}

// Fail ends the questions of a request that was dropped.
func (p *ParkedRequest[T, X]) Fail(why error) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	p.failLocked(why)
}

// Lookup returns the request parked under the id for this owner, and its open questions. It
// changes nothing. The error is ErrUnknown or ErrForeign.
func (l *ParkedRequests[T, X]) Lookup(id string, owner Owner, now time.Time) (*ParkedRequest[T, X], []*Question, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.findLocked(id, owner, now)
	if err != nil {
		return nil, nil, err
	}
	return p, slices.Clone(p.questions), nil
}

func (l *ParkedRequests[T, X]) findLocked(id string, owner Owner, now time.Time) (*ParkedRequest[T, X], error) {
	switch p := l.parked[id]; {
	case p == nil:
		return nil, ErrUnknown
	case p.owner.Principal != owner.Principal || p.owner.Profile != owner.Profile:
		return nil, ErrForeign
	case p.owner != owner, !now.Before(p.until):
		return nil, ErrUnknown
	default:
		return p, nil
	}
}

// Resumed is the state of a request when it is resumed.
type Resumed struct {
	Ended bool // its Handler has returned: the exchange must get its terminal
	Open  bool // there are unanswered questions
}

// Resume moves the request parked under the id into an exchange. The id is valid once.
// Questions that have an answer in answers end with it. The error is that of Lookup.
func (l *ParkedRequests[T, X]) Resume(id string, owner Owner, to *X, answers map[string]Terminal, now time.Time) (Resumed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.findLocked(id, owner, now)
	if err != nil {
		return Resumed{}, err
	}
	l.removeLocked(p)
	p.lastExchange = to
	if p.ended {
		return Resumed{Ended: true}, nil
	}
	p.exchange = to
	p.questions = slices.DeleteFunc(p.questions, func(q *Question) bool {
		end, ok := answers[q.Key]
		if ok {
			q.finish(end)
		}
		return ok
	})
	return Resumed{Open: len(p.questions) > 0}, nil
}

// End notes that the Handler of the request has returned. It returns the exchange for the
// terminal, or nil. In that case kept reports whether one may follow: the request
// is parked, and Resume will report Ended.
func (p *ParkedRequest[T, X]) End() (at *X, kept bool) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	p.ended = true
	p.failLocked(mcp.ErrRequestEnded)
	at, p.exchange = p.exchange, nil
	return at, p.id != ""
}

// Expire drops expired requests and returns them in the order of their
// expiry. The caller must stop their Handlers and call Fail. next is when to call Expire
// again, and zero if nothing is parked.
func (l *ParkedRequests[T, X]) Expire(now time.Time) (due []*ParkedRequest[T, X], next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due = l.dropFuncLocked(func(p *ParkedRequest[T, X]) bool { return !now.Before(p.until) })
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

// Drop drops the requests of owners for which gone returns true, for example because their
// place has ended, and returns them as Expire does.
func (l *ParkedRequests[T, X]) Drop(gone func(Owner) bool) []*ParkedRequest[T, X] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropFuncLocked(func(p *ParkedRequest[T, X]) bool { return gone(p.owner) })
}

// Close drops all requests and returns them as Expire does. No further request is parked.
func (l *ParkedRequests[T, X]) Close() []*ParkedRequest[T, X] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.dropFuncLocked(func(*ParkedRequest[T, X]) bool { return true })
}

// dropFuncLocked drops the requests for which f returns true, in the order of their expiry.
func (l *ParkedRequests[T, X]) dropFuncLocked(f func(*ParkedRequest[T, X]) bool) []*ParkedRequest[T, X] {
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
