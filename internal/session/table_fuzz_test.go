// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// FuzzTable performs any order of events on a table, two bytes for each, and compares it
// with a naive list.
func FuzzTable(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01\x01\x00\x00\x02\x05\x07\x00\x03"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x02\x00\x04\x05\x20\x00\x04"))
	f.Add([]byte("\x00\x03\x01\x00\x02\x00\x05\xff\x06\x00\x03\x00\x06\x00\x07\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, script []byte) {
		d := newTableDriver(t)
		for len(script) >= 2 {
			d.step(script[0], int(script[1]))
			d.check()
			script = script[2:]
		}
	})
}

// Long scripts from a fixed seed, so that each run of the tests has full tables.
func TestTableInAnyOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		d := newTableDriver(t)
		for range 500 {
			d.step(byte(rnd.IntN(256)), rnd.IntN(256))
			d.check()
		}
	}
}

const (
	driverTotal = 12
	driverEach  = 4
)

// tableDriver drives a table and records what must be in it.
type tableDriver struct {
	*registry
	now    time.Time
	serial int
	open   []*tracked
}

// tracked is a session as the test sees it.
type tracked struct {
	*session.Session
	who    string
	at     time.Time // of the last use
	tried  time.Time // when it may have been found busy
	isUsed bool
	busy   *session.Exchange
}

func newTableDriver(t *testing.T) *tableDriver {
	return &tableDriver{registry: newRegistry(t, driverTotal, driverEach), now: epoch}
}

func (d *tableDriver) step(op byte, n int) {
	switch op % 9 {
	case 0, 1, 2:
		d.addOne([]string{"ann", "bob", "@1", "@1", "@1", "@2", "eve"}[n%7])
	case 3:
		d.now = d.now.Add(time.Duration(n) * 100 * time.Millisecond)
	case 4:
		d.now = d.now.Add(time.Duration(n) * 10 * time.Second)
		d.sweep()
	case 5:
		d.with(n, func(s *tracked) { d.mustGet(s.ID, s.Principal, d.now); s.at, s.isUsed = d.now, true })
	case 6:
		d.with(n, d.begin)
	case 7:
		d.with(n, d.finish)
	case 8:
		d.with(n, func(s *tracked) { d.table.Remove(s.Session); s.End(mcp.Errorf(1, "end")); d.remove(s.ID) })
	}
}

func (d *tableDriver) with(n int, f func(*tracked)) {
	if len(d.open) > 0 {
		f(d.open[n%len(d.open)])
	}
}

func (d *tableDriver) begin(s *tracked) {
	if s.busy == nil {
		d.mustGet(s.ID, s.Principal, d.now)
		s.at, s.isUsed = d.now, true
		s.busy = begin(d.t, s.Session, 1)
	}
}

func (d *tableDriver) finish(s *tracked) {
	if s.busy != nil {
		s.busy.Finish(plain("end"))
		s.busy = nil
	}
}

func (d *tableDriver) remove(id string) *tracked {
	i := slices.IndexFunc(d.open, func(s *tracked) bool { return s.ID == id })
	if i < 0 {
		d.t.Fatalf("%s went, and was not there", id)
	}
	s := d.open[i]
	d.open = slices.Delete(d.open, i, i+1)
	return s
}

func (d *tableDriver) count(who string) int {
	n := 0
	for _, s := range d.open {
		if s.who == who {
			n++
		}
	}
	return n
}

// rests reports whether a session that was last used at a time may be evicted.
func (d *tableDriver) isEvictable(s *tracked, at time.Time) bool {
	idle := d.now.Sub(at)
	return s.busy == nil && (idle >= rest || !s.isUsed && idle >= freshRest)
}

// try records that busy sessions may have been tried.
func (d *tableDriver) markTried() {
	for _, s := range d.open {
		if s.busy != nil {
			s.tried = d.now
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (d *tableDriver) addOne(who string) {
	d.serial++
	id := fmt.Sprint(who, "-", d.serial)
	before, own := len(d.open), d.count(who)
	evicted, err := d.add(id, who, d.now)
	if evicted != "" {
		d.checkEvicted(d.remove(evicted), who, own)
	}
	mayAsk := func(s *tracked) bool { return s.who == who || own == 0 }
	switch bounded := who[0] != '@' && own >= driverEach; {
	case err == nil:
		d.open = append(d.open, &tracked{Session: d.made[id], who: who, at: d.now})
	case !bounded && before < driverTotal:
		d.t.Fatalf("%s was refused, and the table is not full", id)
	case bounded:
		mayAsk = func(s *tracked) bool { return s.who == who }
		fallthrough
	default:
		for _, s := range d.open {
			if d.isEvictable(s, later(s.at, s.tried)) && mayAsk(s) {
				d.t.Fatalf("%s was refused, and %s rests", id, s.ID)
			}
		}
	}
	d.markTried()
}

// judge checks that the right session was evicted.
func (d *tableDriver) checkEvicted(gone *tracked, forWhom string, own int) {
	isResting := d.isEvictable(gone, gone.at)
	hadMore := d.count(gone.who)+1 >= own+2
	switch {
	case gone.busy != nil:
		d.t.Fatalf("%s had to go and is in use", gone.ID)
	case gone.who == forWhom && !isResting:
		d.t.Fatalf("%s had to go for one of its own owner and does not rest", gone.ID)
	case gone.who != forWhom && !isResting && !hadMore:
		d.t.Fatalf("%s was evicted for %s, which has as many (%d)", gone.ID, forWhom, own)
	case gone.who != forWhom && own > 0 && !hadMore:
		d.t.Fatalf("%s was evicted for %s, which has sessions of its own", gone.ID, forWhom)
	}
}

func (d *tableDriver) sweep() {
	ended, next := d.table.Sweep(d.now)
	d.markTried()
	for _, s := range ended {
		gone := d.remove(s.ID)
		if gone.busy != nil || d.now.Sub(gone.at) < time.Minute {
			d.t.Fatalf("%s was swept after %v, busy: %t", s.ID, d.now.Sub(gone.at), gone.busy != nil)
		}
	}
	if next.IsZero() != (len(d.open) == 0) || !next.IsZero() && !next.After(d.now) {
		d.t.Fatalf("next sweep at %v with %d sessions, now %v", next, len(d.open), d.now)
	}
}

// check runs after each step.
func (d *tableDriver) check() {
	if got := d.table.Len(); got != len(d.open) || got > driverTotal {
		d.t.Fatalf("%d sessions, want %d and at most %d", got, len(d.open), driverTotal)
	}
	for _, who := range []string{"ann", "bob", "eve"} {
		if got := d.count(who); got > driverEach {
			d.t.Fatalf("%s has %d sessions", who, got)
		}
	}
	for _, s := range d.open {
		if s.IsIdle() != (s.busy == nil) {
			d.t.Fatalf("%s is idle: %t; want %t", s.ID, s.IsIdle(), s.busy == nil)
		}
	}
}

// Sessions taken out of a full table are gone, and returned in the order of last use.
func TestDrainOfAFullTable(t *testing.T) {
	r := newRegistry(t, 3, 3)
	r.mustAdd("b", "", epoch)
	r.used("c", "", epoch)
	r.mustAdd("a", "p", epoch)
	if got := ids(r.table.Drain()); got != "b a c" {
		t.Errorf("Drain = %q, want \"b a c\"", got)
	}
	for i := range 3 {
		s := session.New(fmt.Sprint(i), "p", &mcp.Peer{}, rules())
		if _, err := r.table.Add(s, epoch); err != nil {
			t.Errorf("Add = %v; want it accepted", err)
		}
	}
	if got := len(r.table.Drain()); got != 3 {
		t.Errorf("%d sessions, want 3", got)
	}
}
