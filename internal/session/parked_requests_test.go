// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// In the tests a request is a name, and its exchanges are numbers.
type (
	testRequests = session.ParkedRequests[string, int]
	testRequest  = session.ParkedRequest[string, int]
)

func register(l *testRequests, value *string, at *int) *testRequest {
	p := new(testRequest)
	l.Register(p, value, at)
	return p
}

func newRequests(change ...func(*session.ParkedLimits)) *testRequests {
	limits := session.ParkedLimits{Total: 10, PerPrincipal: 5, Rounds: 10, Asks: 4, Wait: time.Minute}
	for _, f := range change {
		f(&limits)
	}
	return session.NewParkedRequests[string, int](limits)
}

// someTime returns the start time of the tests.
func someTime() time.Time { return time.Unix(1_800_000_000, 0) }

func owner(principal string) session.Owner {
	return session.Owner{Principal: principal, Method: "tools/call", Digest: "d"}
}

// parkedOf parks a request with one question.
func parkedOf(t *testing.T, l *testRequests, id string, o session.Owner, now time.Time) (*testRequest, *session.Question) {
	t.Helper()
	p := register(l, new(id), new(1))
	q := ask(t, p)
	if _, ok := p.Park(id, o, now); !ok {
		t.Fatalf("%s is not parked", id)
	}
	return p, q
}

func ask(t *testing.T, p *testRequest) *session.Question {
	t.Helper()
	q, err := p.Ask("roots/list", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// ended returns the end of a question, and whether it has ended.
func ended(q *session.Question) (session.Terminal, bool) {
	select {
	case <-q.Done():
		return q.Answer(), true
	default:
		return session.Terminal{}, false
	}
}

func answersTo(t *testing.T, qs ...*session.Question) map[string]session.Terminal {
	t.Helper()
	answers := make(map[string]session.Terminal)
	for _, q := range qs {
		res, err := mcp.NewResult(fmt.Appendf(nil, `{"to":%q}`, q.Key))
		if err != nil {
			t.Fatal(err)
		}
		answers[q.Key] = session.Terminal{Result: res}
	}
	return answers
}

// From the question and the parked request to the answer, and to the terminal in the
// exchange of the retry.
func TestParkedRequestContinuesWithRetry(t *testing.T) {
	l, now := newRequests(), someTime()
	p := register(l, new("r"), new(1))
	first, second := ask(t, p), ask(t, p)
	if first.Key != session.QuestionKey(1) || second.Key != session.QuestionKey(2) {
		t.Errorf("the questions have the keys %q and %q", first.Key, second.Key)
	}
	round, ok := p.Park("id", owner("ann"), now)
	if !ok || *round.Left != 1 || !slices.Equal(round.Questions, []*session.Question{first, second}) || !round.Until.Equal(now.Add(time.Minute)) {
		t.Fatalf("Park = %+v, %t", round, ok)
	}
	if at, err := p.Exchange(); at != nil || err != nil || *p.LastExchange() != 1 {
		t.Errorf("parked: At = %v, %v, Last = %d", at, err, *p.LastExchange())
	}
	if _, open, err := l.Lookup("id", owner("ann"), now); err != nil || len(open) != 2 {
		t.Errorf("Look = %d questions, %v", len(open), err)
	}
	found, err := l.Resume("id", owner("ann"), new(2), answersTo(t, first, second), now)
	if err != nil || found != (session.Resumed{}) {
		t.Fatalf("Claim = %+v, %v", found, err)
	}
	for _, q := range []*session.Question{first, second} {
		if end, ok := ended(q); !ok || string(end.Result.Bytes()) != fmt.Sprintf(`{"to":%q}`, q.Key) {
			t.Errorf("%s: %+v, %t", q.Key, end, ok)
		}
	}
	if at, kept := p.End(); at == nil || *at != 2 || kept {
		t.Errorf("End = %v, %t, want the second exchange", at, kept)
	}
	if _, err := p.Exchange(); !errors.Is(err, mcp.ErrRequestEnded) {
		t.Errorf("At after the end: %v", err)
	}
	if _, err := p.Ask("roots/list", nil); !errors.Is(err, mcp.ErrRequestEnded) {
		t.Errorf("Ask after the end: %v", err)
	}
	if l.Len() != 0 {
		t.Errorf("%d are parked at the end", l.Len())
	}
}

// "rejecting state presented by a different principal ... that does not match"
// (basic/patterns/mrtr): a retry that differs in anything finds nothing, and has no effect.
//
// Q2- 2026-07-28 basic/patterns/mrtr: "the authenticated principal, rejecting state
// presented by a different principal."
func TestParkedRequestIsBoundToItsOwner(t *testing.T) {
	now := someTime()
	own := session.Owner{Place: 1, Principal: "ann", Method: "tools/call", Digest: "d"}
	change := func(f func(*session.Owner)) session.Owner {
		o := own
		f(&o)
		return o
	}
	tests := []struct {
		name  string
		id    string
		owner session.Owner
		at    time.Time
		want  error
	}{
		{"other id", "i", own, now, session.ErrUnknown},
		{"no id", "", own, now, session.ErrUnknown},
		{"other principal", "id", change(func(o *session.Owner) { o.Principal = "bob" }), now, session.ErrForeign},
		{"anonymous", "id", change(func(o *session.Owner) { o.Principal = "" }), now, session.ErrForeign},
		{"other pipe", "id", change(func(o *session.Owner) { o.Place = 2 }), now, session.ErrUnknown},
		{"HTTP", "id", change(func(o *session.Owner) { o.Place = 0 }), now, session.ErrUnknown},
		{"other method", "id", change(func(o *session.Owner) { o.Method = "prompts/get" }), now, session.ErrUnknown},
		{"other parameters", "id", change(func(o *session.Owner) { o.Digest = "e" }), now, session.ErrUnknown},
		{"too late", "id", own, now.Add(time.Minute), session.ErrUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newRequests()
			_, q := parkedOf(t, l, "id", own, now)
			if _, _, err := l.Lookup(tt.id, tt.owner, tt.at); !errors.Is(err, tt.want) {
				t.Errorf("Look: %v, want %v", err, tt.want)
			}
			if _, err := l.Resume(tt.id, tt.owner, new(2), answersTo(t, q), tt.at); !errors.Is(err, tt.want) {
				t.Errorf("Claim: %v, want %v", err, tt.want)
			}
			if _, ok := ended(q); ok {
				t.Error("the question has ended")
			}
			if _, err := l.Resume("id", own, new(3), answersTo(t, q), now); err != nil {
				t.Errorf("its owner: %v", err)
			}
		})
	}
}

// Unanswered questions stay open for the next round under their keys, together with those
// asked while the request was parked.
func TestUnansweredQuestionsAreAskedAgain(t *testing.T) {
	l, now := newRequests(), someTime()
	p := register(l, new("r"), new(1))
	first, second := ask(t, p), ask(t, p)
	p.Park("1", owner(""), now)
	third := ask(t, p)
	if _, ok := p.Park("x", owner(""), now); ok {
		t.Fatal("parked where it is parked")
	}
	answers := answersTo(t, first)
	answers["unknown"] = session.Terminal{}
	if found, err := l.Resume("1", owner(""), new(2), answers, now); err != nil || !found.Open || found.Ended {
		t.Fatalf("Claim = %+v, %v", found, err)
	}
	if _, ok := ended(first); !ok {
		t.Error("the first question is open")
	}
	p.Withdraw(third, errors.New("taken back"))
	if end, ok := ended(third); !ok || end.Err == nil {
		t.Error("the third question is open")
	}
	round, ok := p.Park("2", owner(""), now)
	if !ok || !slices.Equal(round.Questions, []*session.Question{second}) {
		t.Errorf("the next round is %+v", round)
	}
}

func TestParkIsRefused(t *testing.T) {
	now := someTime()
	tests := []struct {
		name   string
		limits func(*session.ParkedLimits)
		before func(*testing.T, *testRequests)
		want   error
	}{
		{"full", func(m *session.ParkedLimits) { m.Total = 1 }, func(t *testing.T, l *testRequests) { parkedOf(t, l, "0", owner("bob"), now) }, session.ErrFull},
		{"full for one", func(m *session.ParkedLimits) { m.PerPrincipal = 1 }, func(t *testing.T, l *testRequests) { parkedOf(t, l, "0", owner("ann"), now) }, session.ErrFull},
		{"not full for another", func(m *session.ParkedLimits) { m.PerPrincipal = 1 }, func(t *testing.T, l *testRequests) { parkedOf(t, l, "0", owner("bob"), now) }, nil},
		{"closed", nil, func(_ *testing.T, l *testRequests) { l.Close() }, session.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newRequests()
			if tt.limits != nil {
				l = newRequests(tt.limits)
			}
			p := register(l, new("r"), new(1))
			q := ask(t, p) // before Close
			tt.before(t, l)
			_, ok := p.Park("id", owner("ann"), now)
			end, over := ended(q)
			if ok != (tt.want == nil) || over != (tt.want != nil) || over && !errors.Is(end.Err, tt.want) {
				t.Fatalf("Park = %t, the question ended: %t, %v; want %v", ok, over, end.Err, tt.want)
			}
			if at, err := p.Exchange(); tt.want != nil && (at == nil || err != nil) {
				t.Errorf("it is served nowhere: %v", err)
			}
		})
	}
}

// The anonymous principal has no limit of its own.
func TestAnonymousPrincipalHasNoLimit(t *testing.T) {
	l := newRequests(func(m *session.ParkedLimits) { m.PerPrincipal = 1 })
	for i := range 3 {
		parkedOf(t, l, fmt.Sprint(i), owner(""), someTime())
	}
}

// The limit of a principal is for requests that are parked, and not for those that were.
func TestPrincipalMayParkAgain(t *testing.T) {
	l, now := newRequests(), someTime()
	parkedOf(t, l, "other", owner("bob"), now)
	for i := range 20 {
		id := fmt.Sprint("id", i)
		_, q := parkedOf(t, l, id, owner("ann"), now)
		if _, err := l.Resume(id, owner("ann"), new(2), answersTo(t, q), now); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Len(); got != 1 {
		t.Errorf("%d are parked, want one", got)
	}
}

func TestParkRoundsAreLimited(t *testing.T) {
	l, now := newRequests(func(m *session.ParkedLimits) { m.Rounds = 2 }), someTime()
	p := register(l, new("r"), new(0))
	for i := range 2 {
		q := ask(t, p)
		p.Park("id", owner(""), now)
		if _, err := l.Resume("id", owner(""), new(i+1), answersTo(t, q), now); err != nil {
			t.Fatal(err)
		}
	}
	q := ask(t, p)
	if _, ok := p.Park("id", owner(""), now); ok {
		t.Error("parked a third time")
	}
	if end, ok := ended(q); !ok || !errors.Is(end.Err, session.ErrRounds) {
		t.Errorf("the question: %v, %t", end.Err, ok)
	}
}

// A question that is withdrawn ends, and is not asked.
func TestWithdrawnQuestion(t *testing.T) {
	why := errors.New("why")
	for i := range 3 {
		l := newRequests()
		p := register(l, new("r"), new(0))
		questions := []*session.Question{ask(t, p), ask(t, p), ask(t, p)}
		p.Withdraw(questions[i], why)
		p.Withdraw(questions[i], errors.New("again")) // no effect
		if end, ok := ended(questions[i]); !ok || !errors.Is(end.Err, why) {
			t.Errorf("question %d ends with %v, %v; want %v", i, end.Err, ok, why)
		}
		round, ok := p.Park("id", owner("ann"), someTime())
		if want := slices.Delete(questions, i, i+1); !ok || !slices.Equal(round.Questions, want) {
			t.Errorf("without question %d: parked %v with %d questions, want the other two", i, ok, len(round.Questions))
		}
	}
}

func TestQuestionsAreLimited(t *testing.T) {
	l := newRequests()
	p := register(l, new("r"), new(0))
	for range 4 {
		ask(t, p)
	}
	if _, err := p.Ask("roots/list", nil); !errors.Is(err, session.ErrTooMany) {
		t.Errorf("a fifth question: %v", err)
	}
}

// A request that ends while it is parked keeps its terminal for the retry.
func TestParkedRequestEnds(t *testing.T) {
	l, now := newRequests(), someTime()
	p, q := parkedOf(t, l, "id", owner(""), now)
	if at, kept := p.End(); at != nil || !kept {
		t.Errorf("End = %v, %t", at, kept)
	}
	if end, ok := ended(q); !ok || !errors.Is(end.Err, mcp.ErrRequestEnded) {
		t.Errorf("its question: %v, %t", end.Err, ok)
	}
	if found, err := l.Resume("id", owner(""), new(2), answersTo(t, q), now); err != nil || !found.Ended || found.Open {
		t.Errorf("Claim = %+v, %v", found, err)
	}
	if _, err := l.Resume("id", owner(""), new(3), nil, now); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a second Claim: %v", err)
	}
}

func TestParkedRequestsExpireInOrder(t *testing.T) {
	l, now := newRequests(), someTime()
	_, q := parkedOf(t, l, "0", owner(""), now)
	parkedOf(t, l, "1", owner(""), now.Add(time.Second))
	parkedOf(t, l, "2", owner(""), now.Add(2*time.Second))
	if due, next := l.Expire(now.Add(time.Minute - 1)); len(due) != 0 || !next.Equal(now.Add(time.Minute)) {
		t.Errorf("too early: %d, next %v", len(due), next)
	}
	due, next := l.Expire(now.Add(time.Minute + time.Second))
	if len(due) != 2 || *due[0].Value() != "0" || *due[1].Value() != "1" || !next.Equal(now.Add(time.Minute+2*time.Second)) {
		t.Fatalf("Expire = %d, next %v", len(due), next)
	}
	if _, ok := ended(q); ok {
		t.Error("its question has ended before Abandon")
	}
	why := errors.New("late")
	due[0].Fail(why)
	if end, ok := ended(q); !ok || !errors.Is(end.Err, why) {
		t.Errorf("its question: %v, %t", end.Err, ok)
	}
	if at, kept := due[0].End(); at != nil || kept {
		t.Errorf("End = %v, %t", at, kept)
	}
	if due, next := l.Expire(now.Add(time.Hour)); len(due) != 1 || !next.IsZero() {
		t.Errorf("the last: %d, next %v", len(due), next)
	}
}

// DropIfParked only drops a request that has not been resumed since.
func TestDropIfParkedIsForTheLastExchange(t *testing.T) {
	l, now := newRequests(), someTime()
	one := new(1)
	p := register(l, new("r"), one)
	if p.DropIfParked(one) {
		t.Error("lost where it is not parked")
	}
	q := ask(t, p)
	p.Park("id", owner(""), now)
	if p.DropIfParked(new(1)) {
		t.Error("lost for another exchange")
	}
	if _, err := l.Resume("id", owner(""), new(2), nil, now); err != nil {
		t.Fatal(err)
	}
	p.Park("id2", owner(""), now)
	if p.DropIfParked(one) {
		t.Error("lost for an exchange before the last")
	}
	if !p.DropIfParked(p.LastExchange()) || l.Len() != 0 {
		t.Error("not lost for the last")
	}
	if _, ok := ended(q); ok {
		t.Error("its question has ended before Abandon")
	}
}

func TestDropIsForOnePlace(t *testing.T) {
	l, now := newRequests(), someTime()
	parkedOf(t, l, "0", session.Owner{Place: 1}, now)
	parkedOf(t, l, "1", session.Owner{}, now)
	if gone := l.Drop(func(o session.Owner) bool { return o.Place == 1 }); len(gone) != 1 || *gone[0].Value() != "0" || l.Len() != 1 {
		t.Errorf("%d have left, %d are there", len(gone), l.Len())
	}
	if gone := l.Close(); len(gone) != 1 || l.Len() != 0 {
		t.Errorf("Close gives %d, and leaves %d", len(gone), l.Len())
	}
}

// In any order of events: a request is resumed at most once, by its owner; each question
// ends at most once; the limits hold; at the end nothing is left.
func TestParkedRequestsProperties(t *testing.T) {
	for seed := range uint64(500) {
		w := &parkedModel{
			t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), now: someTime(), spots: map[string]*modelID{},
			lot: newRequests(func(m *session.ParkedLimits) { m.Total, m.PerPrincipal = 4, 2 }),
		}
		w.run()
		if t.Failed() {
			return
		}
	}
}

// run makes a hundred random steps, and then ends everything.
func (w *parkedModel) run() {
	w.begin()
	steps := []func(){w.begin, w.ask, w.ask, w.park, w.park, w.resume, w.resume, w.end, w.wait}
	for range 100 {
		steps[w.random.IntN(len(steps))]()
		w.check()
	}
	for _, p := range w.lot.Close() {
		p.Fail(session.ErrClosed)
	}
	for _, r := range w.requests {
		r.p.End()
	}
	for _, q := range w.questions {
		if _, ok := ended(q); !ok {
			w.errorf("the question %s is open at the end", q.Key)
		}
	}
	if w.lot.Len() != 0 {
		w.errorf("%d are parked at the end", w.lot.Len())
	}
}

// lotWorld is a model of a ParkedRequests.
type parkedModel struct {
	t         *testing.T
	seed      uint64
	random    *rand.Rand
	lot       *testRequests
	now       time.Time
	serial    int
	requests  []*modelRequest
	questions []*session.Question
	spots     map[string]*modelID // every id so far
}

type modelRequest struct {
	p         *testRequest
	principal string
	parked    string // the id, or ""
	over      bool
}

type modelID struct {
	of    *modelRequest
	until time.Time
	used  bool
}

func (w *parkedModel) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d: "+format, append([]any{w.seed}, args...)...)
}

func (w *parkedModel) pick() *modelRequest { return w.requests[w.random.IntN(len(w.requests))] }

func (w *parkedModel) principal() string { return []string{"", "ann", "bob"}[w.random.IntN(3)] }

func (w *parkedModel) begin() {
	r := &modelRequest{principal: w.principal()}
	r.p = register(w.lot, new(r.principal), new(0))
	w.requests = append(w.requests, r)
}

func (w *parkedModel) ask() {
	r := w.pick()
	q, err := r.p.Ask("roots/list", nil)
	if r.over != errors.Is(err, mcp.ErrRequestEnded) {
		w.errorf("Ask: %v, over %t", err, r.over)
	}
	if err == nil {
		w.questions = append(w.questions, q)
	}
}

func (w *parkedModel) park() {
	r := w.pick()
	w.serial++
	id := fmt.Sprint(w.serial)
	round, ok := r.p.Park(id, owner(r.principal), w.now)
	if !ok {
		return
	}
	if r.parked != "" || r.over || len(round.Questions) == 0 {
		w.errorf("parked: was parked %q, over %t, %d questions", r.parked, r.over, len(round.Questions))
	}
	r.parked = id
	w.spots[id] = &modelID{of: r, until: round.Until}
}

func (w *parkedModel) resume() {
	// One of the last that were parked, or an unknown one.
	id := fmt.Sprint(w.serial - w.random.IntN(4))
	principal := w.principal()
	found, err := w.lot.Resume(id, owner(principal), new(w.serial), nil, w.now)
	s := w.spots[id]
	want := s != nil && !s.used && s.of.parked == id && s.of.principal == principal && w.now.Before(s.until)
	if (err == nil) != want {
		w.errorf("Claim of %s by %q: %v, want %t", id, principal, err, want)
	}
	if err == nil && s != nil {
		s.used, s.of.parked = true, ""
		if found.Ended != s.of.over {
			w.errorf("Claim = %+v, over %t", found, s.of.over)
		}
	}
}

func (w *parkedModel) end() {
	r := w.pick()
	at, kept := r.p.End()
	if (at != nil) != (r.parked == "" && !r.over) || kept != (r.parked != "") {
		w.errorf("End = %v, %t; parked %q, over %t", at, kept, r.parked, r.over)
	}
	r.over = true
}

func (w *parkedModel) wait() {
	w.now = w.now.Add(time.Duration(w.random.IntN(40)) * time.Second)
	due, next := w.lot.Expire(w.now)
	for _, p := range due {
		p.Fail(mcp.ErrRequestEnded)
		i := slices.IndexFunc(w.requests, func(r *modelRequest) bool { return r.p == p })
		r := w.requests[i]
		if w.now.Before(w.spots[r.parked].until) {
			w.errorf("%s has expired before its time", r.parked)
		}
		r.parked, r.over = "", true
	}
	if !next.IsZero() && !w.now.Before(next) {
		w.errorf("next is %v, not after %v", next, w.now)
	}
}

func (w *parkedModel) check() {
	parked, by := 0, map[string]int{}
	for _, r := range w.requests {
		if r.parked != "" {
			parked++
			by[r.principal]++
		}
	}
	if got := w.lot.Len(); got != parked || parked > 4 || by["ann"] > 2 || by["bob"] > 2 {
		w.errorf("%d are parked, want %d; by principal %v", got, parked, by)
	}
}
