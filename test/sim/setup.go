// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// Fault is a kind of thing that goes wrong.
type Fault uint8

// The faults.
const (
	Drop           Fault = iota // a message of a client never arrives
	Delay                       // one arrives after a later one
	Duplicate                   // one arrives twice
	Reset                       // a response breaks off, with what was under way on it
	HalfOpen                    // the client has gone, and the gateway writes on for a while
	Stall                       // a client reads nothing for longer than a write may take
	ClientCrash                 // a client is gone with all its connections
	BackendCrash                // a backend is gone with all its calls
	GatewayCrash                // the gateway is gone with all its sessions
	ClockJump                   // a long time passes at once
	LimitHit                    // something was refused because there were too many
	Cancel                      // a client or a deadline cancels a request
	LateResponse                // a backend answers a call that is over
	DoubleResponse              // a backend answers twice
	OtherStream                 // a backend answers on another stream than it was asked on
	StrangeID                   // a backend answers what nobody asked
	DeadAnswer                  // a client answers an ask that is over, or another session's
	Foreign                     // a principal names what is another's
	HostileCursor               // an event id that was never given out
	OldCursor                   // a client comes back with an older event id than its last
	Takeover                    // a second connection takes a stream over
	Astray                      // a message arrives at another replica than that of its session
	DuplicateID                 // a request has the id of one that runs
	Storm                       // a backend sends more than anybody can take
	Poll                        // the gateway ends a response, for the client to come back
	Drain                       // the gateway lets nobody come back to a parked request any more
	FaultKinds                  // how many there are
)

// String names the fault.
func (f Fault) String() string {
	names := [FaultKinds]string{
		"drop", "delay", "duplicate", "reset", "half-open", "stall", "client crash", "backend crash", "gateway crash",
		"clock jump", "limit hit", "cancel", "late response", "double response", "response on another stream",
		"response to nothing", "answer to a dead ask", "foreign principal", "hostile cursor", "old cursor", "takeover",
		"message at another replica", "duplicate id", "storm", "poll", "drain",
	}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}

// setup is what a run is made of. Each run allows some faults only: where
// everything happens all the time, nothing gets far (Groce et al., "Swarm
// Testing", 2012).
type setup struct {
	faults   uint32 // bit set
	large    bool   // messages of tens of kilobytes
	limits   session.Limits
	sessions session.TableLimits
	parking  session.ParkedLimits
	pending  session.PendingLimits
	calls    bool  // requests go to backends
	pool     int64 // bytes that all sessions keep for clients
	lossy    bool  // connections break more often, and clients come back
	churn    bool  // clients do little else than begin and end sessions
	crowded  bool  // there are more sessions than there is room for
	replicas int   // of the gateway
	purges   bool  // what is kept for clients may be given up for want of room
}

func (s *setup) allows(f Fault) bool { return s.faults>>f&1 != 0 }

// setUp draws the world that the run is about.
func (w *world) setUp() {
	w.src.Limit(50 + w.src.Intn(200) + w.src.Intn(2)*w.src.Intn(400))
	s := &w.set
	mask := uint32(w.src.Intn(1 << FaultKinds))
	mask |= uint32(w.src.Intn(1 << FaultKinds)) // three of four
	if w.src.OneIn(10) {
		mask = 0
	}
	s.faults = mask
	s.large = w.src.OneIn(8)
	s.calls = w.src.Intn(3) > 0
	s.lossy, s.crowded = w.src.OneIn(3), w.src.OneIn(4)
	s.churn = w.src.OneIn(16)
	s.crowded = s.crowded || s.churn
	s.limits = w.drawLimits()
	s.sessions = w.drawTable()
	s.parking = session.ParkedLimits{
		Total: 1 + w.src.Intn(4), PerPrincipal: 1 + w.src.Intn(2), Rounds: 1 + w.src.Intn(4), Asks: 1 + w.src.Intn(3),
		Wait: time.Duration(1+w.src.Intn(10)) * time.Minute,
	}
	s.pending = session.PendingLimits{Total: noPool, PerPrincipal: noPool, Grain: 1}
	if !s.large && w.src.OneIn(3) { // where messages are large, a full account bounds streams
		s.pending.PerPrincipal = int64(100 + w.src.Intn(500))
		s.pending.Total = s.pending.PerPrincipal + int64(w.src.Intn(1000))
	}
	s.pool = noPool
	if s.purges && w.src.OneIn(2) {
		s.pool = int64(500 + w.src.Intn(4000))
	}
	s.replicas = 1 + w.src.Intn(2)
	w.boot()
	clients := 1 + w.src.Intn(3)
	if s.crowded {
		clients += w.src.Intn(3)
	}
	if s.churn {
		clients = 5
	}
	for i := range clients {
		resumes := w.src.Intn(4)
		if s.lossy {
			resumes = 1
		}
		c := newClient(i, w.src.Intn(4), resumes)
		if s.churn {
			c = newClient(i, 0, resumes)
			c.address = fmt.Sprintf("10.0.1.%d", i)
		}
		w.clients = append(w.clients, c)
	}
	for _, c := range w.clients {
		if !c.modern {
			c.opens(w)
		}
	}
	for i := range 1 + w.src.Intn(2) {
		w.backends = append(w.backends, newBackend(i, w.src.OneIn(2)))
	}
}

// noPool is more than all sessions together ever keep.
const noPool = 1 << 40

// boot starts the gateway, which knows of nobody.
func (w *world) boot() {
	w.rules = &session.Rules{Limits: w.set.limits, Counts: &w.counts, Logs: session.NewLogPool(w.set.pool), Pending: session.NewPending(w.set.pending)}
	w.replicas = nil
	for no := range w.set.replicas {
		w.replicas = append(w.replicas, w.newReplica(no))
	}
	w.shed = new(shedder)
	w.spawn(w.shed)
}

func (w *world) drawLimits() session.Limits {
	l := session.Limits{
		Messages:  1 + w.src.Intn(8),
		Bytes:     20 + w.src.Intn(400),
		Exchanges: 1 + w.src.Intn(5),
		Asks:      1 + w.src.Intn(4),
		Streams:   1 + w.src.Intn(3),
		Progress:  w.drawPace(),
		Logs:      w.drawPace(),
	}
	l.LogBytes, l.LogKeep = 1<<30, time.Duration(1+w.src.Intn(10))*time.Minute
	if w.set.purges = w.src.Intn(3) == 2; w.set.purges {
		l.LogBytes = 100 + w.src.Intn(4000)
	}
	if w.set.large {
		l.Bytes, l.Messages = 200<<10, 64
	}
	return l
}

// drawPace draws none in half of all runs.
func (w *world) drawPace() session.RateLimit {
	if w.src.Intn(2) == 0 {
		return session.RateLimit{}
	}
	return session.RateLimit{Burst: 1 + w.src.Intn(3), Every: time.Duration(1+w.src.Intn(4)) * 250 * time.Millisecond}
}

func (w *world) drawTable() session.TableLimits {
	l := session.TableLimits{
		Total:        1 + w.src.Intn(5),
		PerPrincipal: 1 + w.src.Intn(3),
		Idle:         time.Duration(1+w.src.Intn(10)) * time.Minute,
		Fresh:        30 * time.Second,
		Rest:         time.Duration(1+w.src.Intn(30)) * time.Second,
		FreshRest:    time.Duration(1+w.src.Intn(10)) * time.Second,
	}
	if w.set.crowded {
		l.Total, l.Rest, l.FreshRest = 1+w.src.Intn(3)+w.src.Intn(2)*w.src.Intn(4), time.Second, time.Second
	}
	return l
}
