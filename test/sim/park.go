// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// parkable is a request of a modern client that may be parked, and the goroutine that
// serves it: in a sequence of exchanges, and in none between them.
//
// The model holds separately what the rules need: the exchange of the request, its last
// exchange, the id under which it is parked, and its open questions. It is compared after
// each change. lastExchange outlives exchange, because the gateway learns of the end of an
// exchange after the request has left it.
type parkable struct {
	no        int
	principal string
	digest    string
	place     uint64
	real      *session.ParkedRequest[parkable, request]

	exchange     *request // that it is served in; nil while parked and once ended
	lastExchange *request
	id           string // under which it is parked, or ""
	until        time.Time
	rounds       int
	asked        int
	open         []*inputRequest // unanswered, in order
	ended        bool
	dropped      bool
	stopped      bool
	home         *replica

	steps    int // before it ends
	parkAt   time.Time
	awaiting *inputRequest
	blocked  <-chan struct{}
	fullAt   *request
}

// inputRequest is a question that the end of an exchange sends to a client.
type inputRequest struct {
	real  *session.Question
	ended bool
}

func (j *parkable) String() string { return fmt.Sprintf("j%d", j.no) }

func (j *parkable) owner() session.Owner {
	return session.Owner{Place: j.place, Principal: j.principal, Method: askedIn, Digest: j.digest}
}

// askedIn is the method of all parked requests.
const askedIn = "tools/call"

// startParkable serves a request during which its client may be asked.
//
// The digest is one of three, so that two requests may have the same, as two calls of one
// tool with the same arguments do: then only the id under which they are parked
// distinguishes them.
func (w *world) startParkable(r *request, home *replica) {
	w.parkableCount++
	j := &parkable{no: w.parkableCount, principal: r.client.principal, place: r.client.place, home: home, exchange: r, lastExchange: r, steps: 2 + w.src.Intn(8)}
	j.digest = fmt.Sprintf("digest-%d", w.src.Intn(3))
	j.real = new(session.ParkedRequest[parkable, request])
	home.parked.Register(j.real, j, r)
	r.parkable = j
	w.parkables = append(w.parkables, j)
	w.spawn(j)
}

func (j *parkable) ready(*world) bool {
	switch {
	case j.stopped:
		return true
	case j.blocked != nil:
		return isClosed(j.blocked) || j.exchange != j.fullAt
	default:
		return j.awaiting == nil || j.awaiting.ended
	}
}

// run is a Handler that does not depend on the exchange of its request: it sends to none,
// asks while it is parked, or ends. None of that waits for the client.
func (j *parkable) run(w *world) bool {
	j.blocked, j.awaiting = nil, nil
	if j.steps == 0 || j.stopped && w.src.Intn(2) == 0 { // a Handler may not stop at once
		w.handlerEnded(j)
		return false
	}
	j.steps--
	switch n := w.src.Intn(8); {
	case n < 3:
		j.send(w)
	case n < 7:
		j.ask(w)
	case len(j.open) > 0:
		w.withdrawInput(j, j.open[w.src.Intn(len(j.open))])
	}
	return true
}

// send sends a message to the current exchange of the request.
//
// It looks the exchange up first, as a Handler's context does. With a stored reference it
// would send to the exchange that was left, after its terminal (M043).
func (j *parkable) send(w *world) {
	at, err := j.real.Exchange()
	if last := j.real.LastExchange(); last != j.lastExchange {
		w.fail("I8", "%s has a wrong last exchange", j)
	}
	if ended := j.ended || j.dropped; at != j.exchange && !ended || ended != (err != nil) {
		w.fail("I8", "%s has a wrong exchange: %v", j, err)
		return
	}
	if at == nil {
		return // no client is connected
	}
	j.fullAt = at
	j.blocked = w.appendEntry(at.stream, entry{kind: [...]kind{plain, progress, log}[w.src.Intn(3)], size: w.drawSize()})
}

// askWindow is how long a question waits for others.
//
// Questions asked within it are sent together: each round costs the client a request, and
// the number of rounds is limited.
const askWindow = 10 * time.Millisecond

// ask asks a question, even while the request is parked. Such a question was not sent to
// the client, and must neither be lost nor count as answered by the retry: it is sent in
// the next round.
func (j *parkable) ask(w *world) {
	q, err := j.real.Ask("elicitation/create", nil)
	var want error
	switch {
	case j.ended || j.dropped:
		want = mcp.ErrRequestEnded
	case j.home.parkedClosed:
		want = session.ErrClosed
	case len(j.open) >= w.set.parking.Asks:
		want = session.ErrTooMany
		w.fault(LimitHit)
	}
	if !errors.Is(err, want) {
		w.fail("I37", "%s asks: %v, want %v", j, err, want)
	}
	if err != nil {
		return
	}
	j.asked++
	if q.Key != session.QuestionKey(j.asked) {
		w.fail("I4", "%s has asked %d questions, and the last has the key %s", j, j.asked, q.Key)
	}
	p := &inputRequest{real: q}
	j.open = append(j.open, p)
	if w.src.Intn(2) == 0 {
		j.awaiting = p
	}
	if j.parkAt.IsZero() {
		j.parkAt = w.now.Add(askWindow)
		w.spawn(&parkTimer{j: j})
	}
	if w.tracing() {
		w.logf("%s asks %s", j, q.Key)
	}
}

// inputEnded records the end of a question.
//
// It checks at once that the waiter is woken, not at the end of the run: by then another
// event might have woken it and hidden the lost wake-up.
func (w *world) inputEnded(j *parkable, p *inputRequest, want session.Terminal) {
	p.ended = true
	j.open = slices.DeleteFunc(j.open, func(o *inputRequest) bool { return o == p })
	if !isClosed(p.real.Done()) {
		w.fail("I37", "%s of %s has ended, and its waiter is not woken", p.real.Key, j)
		return
	}
	got := p.real.Answer()
	if got.Result != want.Result || !errors.Is(got.Err, want.Err) {
		w.fail("I37", "%s of %s ended with %v, want %v", p.real.Key, j, got, want)
	}
}

func (w *world) allInputsEnded(j *parkable, why error) {
	for len(j.open) > 0 {
		w.inputEnded(j, j.open[0], session.Terminal{Err: why})
	}
}

func (w *world) withdrawInput(j *parkable, p *inputRequest) {
	j.real.Withdraw(p.real, errCancel)
	w.inputEnded(j, p, session.Terminal{Err: errCancel})
}

// parkTimer is the timer that parks a request with its questions.
//
// It runs in two parts, as in the product: the request leaves its exchange under a lock,
// and the exchange is ended without it. Between the two the client may disconnect, the
// Handler may end, or the request may expire. The questions are those of the first part: a
// slice that package session still modified would send others than the request was parked
// with.
type parkTimer struct {
	j    *parkable
	left *request // that must end with the questions

	questions []*session.Question
	open      []*inputRequest // the corresponding questions of the model
}

func (t *parkTimer) ready(w *world) bool { return t.left != nil || !w.now.Before(t.j.parkAt) }

func (t *parkTimer) run(w *world) bool {
	if t.left == nil {
		t.j.parkAt = time.Time{}
		t.left = w.park(t)
		return t.left != nil
	}
	if !areThose(t.questions, t.open) {
		w.fail("I37", "the questions that %s was parked with have changed", t.j)
	}
	w.endWithQuestions(t.j, t.left)
	return false
}

// parksSoon reports whether the timer of some request is set.
func (w *world) parksSoon() bool {
	return slices.ContainsFunc(w.parkables, func(j *parkable) bool { return j.parkAt.After(w.now) })
}

// park moves a request out of its exchange, if it can be parked.
func (w *world) park(t *parkTimer) (left *request) {
	j := t.j
	w.parkID++
	// Ids that increase with time would hide an order by id instead of time.
	id := fmt.Sprintf("%c-parked-%d", 'z'-w.parkID%26, w.parkID) // in another order than they are created
	round, ok := j.real.Park(id, j.owner(), w.now)
	if j.exchange == nil || len(j.open) == 0 {
		if ok {
			w.fail("I37", "%s is parked without a question or an exchange", j)
		}
		return nil
	}
	if why := w.parkRefusal(j); why != nil {
		if ok {
			w.fail("I21", "%s is parked, want %v", j, why)
		}
		w.fault(LimitHit)
		w.allInputsEnded(j, why)
		return nil
	}
	t.questions, t.open = round.Questions, slices.Clone(j.open)
	if !ok || round.Left != j.exchange || !areThose(round.Questions, j.open) || !round.Until.Equal(w.now.Add(w.set.parking.Wait)) {
		w.fail("I37", "%s is parked: %v, with %d questions of %d, until %v", j, ok, len(round.Questions), len(j.open), round.Until)
		return nil
	}
	j.rounds++
	left, j.exchange, j.id, j.until = j.exchange, nil, id, round.Until
	left.state = j.home.sealParked(j)
	if want := w.nextParked(j.home); !round.Next.Equal(want) {
		w.fail("I28", "the first parked request expires at %v, reported as %v", want, round.Next)
	}
	w.parkings++
	if w.tracing() {
		w.logf("%s is parked as %s, with %d questions", j, id, len(j.open))
	}
	return left
}

// areThose reports whether the questions are the open ones, in order.
func areThose(questions []*session.Question, open []*inputRequest) bool {
	return slices.EqualFunc(questions, open, func(q *session.Question, p *inputRequest) bool { return q == p.real })
}

func (w *world) nextParked(at *replica) (next time.Time) {
	for _, j := range w.parkables {
		if j.home == at && j.id != "" && (next.IsZero() || j.until.Before(next)) {
			next = j.until
		}
	}
	return next
}

// parkRefusal returns why a request cannot be parked, or nil.
//
// It counts the requests of this replica only: the limits are per process. Anonymous
// clients have no limit per principal, because all of them are one principal.
func (w *world) parkRefusal(j *parkable) error {
	all, own := 0, 0
	for _, o := range w.parkables {
		if o.home == j.home && o.id != "" {
			all++
			if o.principal == j.principal {
				own++
			}
		}
	}
	l := &w.set.parking
	switch {
	case j.home.parkedClosed:
		return session.ErrClosed
	case j.rounds >= l.Rounds:
		return session.ErrRounds
	case all >= l.Total, j.principal != "" && own >= l.PerPrincipal:
		return session.ErrFull
	default:
		return nil
	}
}

// endWithQuestions ends the exchange that a request has left with its questions. If the
// exchange has already ended, the request is dropped.
//
// The exchange may have ended while its request was leaving it: its client has
// disconnected, and could never retry. The request must not wait until it expires for an
// answer that cannot arrive (M151).
func (w *world) endWithQuestions(j *parkable, left *request) {
	was := left.ended
	w.finish(left, false)
	if was {
		w.dropIfParked(j, left)
	}
}

// dropIfParked handles the disconnect of a client before it received the questions.
//
// Only the end of the last exchange means that the client has no questions. The gateway may
// notice the end of an earlier one much later, when the client has retried, has answered,
// and is asked again: a request dropped then would be lost although its client did
// everything right.
func (w *world) dropIfParked(j *parkable, left *request) {
	want := j.id != "" && j.lastExchange == left
	if got := j.real.DropIfParked(left); got != want {
		w.fail("I37", "%s is dropped: %v, want %v", j, got, want)
	}
	if want {
		w.parkedDropped(j, errCancel)
	}
}

// parkedDropped records that a request cannot be resumed.
func (w *world) parkedDropped(j *parkable, why error) {
	j.id, j.dropped, j.stopped = "", true, true
	j.real.Fail(why)
	w.allInputsEnded(j, why)
	if w.tracing() {
		w.logf("%s is dropped: %v", j, why)
	}
}

// handlerEnded handles the end of the Handler of the request.
func (w *world) handlerEnded(j *parkable) {
	at, kept := j.real.End()
	j.ended = true
	w.allInputsEnded(j, mcp.ErrRequestEnded)
	if at != j.exchange || kept != (j.id != "") {
		w.fail("I36", "%s ends in the exchange %v, kept: %v, want %v and %v", j, at, kept, j.exchange, j.id != "")
		return
	}
	j.exchange = nil
	if at != nil {
		w.finish(at, false)
	}
}

// retryParked serves the retry of a parked request.
//
// It looks the request up first and resumes it later, because the answers are checked
// against the questions in between, without a lock. Two clients with the same state may
// both have looked it up: only one may resume, and the other is refused as one that is late
// (I36). The second part relies on the questions of the first, so the list is compared
// again.
func (t *arrival) retryParked(w *world, id string) bool {
	j := w.parkedAs(t.to, id)
	owner := session.Owner{Place: t.place, Principal: t.principal, Method: t.method, Digest: t.event}
	if !t.found {
		t.found = true
		p, questions, err := t.to.parked.Lookup(id, owner, w.now)
		if !w.checkLookup(j, owner, err) {
			t.refuse()
			return false
		}
		if p.Value() != j || !areThose(questions, j.open) {
			w.fail("I22", "%s is looked up, and is another or has other questions", j)
		}
		t.questions, t.asks = questions, slices.Clone(j.open)
		return true
	}
	if !areThose(t.questions, t.asks) {
		w.fail("I37", "the questions of %s have changed since the lookup", t.state.of)
	}
	answers := t.answers(w, j)
	r := &request{no: len(w.requests), client: t.from, id: idOf(t.id), deferred: -1, response: t.response}
	r.x = new(session.Stateless).Begin(r.id, w.rules, w.stop(r))
	r.x.ChargeTo(t.from.principal, 0)
	r.stream = &stream{name: r.String(), of: r, real: r.x.Stream()}
	found, err := t.to.parked.Resume(id, owner, r, answers, w.now)
	if !w.checkLookup(j, owner, err) {
		w.fault(DeadAnswer) // another was first
		t.refuse()
		return false
	}
	w.parkedResumed(j, r, found, answers)
	w.serve(r, t)
	if found.Ended {
		w.finish(r, false)
	}
	return false
}

// checkLookup checks an error against the owner of the request, and reports whether it
// is nil.
//
// On the wire a foreign principal and an unknown id have the same answer. Here they are
// distinguished, because a table that confuses them may also serve the foreign one. With
// another method, other arguments or another connection it is a different request, which
// resumes nothing.
func (w *world) checkLookup(j *parkable, owner session.Owner, err error) bool {
	var want error
	switch {
	case j == nil:
		want = session.ErrUnknown
	case j.principal != owner.Principal:
		want = session.ErrForeign
		w.fault(Foreign)
	case j.digest != owner.Digest, owner.Method != askedIn, j.place != owner.Place, !w.now.Before(j.until):
		want = session.ErrUnknown
	}
	if !errors.Is(err, want) || (want != nil) != (err != nil) {
		w.fail("I22", "%v is resumed for %q with %q: %v, want %v", j, owner.Principal, owner.Digest, err, want)
	}
	return err == nil
}

// parkedResumed records that a request continues in another exchange.
//
// The Handler may have ended while the request was parked: the result waits, and answers
// the retry. Unanswered questions remain open, and are sent again when the timer fires.
func (w *world) parkedResumed(j *parkable, r *request, found session.Resumed, answers map[string]session.Terminal) {
	w.claims++
	j.id, j.lastExchange = "", r
	r.parkable = j
	if j.real.LastExchange() != r {
		w.fail("I8", "%s is resumed by %s, and has another last exchange", j, r)
	}
	if found.Ended != j.ended {
		w.fail("I36", "%s is resumed, and has ended: %v, want %v", j, found.Ended, j.ended)
		return
	}
	if j.ended {
		return
	}
	j.exchange = r
	for _, p := range append([]*inputRequest(nil), j.open...) {
		if end, ok := answers[p.real.Key]; ok {
			w.inputEnded(j, p, end)
		}
	}
	if found.Open != (len(j.open) > 0) {
		w.fail("I37", "%s is claimed with %d open questions, reported as %v", j, len(j.open), found.Open)
	}
	if found.Open && j.parkAt.IsZero() {
		j.parkAt = w.now.Add(askWindow)
		w.spawn(&parkTimer{j: j})
	}
	if w.tracing() {
		w.logf("%s continues as %s", j, r)
	}
}

// answers returns the answers of a client: to most questions, and to one that was not
// asked. An answer to a question that does not exist yet must not be kept for it.
func (t *arrival) answers(w *world, j *parkable) map[string]session.Terminal {
	n := 3
	if j != nil {
		n = j.asked
	}
	answers := make(map[string]session.Terminal)
	for i := range n + 1 {
		if w.quiescing || w.src.Intn(4) > 0 {
			answers[session.QuestionKey(i+1)] = session.Terminal{Result: &mcp.Result{}}
		}
	}
	return answers
}

func (w *world) parkedAs(at *replica, id string) *parkable {
	for _, j := range w.parkables {
		if j.home == at && j.id == id && id != "" {
			return j
		}
	}
	return nil
}

// parkExpiry is the timer that drops requests that are parked too long.
//
// The time is exact. A request that expires late is a Handler that runs for no client, and
// one that expires early is refused to a client that retries in time.
type parkExpiry struct{ at *replica }

func (t *parkExpiry) ready(w *world) bool {
	next := w.nextParked(t.at)
	return !next.IsZero() && !w.now.Before(next)
}

func (t *parkExpiry) run(w *world) bool {
	due, next := t.at.parked.Expire(w.now)
	w.checkDropped(due, func(j *parkable) bool { return j.home == t.at && !w.now.Before(j.until) })
	if want := w.nextParked(t.at); !next.Equal(want) {
		w.fail("I28", "the next parked request expires at %v, reported as %v", want, next)
	}
	return true
}

// checkDropped handles requests that were dropped: all of the chosen ones, and no others.
//
// They are returned in the order of their expiry. Otherwise the timer was set for one that
// is not the next, and the next one waits too long.
func (w *world) checkDropped(due []*session.ParkedRequest[parkable, request], chosen func(*parkable) bool) {
	n := 0
	for _, j := range w.parkables {
		if j.id != "" && chosen(j) {
			n++
		}
	}
	if len(due) != n {
		w.fail("I28", "%d parked requests are dropped, want %d", len(due), n)
	}
	var last time.Time
	for _, p := range due {
		j := p.Value()
		if j.until.Before(last) {
			w.fail("I28", "%s is dropped after one that expires later", j)
		}
		last = j.until
		if j.id == "" || !chosen(j) {
			w.fail("I20", "%s is dropped too early", j)
			return
		}
		w.parkedDropped(j, errDeadline)
	}
}

// closeParked drops all requests parked in a replica. No further request is parked there.
func (w *world) closeParked(at *replica) {
	w.checkDropped(at.parked.Close(), func(j *parkable) bool { return j.home == at })
	at.parkedClosed = true
}
