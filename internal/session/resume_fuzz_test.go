// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// FuzzResume breaks and resumes the streams of a session in any order, and compares what
// each client receives with the simplest model: a list.
func FuzzResume(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(script(seed, 200))
	}
	f.Fuzz(func(t *testing.T, script []byte) { runResume(t, script) })
}

// Some hundred scripts in each run of the tests.
func TestResumeAgainstTheModel(t *testing.T) {
	gone, resumed := 0, 0
	for seed := range uint64(800) {
		p := runResume(t, script(seed, 120))
		gone, resumed = gone+p.gone, resumed+p.resumed
	}
	if gone < 50 || resumed < 500 {
		t.Errorf("%d resumed, %d gone: the scripts test too little", resumed, gone)
	}
}

func script(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// resumePlay is a session and the clients of its streams.
type resumeModel struct {
	t       *testing.T
	rules   *session.Rules
	sess    *session.Session
	streams []*clientStream
	now     time.Time
	serial  int

	gone, resumed int
}

// listened is one stream, the messages that were appended, and those that its client
// received.
type clientStream struct {
	x        *session.Exchange // nil for the standalone stream
	appended []string          // appended, in order
	received []string
	first    session.EventID // where the client began
	last     session.EventID
	c        *session.Consumer // nil while the client is away
	ended    bool              // it has ended for the client
	lost     bool              // a GoneError was returned
}

func runResume(t *testing.T, script []byte) *resumeModel {
	t.Helper()
	rules := retaining()
	rules.Limits.Messages, rules.Limits.Bytes = 1000, 1<<20
	rules.Logs = session.NewLogPool(8000)
	if len(script) > 0 && script[0]%2 == 0 {
		rules.Limits.LogBytes, rules.Logs = 1<<20, nil // so that nothing may be missing
	}
	p := &resumeModel{t: t, rules: rules, sess: newSession(rules), now: at(0)}
	p.sess.Initialized()
	for len(script) >= 2 {
		p.step(script[0], int(script[1]))
		p.check()
		script = script[2:]
	}
	p.end()
	return p
}

func (p *resumeModel) step(op byte, arg int) {
	if len(p.streams) == 0 || op%16 == 0 && len(p.streams) < 8 {
		p.open(arg)
		return
	}
	s := p.streams[arg%len(p.streams)]
	switch op % 16 {
	case 1, 2, 3:
		p.append(s, arg)
	case 4, 5, 6:
		p.take(s)
	case 7, 8:
		p.leave(s, arg)
	case 9, 10, 11:
		p.resume(s)
	case 12:
		p.finish(s)
	case 13:
		p.now = p.now.Add(time.Duration(arg) * time.Second / 4)
		p.sess.Expire(p.now)
	case 14:
		if s.c != nil {
			_ = s.stream(p).Pause(time.Second)
		}
	case 15:
		p.stale(s, arg)
	}
}

// open begins a request, or the standalone stream.
func (p *resumeModel) open(arg int) {
	s := &clientStream{}
	if arg%4 == 0 && !slices.ContainsFunc(p.streams, func(o *clientStream) bool { return o.x == nil }) {
		s.c = attach(p.sess.Standalone())
	} else {
		p.serial++
		x, err := p.sess.Begin(jsonrpc.NumberID(uint64(p.serial)), func(error) {})
		if err != nil {
			p.t.Fatal(err)
		}
		s.x, s.c = x, attach(x.Stream())
	}
	s.c.MakeResumable()
	s.last = s.c.PrimingID()
	s.first = s.last
	p.streams = append(p.streams, s)
}

func (s *clientStream) stream(p *resumeModel) *session.Stream {
	if s.x == nil {
		return p.sess.Standalone()
	}
	return s.x.Stream()
}

func (p *resumeModel) append(s *clientStream, arg int) {
	p.serial++
	text := fmt.Sprintf("%d %0*d", p.serial, arg*4, 0)
	full, err := s.stream(p).Append(plain(text))
	switch {
	case full != nil:
		p.t.Fatal("the stream is full")
	case err == nil:
		s.appended = append(s.appended, text)
	case s.x == nil || !s.ended && !errors.Is(err, mcp.ErrRequestEnded):
		p.t.Fatalf("Append = %v", err)
	}
}

func (p *resumeModel) finish(s *clientStream) {
	if s.x != nil && s.x.Finish(plain("end")) {
		s.appended = append(s.appended, "end")
	}
}

// take makes the client receive what there is.
func (p *resumeModel) take(s *clientStream) {
	if s.c == nil {
		return
	}
	ms, state := s.c.Take(nil)
	for i := range ms {
		s.received = append(s.received, string(ms[i].Head))
		s.last = ms[i].Event()
	}
	if state == session.Open {
		return
	}
	if state == session.Ended && (len(s.appended) == 0 || s.received[len(s.received)-1] != "end") {
		p.t.Fatalf("the stream ended after %q of %q", s.received, s.appended)
	}
	s.ended = s.ended || state == session.Ended
	s.c.Detach()
	s.c = nil
}

// leave breaks the connection, sometimes with messages in transit.
func (p *resumeModel) leave(s *clientStream, arg int) {
	if s.c == nil {
		return
	}
	if arg%2 == 0 {
		ms, _ := s.c.Take(nil)
		s.c.Requeue(ms)
	}
	s.c.Detach()
	s.c = nil
}

// resume makes the client resume, sometimes before the old consumer detaches.
func (p *resumeModel) resume(s *clientStream) {
	if s.ended || s.lost {
		return
	}
	older := s.c
	c, err := p.sess.Resume(s.last, make(chan struct{}, 1), p.now)
	if older != nil {
		older.Detach()
		s.c = nil
	}
	switch gone, isGone := errors.AsType[*session.GoneError](err); {
	case err == nil:
		s.c = c
		p.resumed++
	case isGone && (s.x == nil) == gone.Request.IsZero():
		p.gone++
		s.lost = true
		p.mayBeGone(gone)
	case errors.Is(err, session.ErrUnknownEvent) && p.isLast(s):
		s.ended = true // nothing follows, and the stream is forgotten
	default:
		p.t.Fatalf("Resume(%v) = %v", s.last, err)
	}
}

// isLast reports whether the client has received everything.
func (p *resumeModel) isLast(s *clientStream) bool { return slices.Equal(s.received, s.appended) }

func (p *resumeModel) mayBeGone(gone *session.GoneError) {
	if p.rules.Logs == nil && !gone.Expired {
		p.t.Fatalf("%+v, and the limits are not reached", gone)
	}
}

// stale resumes from an older id: the same messages follow.
func (p *resumeModel) stale(s *clientStream, arg int) {
	if s.c != nil || s.ended || s.lost || s.last == s.first {
		return
	}
	cursor := s.first
	cursor.Pos += uint64(arg) % (s.last.Pos - s.first.Pos)
	c, err := p.sess.Resume(cursor, make(chan struct{}, 1), p.now)
	if err != nil {
		if _, ok := errors.AsType[*session.GoneError](err); ok {
			s.lost = true
		}
		return
	}
	s.c = c
	s.received = s.received[:cursor.Pos-s.first.Pos]
	s.last = cursor
}

// check checks what is true at any time: each client has received a prefix of what was
// appended, and no more is retained than allowed.
func (p *resumeModel) check() {
	p.t.Helper()
	for _, s := range p.streams {
		if len(s.received) > len(s.appended) || !slices.Equal(s.received, s.appended[:len(s.received)]) {
			p.t.Fatalf("the client received %q of %q", s.received, s.appended)
		}
		if want := s.first.Pos + uint64(len(s.received)); s.last.Pos != want {
			p.t.Fatalf("the client is at %d, want %d", s.last.Pos, want)
		}
	}
	carried := 0
	for _, s := range p.streams {
		if s.c != nil {
			carried++
		}
	}
	// In addition to the limit: the last answer, the overhead of streams, and the rest of
	// replays, which was within the limit once.
	if most := 2*p.rules.Limits.LogBytes + 2000 + 512*len(p.streams); p.sess.Retained() > most {
		p.t.Fatalf("%d bytes are retained, want at most %d", p.sess.Retained(), most)
	}
	if p.sess.IsIdle() && carried > 0 {
		p.t.Fatal("idle while a stream has a consumer")
	}
}

// end makes all clients resume and everything end: then all have received everything, or a
// GoneError.
func (p *resumeModel) end() {
	for _, s := range p.streams {
		p.finish(s)
		if s.c == nil {
			p.resume(s)
		}
		for s.c != nil && (s.x != nil || !p.isLast(s)) {
			p.take(s)
			if s.c == nil && !s.ended {
				p.resume(s) // it was paused
			}
		}
		if !s.lost && !p.isLast(s) {
			p.t.Fatalf("in the end the client has received %q of %q", s.received, s.appended)
		}
	}
	p.sess.End(mcp.Errorf(1, "over"))
	if p.sess.Retained() != 0 || p.rules.Logs.Used() != 0 {
		p.t.Fatalf("%d and %d bytes are left", p.sess.Retained(), p.rules.Logs.Used())
	}
}
