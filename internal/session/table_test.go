// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const hour = time.Hour

var epoch = time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)

// registry is a table and the sessions that were added to it.
type registry struct {
	t     *testing.T
	table *session.Table
	made  map[string]*session.Session
}

func newRegistry(t *testing.T, total, each int) *registry {
	return &registry{
		t:     t,
		table: session.NewTable(session.TableLimits{Total: total, PerPrincipal: each, Idle: hour, Fresh: time.Minute}),
		made:  make(map[string]*session.Session),
	}
}

// add adds a session and returns the ids of the evicted.
func (r *registry) add(id, principal string, now time.Time) (string, error) {
	s := session.New(id, principal, &mcp.Peer{}, rules())
	r.made[id] = s
	evicted, err := r.table.Add(s, now)
	return ids(evicted), err
}

func (r *registry) mustAdd(id, principal string, now time.Time) {
	r.t.Helper()
	if evicted, err := r.add(id, principal, now); evicted != "" || err != nil {
		r.t.Fatalf("Add(%s) = %q, %v; want room", id, evicted, err)
	}
}

func (r *registry) mustGet(id, principal string, now time.Time) {
	r.t.Helper()
	if s, err := r.table.Get(id, principal, now); err != nil || s != r.made[id] {
		r.t.Fatalf("Get(%s, %s) = %v, %v; want the session", id, principal, s, err)
	}
}

func ids(ss []*session.Session) string {
	var all []string
	for _, s := range ss {
		all = append(all, s.ID)
	}
	return strings.Join(all, " ")
}

// I18, S4: a session of another principal is as unknown as one that never was.
func TestGetIsBoundToThePrincipal(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("a", "alice", epoch)
	r.mustGet("a", "alice", epoch)
	for _, tt := range []struct{ id, principal string }{{"a", "bob"}, {"a", ""}, {"b", "alice"}, {"", "alice"}} {
		if _, err := r.table.Get(tt.id, tt.principal, epoch); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("Get(%q, %q) = %v, want ErrUnknown", tt.id, tt.principal, err)
		}
	}
}

// I21, M099, M102: dead before idle before live; the newcomer is never the one
// that goes.
func TestEvictionOrder(t *testing.T) {
	r := newRegistry(t, 4, 10)
	r.mustAdd("busy", "", epoch)
	r.mustGet("busy", "", epoch)
	begin(t, r.made["busy"], 1)
	r.mustAdd("older", "", epoch)
	r.mustGet("older", "", epoch.Add(1))
	r.mustAdd("newer", "", epoch)
	r.mustGet("newer", "", epoch.Add(2))
	r.mustAdd("fresh", "", epoch.Add(3))

	for i, want := range []string{"fresh", "n0", "n1"} {
		got, err := r.add(fmt.Sprintf("n%d", i), "", epoch.Add(4))
		if got != want || err != nil {
			t.Errorf("evicted %q, %v; want %q", got, err, want)
		}
	}
	r.mustGet("n2", "", epoch.Add(5))
	if got, err := r.add("last", "", epoch.Add(6)); got != "older" || err != nil {
		t.Errorf("evicted %q, %v; want the one that was used longest ago", got, err)
	}
	if got := r.table.Len(); got != 4 {
		t.Errorf("%d sessions, want 4", got)
	}
}

func TestLiveSessionsAreNotEvicted(t *testing.T) {
	r := newRegistry(t, 2, 10)
	for _, id := range []string{"a", "b"} {
		r.mustAdd(id, "", epoch)
		begin(t, r.made[id], 1)
	}
	if got, err := r.add("c", "", epoch); got != "" || !errors.Is(err, session.ErrTooMany) {
		t.Errorf("Add = %q, %v; want ErrTooMany", got, err)
	}
	r.mustGet("a", "", epoch)
	r.mustGet("b", "", epoch)
}

// One principal cannot push out another.
func TestPrincipalHasItsOwnLimit(t *testing.T) {
	r := newRegistry(t, 10, 2)
	r.mustAdd("other", "bob", epoch)
	r.mustAdd("a1", "alice", epoch)
	r.mustGet("a1", "alice", epoch)
	r.mustAdd("a2", "alice", epoch)
	for i, want := range []string{"a2", "n0"} {
		if got, err := r.add(fmt.Sprintf("n%d", i), "alice", epoch); got != want || err != nil {
			t.Errorf("evicted %q, %v; want %q", got, err, want)
		}
	}
	begin(t, r.made["a1"], 1)
	begin(t, r.made["n1"], 1)
	if _, err := r.add("more", "alice", epoch); !errors.Is(err, session.ErrTooMany) {
		t.Errorf("Add = %v, want ErrTooMany", err)
	}
	r.mustAdd("more", "bob", epoch)
	for i := range 5 { // the anonymous principal is many
		r.mustAdd(fmt.Sprint("anonymous", i), "", epoch)
	}
}

func TestSweep(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("fresh", "", epoch)
	r.mustAdd("used", "p", epoch)
	r.mustGet("used", "p", epoch.Add(30*time.Second))
	r.mustAdd("busy", "", epoch)
	r.mustGet("busy", "", epoch.Add(30*time.Second))
	x := begin(t, r.made["busy"], 1)

	steps := []struct {
		after time.Duration
		want  string
		next  time.Duration
	}{
		{time.Minute - 1, "", time.Minute},
		{time.Minute, "fresh", hour + 30*time.Second},
		{hour + 30*time.Second - 1, "", hour + 30*time.Second},
		{hour + 30*time.Second, "used", 2*hour + 30*time.Second}, // busy counts as used now
	}
	for _, step := range steps {
		ended, next := r.table.Sweep(epoch.Add(step.after))
		if got := ids(ended); got != step.want || !next.Equal(epoch.Add(step.next)) {
			t.Errorf("Sweep after %v: ended %q, next after %v; want %q, %v", step.after, got, next.Sub(epoch), step.want, step.next)
		}
	}
	x.Finish(plain("end"))
	if ended, next := r.table.Sweep(epoch.Add(3 * hour)); ids(ended) != "busy" || !next.IsZero() {
		t.Errorf("the last sweep ended %q, next %v; want busy and never", ids(ended), next)
	}
}

// M101: whether an arrival or the expiry comes first, the session's own lock
// decides, and there is nothing between.
func TestArrivalAfterExpiryIsRefused(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("a", "", epoch)
	s, err := r.table.Get("a", "", epoch) // the arrival has found it
	if err != nil {
		t.Fatal(err)
	}
	if ended, _ := r.table.Sweep(epoch.Add(2 * hour)); ids(ended) != "a" {
		t.Fatalf("ended %q, want a", ids(ended))
	}
	if _, err := s.Begin(mcp.NumberID(1), func(error) {}); !errors.Is(err, session.ErrEnded) {
		t.Errorf("Begin = %v, want ErrEnded", err)
	}
	if _, err := r.table.Get("a", "", epoch); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("Get = %v, want ErrUnknown", err)
	}
}

// M103: what was removed stays removed, and removing it again does not remove
// what came after it.
func TestRemove(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("a", "p", epoch)
	old := r.made["a"]
	r.table.Remove(old)
	r.mustAdd("a", "p", epoch)
	r.table.Remove(old)
	r.mustGet("a", "p", epoch)
	r.table.Remove(r.made["a"])
	if got := r.table.Len(); got != 0 {
		t.Errorf("%d sessions left, want 0", got)
	}
}

func TestDrain(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("a", "p", epoch)
	r.mustAdd("b", "", epoch)
	r.mustGet("a", "p", epoch.Add(1))
	if got := ids(r.table.Drain()); got != "b a" {
		t.Errorf("Drain = %q, want \"b a\"", got)
	}
	if got := r.table.Len(); got != 0 {
		t.Errorf("%d sessions left, want 0", got)
	}
	r.mustAdd("a", "p", epoch)
}
