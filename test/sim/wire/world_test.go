// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// world is everything that takes part in one schedule. It runs in one bubble.
type world struct {
	choose *choice.Source
	watch  *canary.Watch // for the tokens of clients
	start  time.Time
	ctx    context.Context // of the bubble, shared by all clients
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of the clients

	gateways []*gateway // one, or two replicas
	backend  *backend
	users    []user
	whole    bool   // the gateway is the whole product, not just a server over a client
	tool     string // as clients call it
	guarded  bool   // the gateway authenticates its clients
	idle     idleness

	tally tally
	last  [topics][][]streamState // the streams of each user at the last change of a topic

	mu       sync.Mutex
	records  []*record
	jobs     map[string]*job      // the work of the backend, by mark
	answered map[string]time.Time // when questions were answered
	homes    map[string]*gateway  // where each session was opened
	deleted  map[string]bool      // sessions for which a DELETE was sent
	breach   []string
	trace    []string
}

// user is a client of one kind.
type user interface {
	// act starts an action, and returns before it is done.
	act(s *choice.Source)
	// settle makes everything that was cut off end, after the last fault.
	settle()
	// probe makes one more call, which must succeed.
	probe() *record
	// heard returns the states of its streams of changes, in a fixed order.
	heard() []streamState
	// watch subscribes the user to the tools and the first resource, and returns a function
	// that reports the state.
	watch() func() streamState
	// close releases everything.
	close()
}

// tally counts what happened in many schedules.
type tally struct {
	schedules, steps, requests       int
	results, errors, refused, silent int
	brokenOff                        int
	harms                            [faults]int
	deeds                            map[string]int
}

func (t *tally) add(other *tally) {
	t.schedules += other.schedules
	t.steps += other.steps
	t.requests += other.requests
	t.results += other.results
	t.errors += other.errors
	t.refused += other.refused
	t.silent += other.silent
	t.brokenOff += other.brokenOff
	for i, n := range other.harms {
		t.harms[i] += n
	}
	for k, n := range other.deeds {
		if t.deeds == nil {
			t.deeds = make(map[string]int)
		}
		t.deeds[k] += n
	}
}

// note writes a line of the transcript.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *world) noteLocked(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%10s  ", time.Since(w.start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrongLocked(format, args...)
}

func (w *world) wrongLocked(format string, args ...any) {
	w.breach = append(w.breach, fmt.Sprintf(format, args...))
	w.noteLocked("BREACH: "+format, args...)
}

func (w *world) count(h fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.harms[h]++
}

func (w *world) countAction(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tally.deeds == nil {
		w.tally.deeds = make(map[string]int)
	}
	w.tally.deeds[what]++
}

// newRecord makes the record of a request that is about to be sent.
func (w *world) newRecord(r *record) *record {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.w, r.sent = w, time.Now()
	w.records = append(w.records, r)
	return r
}

// each calls f with the requests of a client that have not ended. f must not block or call
// other clients.
func (w *world) each(client string, f func(*record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.client == client && r.ended == "" {
			f(r)
		}
	}
}

// withdraws records that the client of a session sends a DELETE for it.
func (w *world) withdraws(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleted[session] = true
}

// hasEnded records when the server ended a session.
func (w *world) hasEnded(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.session == session {
			r.deleted = time.Now()
		}
	}
}

// openRecords returns the requests of a client that have not ended, oldest first.
func (w *world) openRecords(client string) []*record {
	var open []*record
	w.each(client, func(r *record) {
		if r.excused == "" {
			open = append(open, r)
		}
	})
	return open
}

// job is the work of a backend for one mark.
type job struct {
	runs    int // first attempts
	rounds  int // attempts with input
	running int
	began   time.Time            // the first of them
	ended   time.Time            // the last of them
	stopped string               // why its context ended
	life    int                  // of the backend
	lacked  map[string]time.Time // unanswered questions, and when that was known
}

// lacks records that a question of work in progress has no answer.
func (j *job) lacks(w *world, question string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.lacked == nil {
		j.lacked = make(map[string]time.Time)
	}
	j.lacked[question] = time.Now()
}

// answers records that the client has answered a question.
func (w *world) answers(question string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, before := w.answered[question]; !before {
		w.answered[question] = time.Now()
	}
}

// begin records that the backend executes a request.
func (w *world) begin(mark string, later bool, life int) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.jobs[mark]
	if j == nil {
		j = &job{began: time.Now()}
		w.jobs[mark] = j
	}
	j.life = life
	j.running++
	if later {
		j.rounds++
		return j
	}
	if j.runs++; j.runs > 1 {
		w.wrongLocked("%s was executed %d times", mark, j.runs)
	}
	return j
}

func (w *world) end(j *job, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.running--
	j.ended = time.Now()
	if cause != nil {
		j.stopped = cause.Error()
	}
}
