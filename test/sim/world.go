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

// world is one run: everything that is in it, and what is known to be true of it.
// It belongs to one goroutine.
type world struct {
	src    *choice.Source
	set    setup
	now    time.Time
	rules  *session.Rules
	counts session.Counters

	replicas []*replica
	journeys []*journey
	sessions []*sess
	clients  []*client
	backends []*backend
	threads  []thread // the gateway's goroutines, as what they are waiting for
	travels  []travel // messages of clients, on their way to the gateway
	streams  []*stream
	marks    []origin
	requests []*request
	calls    []*ocall
	shed     *shedder
	stopped  []*request // whose contexts ended, since that was looked at last

	strays            uint64 // answers to nothing, which the machines count
	calm              bool   // no faults any more: all is to come to its end
	broken            *breach
	journeyed, parkID int
	parkings, claims  uint64
	asked, withdrawn  uint64
	evictions         uint64
	resumes           uint64      // carriers that went on where another ended
	least             losses      // that must be counted
	replays           uint64      // messages that clients came back for
	gones             uint64      // clients that came too late for that
	lines             *transcript // nil where nobody reads it
	stats             *Stats
	props             *props
	nextSess          int
	beat              *atomic.Uint64         // see runner
	sabotage          func(*world)           // see runner
	before            struct{ requests int } // what there was before the gateway crashed
}

// losses are what the machines count for the operator.
type losses struct{ dropped, merged, undelivered uint64 }

// thread is a goroutine of the gateway. It is run from one thing that it may wait
// for to the next.
type thread interface {
	// ready reports whether what the thread waits for is there.
	ready(w *world) bool
	// run takes the thread to its next wait. It reports whether the thread goes on.
	run(w *world) bool
}

// breach is a rule that was found broken.
type breach struct {
	rule, text string
	step       int
}

// epoch is when every run begins.
func epoch() time.Time { return time.Unix(1_800_000_000, 0) }

// fail notes that a rule is broken. The first one counts: what follows may be a
// consequence of it.
func (w *world) fail(rule, format string, args ...any) {
	if w.broken != nil {
		return
	}
	w.broken = &breach{rule: rule, text: fmt.Sprintf(format, args...), step: w.src.Steps()}
	w.say("%s is broken: %s", rule, w.broken.text)
}

// say adds a line to the transcript.
func (w *world) say(format string, args ...any) {
	if w.lines == nil {
		return
	}
	at := w.now.Sub(epoch()).Round(time.Millisecond)
	w.lines.add(fmt.Sprintf("%4d %10s  ", w.src.Steps(), at) + fmt.Sprintf(format, args...))
}

// tell reports whether there is a transcript: what it says need not be made else.
func (w *world) tell() bool { return w.lines != nil }

// fault counts a fault that was injected.
func (w *world) fault(f Fault) { w.stats.Faults[f]++ }

// spawn starts a thread.
func (w *world) spawn(t thread) { w.threads = append(w.threads, t) }

// step is one choice of who acts next: a client, where the one that was chosen has
// nothing to do.
//
// Half of all steps run what waits, so that most things go on. The rest is what
// goes on around them. A share that falls to somebody who has nothing to do goes to
// the clients, because without new requests a schedule runs dry.
func (w *world) step() {
	acted := false
	switch n := w.src.Intn(100); {
	case n < 50:
		acted = w.runOne()
	case n < 60:
		acted = w.arriveOne()
	case n < 65 && w.set.lossy:
		acted = w.loses()
	case n < 72 && w.soonPuts():
		// A question waits for others for a moment only. Were that as rare as any other
		// time, hardly a request would be parked twice before the run is over.
		w.advance(askWindow)
		acted = true
	case n < 74:
	case n < 86:
		acted = w.backendActs()
	case n < 91:
		acted = w.standaloneSays()
	case n < 94:
		acted = true
		w.timePasses()
	default:
		acted = w.disturb()
	}
	if !acted {
		w.clientActs()
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
	// Threads that were started meanwhile stand behind.
	w.threads = append(w.threads[:at], w.threads[at+1:]...)
}

// timePasses moves the clock, by a little or far.
//
// To the next timer as often as by a long way: most races of timers are at the very
// moment in which they go off.
func (w *world) timePasses() {
	spans := [...]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, time.Hour}
	n := w.src.Intn(len(spans) + 2)
	if n >= len(spans) {
		w.advance(w.untilDue())
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
	if w.tell() {
		w.say("%s pass", d)
	}
}
