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

// journey is a request of a modern client that may be parked, and the goroutine in
// which it is served: in one exchange after another, and in none between them.
//
// What is kept here is what the rules need and the machine has in another form:
// where the request is served, where it was served last, under which name it waits,
// and which of its questions are open. That the two agree is compared after each
// step that changes one of them. "last" outlives "at", because the end of an
// exchange is heard of after the request has left it.
type journey struct {
	no        int
	principal string
	digest    string
	place     uint64
	real      *session.ParkedRequest[journey, request]

	at      *request // that it is served in; nil while it is parked, and when it is over
	last    *request
	id      string // under which it is parked; "" while it is not
	until   time.Time
	rounds  int
	asked   int
	open    []*ponder // questions without an answer, in their order
	over    bool
	dropped bool
	stopped bool
	home    *replica

	left    int // things to do before it ends
	putAt   time.Time
	waits   *ponder
	blocked <-chan struct{}
	fullAt  *request
}

// ponder is a question that a client is asked by the end of an exchange.
type ponder struct {
	real *session.Question
	over bool
}

func (j *journey) String() string { return fmt.Sprintf("j%d", j.no) }

func (j *journey) owner() session.Owner {
	return session.Owner{Place: j.place, Principal: j.principal, Method: askedIn, Digest: j.digest}
}

// askedIn is the method of all requests that are parked.
const askedIn = "tools/call"

// startJourney serves a request during which its client may be asked.
//
// The digest is one of three, so that two requests may have the same, as two calls
// of one tool with the same arguments have: what tells them apart is then the name
// alone under which they are parked.
func (w *world) startJourney(r *request, home *replica) {
	w.journeyed++
	j := &journey{no: w.journeyed, principal: r.client.principal, place: r.client.place, home: home, at: r, last: r, left: 2 + w.src.Intn(8)}
	j.digest = fmt.Sprintf("digest-%d", w.src.Intn(3))
	j.real = home.lot.New(j, r)
	r.on = j
	w.journeys = append(w.journeys, j)
	w.spawn(j)
}

func (j *journey) ready(*world) bool {
	switch {
	case j.stopped:
		return true
	case j.blocked != nil:
		return isClosed(j.blocked) || j.at != j.fullAt
	default:
		return j.waits == nil || j.waits.over
	}
}

// A Handler does what it wants while its request goes from one exchange to the
// next: it speaks into none, asks while it is parked, or ends. None of that waits
// for the client to be back.
func (j *journey) run(w *world) bool {
	j.blocked, j.waits = nil, nil
	if j.left == 0 || j.stopped && w.src.Intn(2) == 0 { // a Handler may not stop at once
		w.conclude(j)
		return false
	}
	j.left--
	switch n := w.src.Intn(8); {
	case n < 3:
		j.say(w)
	case n < 7:
		j.ask(w)
	case len(j.open) > 0:
		w.takeQuestionBack(j, j.open[w.src.Intn(len(j.open))])
	}
	return true
}

// say sends something that belongs to the request, to whatever exchange it is on.
//
// It asks where the request is just before it speaks, as a Handler's context does.
// A reference that was kept from before would speak into the exchange that was
// left, after its terminal (M043).
func (j *journey) say(w *world) {
	at, err := j.real.Exchange()
	if last := j.real.LastExchange(); last != j.last {
		w.fail("I8", "%s was served in another exchange last than it says", j)
	}
	if ended := j.over || j.dropped; at != j.at && !ended || ended != (err != nil) {
		w.fail("I8", "%s is served in another exchange than it says: %v", j, err)
		return
	}
	if at == nil {
		return // nobody listens
	}
	j.fullAt = at
	j.blocked = w.give(at.st, entry{sort: [...]sort{plain, progress, log}[w.src.Intn(3)], size: w.drawSize()})
}

// askWindow is how long a question waits for others.
//
// What is asked within it is put together: each round costs the client a request,
// and the number of rounds is bounded.
const askWindow = 10 * time.Millisecond

// It asks also while it is parked. Such a question is not among those that the
// client was sent, and must neither be lost nor be taken for answered when the
// client comes back: it is put in the next round.
func (j *journey) ask(w *world) {
	q, err := j.real.Ask("elicitation/create", nil)
	var want error
	switch {
	case j.over || j.dropped:
		want = mcp.ErrRequestEnded
	case j.home.lotClosed:
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
		w.fail("I4", "%s has asked %d questions, and the last is called %s", j, j.asked, q.Key)
	}
	p := &ponder{real: q}
	j.open = append(j.open, p)
	if w.src.Intn(2) == 0 {
		j.waits = p
	}
	if j.putAt.IsZero() {
		j.putAt = w.now.Add(askWindow)
		w.spawn(&putter{j: j})
	}
	if w.tell() {
		w.say("%s asks %s", j, q.Key)
	}
}

// pondered notes what ended a question.
//
// That whoever asked can go on is looked at where the question ends, and not at the
// end of the run: by then another event may have woken him, and the lost wake-up
// would not show.
func (w *world) pondered(j *journey, p *ponder, want session.Terminal) {
	p.over = true
	j.open = slices.DeleteFunc(j.open, func(o *ponder) bool { return o == p })
	if !isClosed(p.real.Done()) {
		w.fail("I37", "%s of %s is over, and who asked waits", p.real.Key, j)
		return
	}
	got := p.real.Answer()
	if got.Result != want.Result || !errors.Is(got.Err, want.Err) {
		w.fail("I37", "%s of %s ended with %v, want %v", p.real.Key, j, got, want)
	}
}

func (w *world) allPondered(j *journey, why error) {
	for len(j.open) > 0 {
		w.pondered(j, j.open[0], session.Terminal{Err: why})
	}
}

func (w *world) takeQuestionBack(j *journey, p *ponder) {
	j.real.Withdraw(p.real, errCancel)
	w.pondered(j, p, session.Terminal{Err: errCancel})
}

// putter is the timer that has the questions of a request be put.
//
// It runs in two parts, as the product does: the request leaves its exchange under
// a lock, and the exchange is ended without it. Between the two the client may go
// away, the Handler may end, or the time of the request may be over. The questions
// are remembered from the first part, because a slice that the machine goes on
// writing would put others than those that were parked.
type putter struct {
	j    *journey
	left *request // that is to end with them

	questions []*session.Question
	open      []*ponder // those that they are
}

func (t *putter) ready(w *world) bool { return t.left != nil || !w.now.Before(t.j.putAt) }

func (t *putter) run(w *world) bool {
	if t.left == nil {
		t.j.putAt = time.Time{}
		t.left = w.park(t)
		return t.left != nil
	}
	if !areThose(t.questions, t.open) {
		w.fail("I37", "the questions that %s was parked with have changed", t.j)
	}
	w.put(t.j, t.left)
	return false
}

// soonPuts reports whether the questions of some request wait for their time.
func (w *world) soonPuts() bool {
	return slices.ContainsFunc(w.journeys, func(j *journey) bool { return j.putAt.After(w.now) })
}

// park takes a request out of its exchange, if it can be parked.
func (w *world) park(t *putter) (left *request) {
	j := t.j
	w.parkID++
	// Names that rise with time would hide an order by name where one by time is
	// meant.
	id := fmt.Sprintf("%c-parked-%d", 'z'-w.parkID%26, w.parkID) // in another order than they come
	round, ok := j.real.Park(id, j.owner(), w.now)
	if j.at == nil || len(j.open) == 0 {
		if ok {
			w.fail("I37", "%s is parked, and has nothing to ask or nowhere to leave", j)
		}
		return nil
	}
	if why := w.noParking(j); why != nil {
		if ok {
			w.fail("I21", "%s is parked, want %v", j, why)
		}
		w.fault(LimitHit)
		w.allPondered(j, why)
		return nil
	}
	t.questions, t.open = round.Questions, slices.Clone(j.open)
	if !ok || round.Left != j.at || !areThose(round.Questions, j.open) || !round.Until.Equal(w.now.Add(w.set.parking.Wait)) {
		w.fail("I37", "%s is parked: %v, with %d questions of %d, until %v", j, ok, len(round.Questions), len(j.open), round.Until)
		return nil
	}
	j.rounds++
	left, j.at, j.id, j.until = j.at, nil, id, round.Until
	left.state = j.home.park(j)
	if want := w.nextParked(j.home); !round.Next.Equal(want) {
		w.fail("I28", "the first parked request expires at %v, and that is said to be %v", want, round.Next)
	}
	w.parkings++
	if w.tell() {
		w.say("%s is parked as %s, with %d questions", j, id, len(j.open))
	}
	return left
}

// areThose reports whether the questions are those that are open, in their order.
func areThose(questions []*session.Question, open []*ponder) bool {
	return slices.EqualFunc(questions, open, func(q *session.Question, p *ponder) bool { return q == p.real })
}

func (w *world) nextParked(at *replica) (next time.Time) {
	for _, j := range w.journeys {
		if j.home == at && j.id != "" && (next.IsZero() || j.until.Before(next)) {
			next = j.until
		}
	}
	return next
}

// noParking says why a request cannot be parked.
//
// It is worked out from what is parked at this replica alone: the bounds are those
// of a process, and there is nothing that the replicas could count together. An
// anonymous client has no bound of its own, because all of them are one principal.
func (w *world) noParking(j *journey) error {
	all, own := 0, 0
	for _, o := range w.journeys {
		if o.home == j.home && o.id != "" {
			all++
			if o.principal == j.principal {
				own++
			}
		}
	}
	l := &w.set.parking
	switch {
	case j.home.lotClosed:
		return session.ErrClosed
	case j.rounds >= l.Rounds:
		return session.ErrRounds
	case all >= l.Total, j.principal != "" && own >= l.PerPrincipal:
		return session.ErrFull
	default:
		return nil
	}
}

// put ends the exchange that a request has left with its questions. Where that is
// over already nobody will have them.
//
// The exchange may have ended while its request was leaving it: its client has
// gone, and would never know what to come back with. The request must not wait its
// whole time for an answer that nobody can give (M151).
func (w *world) put(j *journey, left *request) {
	was := left.over
	w.finish(left, false)
	if was {
		w.loseParked(j, left)
	}
}

// loseParked: the client of an exchange is gone, and nobody has the questions.
//
// Only the end of the exchange that was left last says that nobody has the
// questions. The end of an earlier one may be noticed much later, when its client
// has come back, has answered, and is asked again: that client has the new
// questions, and a request that was dropped then would be lost to somebody who did
// all that he was asked.
func (w *world) loseParked(j *journey, left *request) {
	want := j.id != "" && j.last == left
	if got := j.real.DropIfParked(left); got != want {
		w.fail("I37", "%s is lost: %v, want %v", j, got, want)
	}
	if want {
		w.dropParked(j, errCancel)
	}
}

// dropParked notes that nobody comes back for a request.
func (w *world) dropParked(j *journey, why error) {
	j.id, j.dropped, j.stopped = "", true, true
	j.real.Fail(why)
	w.allPondered(j, why)
	if w.tell() {
		w.say("%s is dropped: %v", j, why)
	}
}

// conclude is the end of whoever served the request.
func (w *world) conclude(j *journey) {
	at, kept := j.real.End()
	j.over = true
	w.allPondered(j, mcp.ErrRequestEnded)
	if at != j.at || kept != (j.id != "") {
		w.fail("I36", "%s ends in the exchange %v, kept: %v, want %v and %v", j, at, kept, j.at, j.id != "")
		return
	}
	j.at = nil
	if at != nil {
		w.finish(at, false)
	}
}

// comesBackTo serves the retry of a request that was parked.
//
// It looks first and claims later, because the answers are checked against the
// questions in between, without a lock. Two clients that bring the same state can
// both have looked: only one may claim, and the other is refused as one who comes
// too late is (I36). What was seen in the first part must be what the second relies
// on, so that the list is compared again.
func (t *visit) comesBackTo(w *world, id string) bool {
	j := w.parkedAs(t.to, id)
	owner := session.Owner{Place: t.place, Principal: t.principal, Method: t.method, Digest: t.event}
	if !t.found {
		t.found = true
		p, questions, err := t.to.lot.Lookup(id, owner, w.now)
		if !w.isFound(j, owner, err) {
			t.turnAway()
			return false
		}
		if p.Value() != j || !areThose(questions, j.open) {
			w.fail("I22", "%s is looked at, and is another or has other questions", j)
		}
		t.questions, t.asks = questions, slices.Clone(j.open)
		return true
	}
	if !areThose(t.questions, t.asks) {
		w.fail("I37", "the questions that %s was looked at with have changed", t.state.of)
	}
	answers := t.answers(w, j)
	r := &request{no: len(w.requests), client: t.from, id: idOf(t.id), late: -1, pipe: t.pipe}
	r.x = session.NewStateless(r.id, w.rules, session.StopFunc(w.stop(r)))
	r.x.CountFor(t.from.principal, 0)
	r.st = &stream{name: r.String(), of: r, real: r.x.Stream()}
	found, err := t.to.lot.Resume(id, owner, r, answers, w.now)
	if !w.isFound(j, owner, err) {
		w.fault(DeadAnswer) // another was first
		t.turnAway()
		return false
	}
	w.claimed(j, r, found, answers)
	w.serve(r, t)
	if found.Over {
		w.finish(r, false)
	}
	return false
}

// isFound holds an error against who may come back, and reports whether there is none.
//
// A foreign principal and an unknown name are one answer on the wire. Here they are
// told apart, because a table that mixes them up may serve the one as well. All
// else that does not agree, the method, the arguments, the connection, makes it
// another request, which has nothing to claim.
func (w *world) isFound(j *journey, owner session.Owner, err error) bool {
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
		w.fail("I22", "%v is claimed for %q with %q: %v, want %v", j, owner.Principal, owner.Digest, err, want)
	}
	return err == nil
}

// claimed notes that a request goes on in another exchange.
//
// A Handler may have ended while its request was parked: the result waits, and is
// the answer to whoever comes back. What was not answered stays open, and is put
// again when its moment has passed.
func (w *world) claimed(j *journey, r *request, found session.Resumed, answers map[string]session.Terminal) {
	w.claims++
	j.id, j.last = "", r
	r.on = j
	if j.real.LastExchange() != r {
		w.fail("I8", "%s is claimed by %s, and was served in another last", j, r)
	}
	if found.Over != j.over {
		w.fail("I36", "%s is claimed, and is over: %v, want %v", j, found.Over, j.over)
		return
	}
	if j.over {
		return
	}
	j.at = r
	for _, p := range append([]*ponder(nil), j.open...) {
		if end, ok := answers[p.real.Key]; ok {
			w.pondered(j, p, end)
		}
	}
	if found.Open != (len(j.open) > 0) {
		w.fail("I37", "%s is claimed with %d questions open, and that is said to be %v", j, len(j.open), found.Open)
	}
	if found.Open && j.putAt.IsZero() {
		j.putAt = w.now.Add(askWindow)
		w.spawn(&putter{j: j})
	}
	if w.tell() {
		w.say("%s goes on as %s", j, r)
	}
}

// answers are those that a client gives: to most questions, and to some that nobody
// has asked.
//
// One more than were asked: an answer to a question that is not there yet must not
// be kept for it.
func (t *visit) answers(w *world, j *journey) map[string]session.Terminal {
	n := 3
	if j != nil {
		n = j.asked
	}
	answers := make(map[string]session.Terminal)
	for i := range n + 1 {
		if w.calm || w.src.Intn(4) > 0 {
			answers[session.QuestionKey(i+1)] = session.Terminal{Result: &mcp.Result{}}
		}
	}
	return answers
}

func (w *world) parkedAs(at *replica, id string) *journey {
	for _, j := range w.journeys {
		if j.home == at && j.id == id && id != "" {
			return j
		}
	}
	return nil
}

// warden is the timer that ends what is parked for too long.
//
// It is held to the moment. A request that expires late is a Handler that runs for
// nobody, and one that expires early is a client that comes back in time and is
// told that it did not.
type warden struct{ at *replica }

func (t *warden) ready(w *world) bool {
	next := w.nextParked(t.at)
	return !next.IsZero() && !w.now.Before(next)
}

func (t *warden) run(w *world) bool {
	due, next := t.at.lot.Expire(w.now)
	w.leave(due, func(j *journey) bool { return j.home == t.at && !w.now.Before(j.until) })
	if want := w.nextParked(t.at); !next.Equal(want) {
		w.fail("I28", "the next parked request expires at %v, and that is said to be %v", want, next)
	}
	return true
}

// leave has the Handlers of requests stop that nobody will come back for: of all
// those that are chosen, and no others.
//
// They come in the order in which they expire. Where that is broken, the timer was
// set for one that is not the next, and the one that is waits longer than its time.
func (w *world) leave(due []*session.ParkedRequest[journey, request], chosen func(*journey) bool) {
	n := 0
	for _, j := range w.journeys {
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
		w.dropParked(j, errDeadline)
	}
}

// closeLot drops all requests that are parked in a replica. No other is parked there
// after that.
func (w *world) closeLot(at *replica) {
	w.leave(at.lot.Close(), func(j *journey) bool { return j.home == at })
	at.lotClosed = true
}
