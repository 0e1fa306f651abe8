// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// judge holds what each client has seen against what the backend has done.
func (w *world) judge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for mark, j := range w.jobs {
		if j.running != 0 {
			w.wrongLocked("%s: %d executions have not ended", mark, j.running)
		}
		if strings.Contains(mark, foreignMark) {
			w.wrongLocked("%s: was executed, in a session that is not there", mark)
		}
	}
	for _, r := range w.records {
		w.tally.requests++
		r.judgeTerminalLocked()
		r.judgeOutcomeLocked()
		r.judgeLossLocked()
		r.judgeEndLocked()
		r.judgeAnswersLocked()
	}
}

// judgeTerminalLocked: every request gets exactly one terminal, or its transport
// breaks visibly. That there are not two is checked as they come.
func (r *record) judgeTerminalLocked() {
	switch r.ended {
	case "result":
		r.w.tally.results++
	case "error":
		r.w.tally.errors++
	case "refused":
		r.w.tally.refused++
	default:
		r.w.tally.silent++
		if !r.mayBeSilentLocked() {
			r.wrongLocked("got no answer on a connection that stayed up")
		}
	}
}

// mayBeSilentLocked: the connection was never there, or does not hold; or the gateway
// closed it, between two requests as far as it could know, when it ended. A client that
// deletes its session has withdrawn the request.
func (r *record) mayBeSilentLocked() bool {
	if r.session != "" && r.w.deleted[r.session] {
		return true
	}
	if r.resumable && r.excused == "" {
		return false // it had all the time to come back
	}
	return r.brokenOff || r.hung || r.excused != "" || !r.conn.Load().holds() ||
		r.silent && r.cameTo(wasShut) && !r.ranLocked()
}

// breakOff judges an answer whose connection ended before it was whole. A gateway passes
// on a large result while it arrives: where that breaks off the client's connection does,
// and not before there is something of the result.
func (r *record) breakOff(part []byte) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	begins := `{"jsonrpc":"2.0","id":` + r.id + `,"result":{`
	switch {
	case r.mayBeSilentLocked():
	case json.Valid(part):
		r.wrongLocked("its connection broke behind an answer that looks whole: %s", short(part))
	case !bytes.HasPrefix(part, []byte(begins)) || !bytes.Contains(part, []byte(`"`+r.mark+"/done")):
		r.wrongLocked("its answer broke off before its result had begun: %s", short(part))
	default:
		r.breakOffLocked()
	}
}

// mayHaveBrokenOff is breakOff for our own client, which says so in words.
func (r *record) mayHaveBrokenOff() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	over := r.visits[len(r.visits)-1].over
	if strings.HasPrefix(r.said, `backend "g": the connection broke during its answer`) && over.carrierOf(r.mark).holds() {
		r.breakOffLocked()
	}
}

// breakOffLocked wants an answer to have broken off because the backend's connection did,
// or because somebody ended the request who may: its client with the session, or the
// gateway that shuts down and has no more time.
func (r *record) breakOffLocked() {
	late := r.visits[len(r.visits)-1].to.late
	isLate := !r.sent.After(late) && !time.Now().Before(late)
	if !r.isLostBehindLocked() && !isLate && !r.stoppable {
		r.wrongLocked("its answer broke off, and the connection to the backend did not")
	}
	r.brokenOff = true
	r.w.tally.brokenOff++
}

// judgeOutcomeLocked: what a terminal says of the execution is true, and an error
// says something.
func (r *record) judgeOutcomeLocked() {
	j := r.w.jobs[r.mark]
	if j == nil {
		j = &job{}
	}
	switch {
	case r.ended == "result" && j.runs == 0:
		r.wrongLocked("has a result and was never executed")
	case r.ended == "refused" && r.rounds == 0 && j.runs > 0:
		r.wrongLocked("was refused and executed: %s", r.said)
	case r.outcome == string(mcp.NotDispatched) && r.rounds == 0 && j.runs > 0:
		r.wrongLocked("was executed, and the error says that it was not: %s", r.said)
	case r.ended == "result" && r.strayed:
		r.wrongLocked("is parked at one replica, and has its result from the other")
	case r.ended == "error" && r.code == mcp.CodeInvalidParams && !r.doubled && !r.strayed && !r.cameTo(isAnother) && r.w.backend.life == 1 && !r.cameTo(lostBackend):
		r.wrongLocked("the state that it was given was not taken back: %s", r.said)
	case r.ended == "error" && r.outcome == "" && r.cancelled.IsZero() && (r.code > 0 || r.code == mcp.CodeInternalError):
		// What a backend says of its own mistakes is its word, with any other code.
		r.wrongLocked("its error does not say whether it was executed: %s", r.said)
	}
}

// judgeEndLocked: who cancels is heard, be it by a word or by closing a modern
// stream, and nothing else stops the work of a legacy client. Where the way to the backend was
// broken nobody can know.
func (r *record) judgeEndLocked() {
	j := r.w.jobs[r.mark]
	if j == nil || r.cameTo(lostBackend) || r.cameTo(hasCrashed) {
		return
	}
	if r.w.whole && (j.ended.Sub(j.began) >= 59*time.Second || strings.Contains(r.said, "limits.callIdle")) {
		return // it may have begun late, where the way to the backend was slow
	}
	soon := 5 * time.Second
	if strings.ContainsAny(r.script, "ai") {
		soon += inputWait // whoever was asked and goes away may still come back
	}
	// A legacy notice may overtake the request that it is about, and on a pipe there is
	// nothing but notices.
	heard := r.era == mcp.EraModern && !r.cameTo(lostPipe) || !r.cameTo(lostClients) && !r.cameTo(wasShut) && j.began.Before(r.cancelled)
	if !r.cancelled.IsZero() && heard && j.ended.Sub(r.cancelled) > soon {
		r.wrongLocked("its work went on for %v after it was cancelled", j.ended.Sub(r.cancelled))
	}
	if !r.deleted.IsZero() && j.began.Before(r.deleted) && j.ended.Sub(r.deleted) > soon {
		r.wrongLocked("its work went on for %v after its session was deleted", j.ended.Sub(r.deleted))
	}
	if r.ended != "result" && strings.Contains(j.stopped, "did not retry") {
		return // the answer was lost, or there was none
	}
	if r.era == mcp.EraLegacy && j.stopped != "" && r.cancelled.IsZero() && !r.stoppable && !r.cameTo(lostPipe) && !r.cameTo(wasShut) && r.w.backend.life == 1 {
		r.wrongLocked("its work was stopped, and nobody had asked for that: %s", j.stopped)
	}
}

// sure is how long an answer takes at most whose way breaks now and then: it is sent
// several times, and each may be waited for.
const sure = 90 * time.Second

// judgeAnswersLocked: what a client has answered reaches whoever has asked, be it that
// it has to be sent again (I37), as long as nobody has forgotten the request.
func (r *record) judgeAnswersLocked() {
	j := r.w.jobs[r.mark]
	if j == nil || r.ended != "result" || r.w.backend.life > 1 || r.cameTo(hasCrashed) || r.cameTo(wasShut) || r.cameTo(lostPipe) {
		return
	}
	for question, at := range j.lacked {
		answered, ok := r.w.answered[question]
		if ok && at.Sub(answered) > sure && r.over.After(at) {
			r.wrongLocked("the answer to %s did not arrive", question)
		}
	}
}

// ranLocked reports whether the last attempt of the request was executed.
func (r *record) ranLocked() bool {
	j := r.w.jobs[r.mark]
	return j != nil && (r.rounds == 0 || j.rounds >= r.rounds)
}
