// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// FuzzSession performs any order of events on a session, two bytes for each, and checks
// invariants after each step.
func FuzzSession(f *testing.F) {
	f.Add([]byte("\x00\x00\x01\x00\x02\x00\x03\x00\x04\x00")) // begin, attach, append, finish, take
	f.Add([]byte("\x00\x01\x05\x01\x06\x01\x04\x01\x07\x00\x03\x01"))
	f.Add([]byte("\x0a\x00\x0b\x00\x0c\x00\x0d\x00\x05\x00\x04\x00\x06\x00"))
	f.Add([]byte("\x00\x00\x00\x01\x01\x00\x01\x01\x08\x00\x09\x00"))
	f.Add([]byte("\x0c\x00\x01\x00\x0b\x00\x0b\x01\x02\x00\x0e\x00\x04\x00\x0d\x00")) // a change is requeued
	f.Fuzz(func(t *testing.T, script []byte) {
		d := newDriver(t)
		for len(script) >= 2 {
			d.step(script[0], int(script[1]))
			d.check()
			script = script[2:]
		}
		d.end()
	})
}

// driver drives one session and records what it did.
type driver struct {
	t          *testing.T
	rules      *session.Rules
	sess       *session.Session
	exchanges  []*driven
	standalone *driven
	asks       []*asked
	serial     int
	ended      bool
	ready      bool
}

// driven is a stream with the messages that were appended and taken.
type driven struct {
	id        mcp.ID
	x         *session.Exchange // nil for the standalone stream
	stream    *session.Stream
	consumers []*session.Consumer
	current   int // index of the consumer that was not revoked; -1: none
	got       []string
	plain     []string // messages that must be taken, in this order, as long as there is a consumer
	stopped   int
	finished  bool
	ended     bool
	lost      bool
}

type asked struct {
	ask *session.Ask
	on  *driven
}

func newDriver(t *testing.T) *driver {
	r := rules()
	d := &driver{t: t, rules: r, sess: newSession(r)}
	d.standalone = &driven{stream: d.sess.Standalone(), current: -1}
	return d
}

// pick chooses one of the streams.
func (d *driver) pick(n int) *driven {
	if i := n % (len(d.exchanges) + 1); i < len(d.exchanges) {
		return d.exchanges[i]
	}
	return d.standalone
}

func (d *driver) next(prefix string) string {
	d.serial++
	return fmt.Sprintf("%s%d", prefix, d.serial)
}

func (d *driver) step(op byte, arg int) {
	s := d.pick(arg)
	switch op % 15 {
	case 0:
		d.begin(arg)
	case 1:
		s.consumers = append(s.consumers, attach(s.stream))
		s.current = len(s.consumers) - 1
	case 2:
		d.append(s)
	case 3:
		d.finish(s)
	case 4:
		d.take(s, arg)
	case 5:
		d.ask(s)
	case 6:
		d.answer(arg)
	case 7:
		d.cancel(s)
	case 8:
		d.detach(s, arg)
	case 9:
		_, _ = s.stream.Append(msg(session.Progress, "t", d.next("progress ")))
	case 10:
		_, _ = s.stream.Append(msg(session.Log, "", d.next("log ")))
	case 11:
		_, _ = s.stream.Append(msg(session.Change, fmt.Sprint(arg%3), d.next("change ")))
	case 12:
		d.ready = d.sess.Initialized() || d.ready
	case 14:
		d.requeue(s, arg)
	case 13:
		if arg%16 == 0 { // rarely: little can be seen after it
			d.endSession()
		}
	}
}

func (d *driver) begin(arg int) {
	id := jsonrpc.NumberID(uint64(arg % 5))
	s := &driven{id: id, current: -1}
	x, err := d.sess.Begin(id, func(error) { s.stopped++ })
	inFlight, dup := 0, false
	for _, o := range d.exchanges {
		if !o.ended {
			inFlight++
			dup = dup || o.id == id
		}
	}
	want := error(nil)
	switch {
	case d.ended:
		want = session.ErrEnded
	case dup:
		want = session.ErrDuplicate
	case inFlight >= d.rules.Limits.Exchanges:
		want = session.ErrTooMany
	}
	if !errors.Is(err, want) {
		d.t.Fatalf("Begin(%v) = %v, want %v", id, err, want)
	}
	if err == nil {
		s.x, s.stream = x, x.Stream()
		d.exchanges = append(d.exchanges, s)
	}
}

func (d *driver) append(s *driven) {
	text := d.next("plain ")
	full, err := s.stream.Append(plain(text))
	switch {
	case s.ended || d.ended:
		if !errors.Is(err, mcp.ErrRequestEnded) {
			d.t.Fatalf("Append after the end = %v, want ErrRequestEnded", err)
		}
	case err != nil:
		d.t.Fatalf("Append = %v", err)
	case full == nil && !s.lost:
		s.plain = append(s.plain, text)
	}
}

func (d *driver) finish(s *driven) {
	if s.x == nil {
		return
	}
	text := d.next("end ")
	if got := s.x.Finish(plain(text)); got == s.ended {
		d.t.Fatalf("Finish = %v for an exchange that is over: %v", got, s.ended)
	}
	if !s.ended {
		s.ended, s.finished = true, true
		if !s.lost {
			s.plain = append(s.plain, text)
		}
	}
}

func (d *driver) cancel(s *driven) {
	if s.x == nil {
		return
	}
	if got := s.x.Cancel(errors.New("why")); got == s.ended {
		d.t.Fatalf("Cancel = %v for an exchange that is over: %v", got, s.ended)
	}
	if !s.ended {
		s.ended = true
		s.plain = s.plain[:s.took()]
	}
}

// took returns how many of the plain messages were taken.
func (s *driven) took() int {
	n := 0
	for _, g := range s.got {
		if strings.HasPrefix(g, "plain ") || strings.HasPrefix(g, "end ") {
			n++
		}
	}
	return n
}

func (d *driver) take(s *driven, arg int) {
	if len(s.consumers) == 0 {
		return
	}
	i := arg % len(s.consumers)
	got, state := take(s.consumers[i])
	if i != s.current && (state != session.Revoked || len(got) > 0) {
		d.t.Fatalf("a revoked consumer took %q, state %v", got, state)
	}
	if i == s.current && state == session.Revoked {
		d.t.Fatal("the live consumer was revoked")
	}
	if s.x == nil && !d.ready && len(got) > 0 {
		d.t.Fatalf("before initialized the client got %q", got)
	}
	s.got = append(s.got, got...)
	if state == session.Ended && !s.ended && !d.ended {
		d.t.Fatal("the stream of an open exchange has ended")
	}
}

// requeue takes from the standalone stream and requeues the messages: each change must be
// queued again.
func (d *driver) requeue(s *driven, arg int) {
	if s.x != nil || len(s.consumers) == 0 {
		return
	}
	c := s.consumers[arg%len(s.consumers)]
	taken, state := c.Take(nil)
	c.Requeue(taken)
	if state != session.Open {
		return
	}
	again, _ := c.Take(nil)
	var lost []string
	for _, m := range taken {
		if m.Class == session.Plain {
			lost = append(lost, string(m.Head))
		}
		if m.Class == session.Change && !slices.ContainsFunc(again, func(o session.Message) bool { return string(o.Head) == string(m.Head) }) {
			d.t.Fatalf("the change %q was requeued and is gone", m.Head)
		}
	}
	for _, m := range again {
		s.got = append(s.got, string(m.Head))
	}
	s.plain = slices.DeleteFunc(s.plain, func(p string) bool { return slices.Contains(lost, p) })
}

func (d *driver) detach(s *driven, arg int) {
	if len(s.consumers) == 0 {
		return
	}
	i := arg % len(s.consumers)
	s.consumers[i].Detach()
	if i != s.current {
		return
	}
	s.current = -1
	if s.x != nil {
		s.lost = true
		s.plain = s.plain[:s.took()]
	}
}

func (d *driver) ask(s *driven) {
	a, err := s.stream.Ask("m", nil, nil)
	if err != nil {
		return
	}
	if s.ended || s.lost || d.ended {
		d.t.Fatal("an ask was accepted that cannot be delivered")
	}
	d.asks = append(d.asks, &asked{ask: a, on: s})
}

// answer answers an ask, some of them again.
func (d *driver) answer(arg int) {
	if len(d.asks) == 0 {
		return
	}
	a := d.asks[arg%len(d.asks)]
	wasDone := isDone(a.ask)
	took := d.sess.Answer(a.ask.ID(), session.Terminal{Result: &mcp.Result{}})
	if took && wasDone {
		d.t.Fatal("an ask that had ended was answered")
	}
	if took && (!isDone(a.ask) || a.ask.Answer().Result == nil) {
		d.t.Fatal("an accepted answer did not end its ask")
	}
}

func (d *driver) endSession() {
	d.sess.End(mcp.Errorf(1, "over"))
	d.ended = true
	for _, s := range d.exchanges {
		if !s.ended {
			s.ended, s.finished = true, true
		}
	}
}

// check checks what is true at any time.
func (d *driver) check() {
	d.t.Helper()
	busy := false
	for _, s := range append(d.exchanges, d.standalone) {
		busy = busy || s.x != nil && !s.ended || s.current >= 0
		d.checkOrder(s)
		if s.stopped > 1 || s.stopped == 1 && !s.ended {
			d.t.Fatalf("an exchange (over: %v) was stopped %d times", s.ended, s.stopped)
		}
	}
	if got := d.sess.IsIdle(); got == busy {
		d.t.Fatalf("Idle = %v, want %v", got, !busy)
	}
	for _, a := range d.asks {
		if a.on.ended && a.on.x != nil && !isDone(a.ask) {
			d.t.Fatal("an ask outlives its exchange")
		}
	}
}

// checkOrder checks that the messages are those that were appended, in order, and that
// nothing follows the terminal.
func (d *driver) checkOrder(s *driven) {
	d.t.Helper()
	var sure []string
	for i, g := range s.got {
		if strings.HasPrefix(g, "plain ") || strings.HasPrefix(g, "end ") {
			sure = append(sure, g)
		}
		if strings.HasPrefix(g, "end ") && i != len(s.got)-1 {
			d.t.Fatalf("%q follows the terminal", s.got[i+1:])
		}
	}
	if len(sure) > len(s.plain) {
		d.t.Fatalf("got %q, appended %q", sure, s.plain)
	}
	for i := range sure {
		if sure[i] != s.plain[i] {
			d.t.Fatalf("got %q, appended %q", sure, s.plain)
		}
	}
}

// end takes what is left, and checks that nothing was lost.
func (d *driver) end() {
	for _, s := range d.exchanges {
		if s.current < 0 || d.ended {
			continue
		}
		got, state := take(s.consumers[s.current])
		s.got = append(s.got, got...)
		if s.took() != len(s.plain) {
			d.t.Fatalf("got %q of %q", s.got, s.plain)
		}
		if (state == session.Ended) != s.ended {
			d.t.Fatalf("state %v of an exchange that is over: %v", state, s.ended)
		}
	}
	d.endSession()
	for _, a := range d.asks {
		if !isDone(a.ask) {
			d.t.Fatal("an ask outlives its session")
		}
	}
	if d.sess.InFlight(jsonrpc.NumberID(0)) {
		d.t.Fatal("a request outlives its session")
	}
}
