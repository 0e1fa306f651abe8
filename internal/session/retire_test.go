// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"
)

// The retention of a stream begins once, when it has ended and has no consumer. The cost of
// Retire does not depend on how many streams are retained: a session that streams its
// answers retains some for each of them.
func TestRetire(t *testing.T) {
	r := retaining()
	r.Limits.LogBytes = 1 << 20
	sess := newSession(r)
	retire := func(what string, now int, want time.Time) {
		t.Helper()
		if until := sess.Retire(at(now)); !until.Equal(want) {
			t.Errorf("%s: kept until %v, want %v", what, until, want)
		}
	}
	none := time.Time{}
	retire("nothing is kept", 0, none)
	for i := range 100 {
		one := newResumable(t, sess, uint64(i+1)).prime()
		retire("it runs", i, none)
		one.x.Finish(finish("end"))
		retire("it has a consumer", i, none)
		one.c.Detach()
		retire("it has no consumer", i, at(i+60))
		retire("again", i+10, none)
	}
	away := newResumable(t, sess, 200).prime()
	away.c.Detach()
	retire("it runs, and its client is away", 100, none)
	away.x.Finish(finish("end"))
	retire("it has ended while its client was away", 101, at(161))
	away.back()
	retire("its client has come back", 110, none)
	away.c.Detach()
	retire("and left", 120, at(180))
	if next := sess.Expire(at(160)); next != at(180) || sess.Retained() == 0 {
		t.Errorf("%d bytes are kept, and some until %v, want %v", sess.Retained(), next, at(180))
	}
	if next := sess.Expire(at(180)); !next.IsZero() || sess.Retained() != 0 {
		t.Errorf("%d bytes are kept until %v, want nothing", sess.Retained(), next)
	}
}

// The retention of two streams that end on one response, as in a batch, begins at once.
func TestRetireOfTwo(t *testing.T) {
	sess := newSession(retaining())
	for i := range uint64(2) {
		r := newResumable(t, sess, i+1).prime()
		r.x.Finish(finish("end"))
		r.c.Detach()
	}
	if until := sess.Retire(at(5)); until != at(65) {
		t.Errorf("kept until %v, want %v", until, at(65))
	}
	if next := sess.Expire(at(64)); next != at(65) {
		t.Errorf("next = %v, want %v", next, at(65))
	}
	if next := sess.Expire(at(65)); !next.IsZero() || sess.Retained() != 0 {
		t.Errorf("%d bytes are kept until %v, want nothing", sess.Retained(), next)
	}
}
