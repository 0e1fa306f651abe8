// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// world is one run: its state and the model of that state. It belongs to one goroutine.
type world struct {
	src    *choice.Source
	set    setup
	now    time.Time
	rules  *session.Rules
	counts session.Counters

	replicas  []*replica
	parkables []*parkable
	sessions  []*sess
	clients   []*client
	backends  []*backend
	threads   []thread        // the gateway's goroutines
	inTransit []clientMessage // messages of clients on their way to the gateway
	streams   []*stream
	marks     []origin
	requests  []*request
	calls     []*outCall
	trimmer   *poolTrimmer
	stopped   []*request // requests that were stopped since the last check

	strays                uint64 // answers to unknown asks, which package session counts
	quiescing             bool   // no more faults: everything must come to an end
	violation             *violation
	parkableCount, parkID int
	parkings, claims      uint64
	asked, withdrawn      uint64
	evictions             uint64
	resumes               uint64      // streams that a client resumed
	minLosses             losses      // that must be counted
	replays               uint64      // messages that were replayed to clients
	gones                 uint64      // streams that were no longer retained when a client resumed
	lines                 *transcript // nil if the run is not traced
	stats                 *Stats
	fixtures              *fixtures
	nextSess              int
	heartbeat             *atomic.Uint64         // see runner
	sabotage              func(*world)           // see runner
	before                struct{ requests int } // totals before the gateway crashed
}

// losses are counters of lost messages.
type losses struct{ dropped, merged, undelivered uint64 }

// thread is a goroutine of the gateway. It runs from one wait to the next.
type thread interface {
	// ready reports whether the thread can continue.
	ready(w *world) bool
	// run continues the thread to its next wait. It reports false when the thread has
	// ended.
	run(w *world) bool
}

// violation is a broken rule.
type violation struct {
	rule, text string
	step       int
}

// epoch is the time at which every run begins.
func epoch() time.Time { return time.Unix(1_800_000_000, 0) }

// fail records a broken rule. Only the first one counts: later ones may be consequences of
// it.
func (w *world) fail(rule, format string, args ...any) {
	if w.violation != nil {
		return
	}
	w.violation = &violation{rule: rule, text: fmt.Sprintf(format, args...), step: w.src.Steps()}
	w.logf("%s is broken: %s", rule, w.violation.text)
}

// logf adds a line to the transcript.
func (w *world) logf(format string, args ...any) {
	if w.lines == nil {
		return
	}
	at := w.now.Sub(epoch()).Round(time.Millisecond)
	w.lines.add(fmt.Sprintf("%4d %10s  ", w.src.Steps(), at) + fmt.Sprintf(format, args...))
}

// tracing reports whether there is a transcript; if not, its lines need not be formatted.
func (w *world) tracing() bool { return w.lines != nil }

// fault counts a fault that was injected.
func (w *world) fault(f Fault) { w.stats.Faults[f]++ }

// spawn starts a thread.
func (w *world) spawn(t thread) { w.threads = append(w.threads, t) }

// step performs one random action, or an action of a client if that has nothing to do.
//
// Half of all steps run a thread, so that most work progresses. Without new requests a
// schedule runs dry, so a step that has nothing to do is given to the clients.
func (w *world) step() {
	acted := false
	switch n := w.src.Intn(100); {
	case n < 50:
		acted = w.runOne()
	case n < 60:
		acted = w.deliverOne()
	case n < 65 && w.set.lossy:
		acted = w.loseConnection()
	case n < 72 && w.parksSoon():
		// Questions are batched for a moment only. If the clock moved by it as rarely as by
		// any other span, hardly a request would be parked twice in a run.
		w.advance(askWindow)
		acted = true
	case n < 74:
	case n < 86:
		acted = w.backendAct()
	case n < 91:
		acted = w.appendStandalone()
	case n < 94:
		acted = true
		w.timePasses()
	default:
		acted = w.injectFault()
	}
	if !acted {
		w.clientAct()
	}
}

// runOne runs a thread that is ready, if there is one.
func (w *world) runOne() bool {
	n := len(w.threads)
	if n == 0 {
		return false
	}
	from := w.src.Intn(n)
	for i := range n {
		at := (from + i) % n
		if t := w.threads[at]; t.ready(w) {
			w.runAt(at, t)
			return true
		}
	}
	return false
}

func (w *world) runAt(at int, t thread) {
	if t.run(w) {
		return
	}
	// Threads started meanwhile are at the end.
	w.threads = append(w.threads[:at], w.threads[at+1:]...)
}

// timePasses advances the clock, by a little or a lot.
//
// It often advances exactly to the next timer: most races of timers happen at the moment
// they fire.
func (w *world) timePasses() {
	spans := [...]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, time.Hour}
	n := w.src.Intn(len(spans) + 2)
	if n >= len(spans) {
		w.advance(w.untilNextTimer())
		return
	}
	if n >= 4 {
		if !w.set.allows(ClockJump) {
			n = 2
		} else {
			w.fault(ClockJump)
		}
	}
	w.advance(spans[n])
}

func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(max(d, 0))
	if w.tracing() {
		w.logf("%s pass", d)
	}
}
