// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"reflect"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// held is what a principal's clients have not read, in bytes: what waits on streams that are
// carried or may be, and what writers have taken and not written.
//
// What waits is read from the machine, because the model does not know of every message
// whether it waits. That it counts once, until it is written and no longer, is what is
// checked here.
func (w *world) held(principal string) (bytes int64) {
	for _, s := range w.streams {
		if s.principal() == principal && !s.real.IsAway() {
			bytes += reflect.ValueOf(s.real).Elem().FieldByName("bytes").Int()
		}
	}
	for _, t := range w.threads {
		if t, ok := t.(*writer); ok && t.at.principal() == principal {
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

// pendingHolds: what clients have not read counts once, until it is written.
func (w *world) pendingHolds() {
	all := int64(0)
	for _, p := range w.principals() {
		all += w.held(p)
	}
	if got := w.rules.Pending.Bytes(); got != all {
		w.fail("I21", "%d bytes wait for clients to read, and that is said to be %d", all, got)
	}
}

// mayBegin reports whether a principal may begin a request, by what its clients have not
// read: slow readers cost their own principal its next request, and no other's.
func (w *world) mayBegin(principal string) bool {
	want, all := session.NoExcess, int64(0)
	for _, p := range w.principals() {
		all += w.held(p)
	}
	switch {
	case all >= w.set.pending.Total:
		want = session.TotalExcess
	case w.held(principal) >= w.set.pending.PerPrincipal:
		want = session.PrincipalExcess
	}
	got := w.rules.Pending.Excess(principal)
	if got != want {
		w.fail("I21", "%s has %d bytes that are not read, of %d: excess %d, want %d", principal, w.held(principal), all, got, want)
	}
	if got != session.NoExcess {
		w.fault(LimitHit)
	}
	return got == session.NoExcess
}
