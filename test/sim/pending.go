// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"reflect"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// unreadBytes returns how many bytes the clients of a principal have not read: the queues
// of streams that are not away, and what writers have taken and not written.
//
// The size of a queue is read from the stream under test, because the model does not know
// of every message whether it is queued. The check is that each byte counts exactly once,
// until it is written.
func (w *world) unreadBytes(principal string) (bytes int64) {
	for _, s := range w.streams {
		if s.principal() == principal && !s.real.IsAway() {
			bytes += reflect.ValueOf(s.real).Elem().FieldByName("bytes").Int()
		}
	}
	for _, t := range w.threads {
		if t, ok := t.(*writer); ok && t.stream.principal() == principal {
			for i := range t.batch {
				bytes += int64(t.batch[i].Len())
			}
		}
	}
	return bytes
}

func (s *stream) principal() string {
	if s.sess != nil {
		return s.sess.client.principal
	}
	return s.of.client.principal
}

func (w *world) principals() []string {
	var all []string
	seen := make(map[string]bool)
	for _, c := range w.clients {
		if !seen[c.principal] {
			seen[c.principal] = true
			all = append(all, c.principal)
		}
	}
	return all
}

// checkPending checks that unread bytes count once, until they are written.
func (w *world) checkPending() {
	all := int64(0)
	for _, p := range w.principals() {
		all += w.unreadBytes(p)
	}
	if got := w.rules.Pending.Bytes(); got != all {
		w.fail("I21", "%d bytes are unread, reported as %d", all, got)
	}
}

// mayBegin reports whether a principal may begin a request: slow readers cost their own
// principal its next request, and no other's.
func (w *world) mayBegin(principal string) bool {
	want, all := session.NoExcess, int64(0)
	for _, p := range w.principals() {
		all += w.unreadBytes(p)
	}
	switch {
	case all >= w.set.pending.Total:
		want = session.TotalExcess
	case w.unreadBytes(principal) >= w.set.pending.PerPrincipal:
		want = session.PrincipalExcess
	}
	got := w.rules.Pending.Excess(principal)
	if got != want {
		w.fail("I21", "%s has %d unread bytes, of %d: excess %d, want %d", principal, w.unreadBytes(principal), all, got, want)
	}
	if got != session.NoExcess {
		w.fault(LimitHit)
	}
	return got == session.NoExcess
}
