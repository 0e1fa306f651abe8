// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// Fault is a kind of fault that a run can inject.
type Fault uint8

// The faults.
const (
	Drop           Fault = iota // a client's message never arrives
	Delay                       // a message arrives after a later one
	Duplicate                   // a message arrives twice
	Reset                       // a response breaks, with what was in transit on it
	HalfOpen                    // the client has disconnected, and the gateway writes on for a while
	Stall                       // a client does not read for longer than the write timeout
	ClientCrash                 // a client is gone with all its connections
	BackendCrash                // a backend is gone with all its calls
	GatewayCrash                // the gateway is gone with all its sessions
	ClockJump                   // the clock advances by a long time
	LimitHit                    // a limit refused a request
	Cancel                      // a client or a deadline cancels a request
	LateResponse                // a backend answers a call that has ended
	DoubleResponse              // a backend answers twice
	OtherStream                 // a backend answers on another stream than that of the call
	StrangeID                   // a backend answers an unknown id
	DeadAnswer                  // a client answers an ask that has ended, or another session's
	Foreign                     // a principal names a session or request of another
	HostileCursor               // an event id that was never issued
	OldCursor                   // a client resumes with an older event id than its last
	Takeover                    // a second connection takes over a stream
	Astray                      // a message arrives at another replica than that of its session
	DuplicateID                 // a request has the id of one in flight
	Storm                       // a backend sends more than can be queued
	Poll                        // the gateway ends a response, for the client to reconnect
	Drain                       // the gateway closes its parked requests
	FaultKinds                  // the number of faults
)

// String returns the name of the fault.
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

// setup holds the parameters of a run. Each run allows a random subset of faults: if
// everything happens all the time, nothing gets far (Groce et al., "Swarm Testing", 2012).
type setup struct {
	faults   uint32 // bit set
	large    bool   // messages of tens of kilobytes
	limits   session.Limits
	sessions session.TableLimits
	parking  session.ParkedLimits
	pending  session.PendingLimits
	calls    bool  // requests are forwarded to backends
	pool     int64 // LogPool limit in bytes
	lossy    bool  // connections break more often, and clients reconnect
	churn    bool  // clients do little else than begin and end sessions
	crowded  bool  // there are more sessions than fit
	replicas int   // of the gateway
	purges   bool  // retained messages may be dropped early
}

func (s *setup) allows(f Fault) bool { return s.faults>>f&1 != 0 }

// setUp draws the parameters of the run and creates its world.
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
	s.pending = session.PendingLimits{Total: unlimited, PerPrincipal: unlimited, Grain: 1}
	if !s.large && w.src.OneIn(3) { // with large messages, a full account limits streams
		s.pending.PerPrincipal = int64(100 + w.src.Intn(500))
		s.pending.Total = s.pending.PerPrincipal + int64(w.src.Intn(1000))
	}
	s.pool = unlimited
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
			c.openSession(w)
		}
	}
	for i := range 1 + w.src.Intn(2) {
		w.backends = append(w.backends, newBackend(i, w.src.OneIn(2)))
	}
}

// unlimited is more than all sessions together ever retain.
const unlimited = 1 << 40

// boot starts the gateway without any state.
func (w *world) boot() {
	w.rules = &session.Rules{Limits: w.set.limits, Counts: &w.counts, Logs: session.NewLogPool(w.set.pool), Pending: session.NewPending(w.set.pending)}
	w.replicas = nil
	for no := range w.set.replicas {
		w.replicas = append(w.replicas, w.newReplica(no))
	}
	w.trimmer = new(poolTrimmer)
	w.spawn(w.trimmer)
}

func (w *world) drawLimits() session.Limits {
	l := session.Limits{
		Messages:  1 + w.src.Intn(8),
		Bytes:     20 + w.src.Intn(400),
		Exchanges: 1 + w.src.Intn(5),
		Asks:      1 + w.src.Intn(4),
		Streams:   1 + w.src.Intn(3),
		Progress:  w.drawRateLimit(),
		Logs:      w.drawRateLimit(),
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

// drawRateLimit draws no limit in half of all runs.
func (w *world) drawRateLimit() session.RateLimit {
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
