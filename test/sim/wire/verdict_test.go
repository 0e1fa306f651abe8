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

// judge compares what each client has received with what the backend has done.
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
		r.judgeRestLocked()
	}
}

// judgeTerminalLocked checks that every request gets exactly one terminal, or its transport
// breaks visibly. A second terminal is detected on arrival.
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

// mayBeSilentLocked reports whether a request may have no answer: the connection never
// existed, or has broken; or the gateway closed it while shutting down, when it appeared
// idle. A client that deletes its session has withdrawn the request.
func (r *record) mayBeSilentLocked() bool {
	if r.session != "" && r.w.deleted[r.session] {
		return true
	}
	if r.resumable && r.excused == "" {
		return false // it had enough time to resume
	}
	return r.brokenOff || r.hung || r.excused != "" || !r.conn.Load().isUsable() ||
		r.silent && r.sentTo(wasShut) && !r.ranLocked()
}

// breakOff judges an incomplete answer. A gateway
// forwards a large result while it arrives: if the backend's connection breaks, so does the
// client's, but only after the beginning of the result.
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

// mayHaveBrokenOff is breakOff for our client, which reports it as an error.
func (r *record) mayHaveBrokenOff() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	over := r.attempts[len(r.attempts)-1].over
	if strings.HasPrefix(r.said, `backend "g": the connection broke during its answer`) && over.carrierOf(r.mark).isUsable() {
		r.breakOffLocked()
	}
}

// breakOffLocked checks that an answer was cut off because the backend's connection broke,
// or because the request was ended legitimately: by its client with the session, or by a
// gateway at the end of its shutdown.
func (r *record) breakOffLocked() {
	late := r.attempts[len(r.attempts)-1].to.late
	isLate := !r.sent.After(late) && !time.Now().Before(late)
	if !r.isLostBehindLocked() && !isLate && !r.stoppable {
		r.wrongLocked("its answer broke off, and the connection to the backend did not")
	}
	r.brokenOff = true
	r.w.tally.brokenOff++
}

// judgeOutcomeLocked checks that the outcome of a terminal is true, and that an error has
// one.
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
	case r.ended == "error" && r.code == mcp.CodeInvalidParams && !r.doubled && !r.strayed && !r.sentTo(isAnother) && r.w.backend.life == 1 && !r.sentTo(lostBackend):
		r.wrongLocked("the state that it was given was not taken back: %s", r.said)
	case r.ended == "error" && r.outcome == "" && r.cancelled.IsZero() && (r.code > 0 || r.code == mcp.CodeInternalError):
		// The outcome of a backend's own error with another code is not judged.
		r.wrongLocked("its error does not say whether it was executed: %s", r.said)
	}
}

// judgeEndLocked checks that a cancellation arrives, by notification or by closing a modern
// stream, and that nothing else stops the work of a legacy client. If the connection to the
// backend was broken that is unknown.
func (r *record) judgeEndLocked() {
	j := r.w.jobs[r.mark]
	if j == nil || r.sentTo(lostBackend) || r.sentTo(hasCrashed) {
		return
	}
	if r.w.whole && (j.ended.Sub(j.began) >= 59*time.Second || strings.Contains(r.said, "limits.callIdle")) {
		return // it may have begun late over a slow connection
	}
	soon := 5 * time.Second
	if strings.ContainsAny(r.script, "ai") {
		soon += inputWait // a client that was asked and disconnects may still retry
	}
	// A legacy notification may overtake its request, and on a pipe there are only
	// notifications.
	heard := r.era == mcp.EraModern && !r.sentTo(lostPipe) || !r.sentTo(lostClients) && !r.sentTo(wasShut) && j.began.Before(r.cancelled)
	if !r.cancelled.IsZero() && heard && j.ended.Sub(r.cancelled) > soon {
		r.wrongLocked("its work went on for %v after it was cancelled", j.ended.Sub(r.cancelled))
	}
	if !r.deleted.IsZero() && j.began.Before(r.deleted) && j.ended.Sub(r.deleted) > soon {
		r.wrongLocked("its work went on for %v after its session was deleted", j.ended.Sub(r.deleted))
	}
	if r.ended != "result" && strings.Contains(j.stopped, "did not retry") {
		return // the answer was lost or never sent
	}
	if r.era == mcp.EraLegacy && j.stopped != "" && r.cancelled.IsZero() && !r.stoppable && !r.sentTo(lostPipe) && !r.sentTo(wasShut) && r.w.backend.life == 1 {
		r.wrongLocked("its work was stopped, and nobody had asked for that: %s", j.stopped)
	}
}

// sure is how long an answer takes at most over a faulty network: it is sent several times,
// and each may time out.
const sure = 90 * time.Second

// judgeAnswersLocked checks that a client's answer reaches the asker, even if it must be
// sent again (I37), as long as the request exists.
func (r *record) judgeAnswersLocked() {
	j := r.w.jobs[r.mark]
	if j == nil || r.ended != "result" || r.w.backend.life > 1 || r.sentTo(hasCrashed) || r.sentTo(wasShut) || r.sentTo(lostPipe) {
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
