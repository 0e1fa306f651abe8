// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Each stream's time begins for itself, and what that costs has nothing to do with how
// many are kept: a session that streams its answers keeps some for every one of them.
func TestRetireLooksAtOneStream(t *testing.T) {
	r := keeping()
	r.Limits.LogBytes = 1 << 20
	sess := newSession(r)
	for i := range uint64(300) {
		one := newResumable(t, sess, i+1).prime()
		s := one.x.Stream()
		if until := s.Retire(at(0)); !until.IsZero() {
			t.Fatalf("a running request is to be given up at %v", until)
		}
		one.x.Finish(finish("end"))
		if until := s.Retire(at(0)); !until.IsZero() {
			t.Fatalf("what is carried is to be given up at %v", until)
		}
		one.c.Detach()
		if until := s.Retire(at(int(i))); until != at(int(i)+60) {
			t.Fatalf("stream %d is kept until %v, want %v", i, until, at(int(i)+60))
		}
		if until := s.Retire(at(1000)); until != at(int(i)+60) {
			t.Fatalf("stream %d is kept until %v, asked for it again", i, until)
		}
		if got := testing.AllocsPerRun(1, func() { s.Retire(at(1000)) }); got != 0 {
			t.Fatalf("%v allocations beside %d streams", got, i)
		}
	}
	if next := sess.Expire(at(61)); next != at(62) {
		t.Errorf("the next is to be given up at %v, want %v", next, at(62))
	}
	none := session.Alone(mcp.NumberID(1), r, session.StopFunc(func(error) {}))
	none.Finish(finish("end"))
	if until := none.Stream().Retire(at(0)); !until.IsZero() {
		t.Errorf("what is not kept is to be given up at %v", until)
	}
}
