// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	hour      = time.Hour
	rest      = 30 * time.Second
	freshRest = 10 * time.Second
)

var epoch = time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)

// registry is a table and the sessions that were added to it.
type registry struct {
	t     *testing.T
	table *session.Table
	made  map[string]*session.Session
}

func newRegistry(t *testing.T, total, each int) *registry {
	return &registry{
		t: t,
		table: session.NewTable(session.TableLimits{
			Total: total, PerPrincipal: each, Idle: hour, Fresh: time.Minute, Rest: rest, FreshRest: freshRest,
		}),
		made: make(map[string]*session.Session),
	}
}

// add adds a session and returns the ids of the evicted ones. An owner that begins with @
// is the address of an anonymous client.
func (r *registry) add(id, who string, now time.Time) (string, error) {
	s := session.New(id, who, &mcp.Peer{}, rules())
	if strings.HasPrefix(who, "@") {
		s.Principal, s.Address = "", who
	}
	r.made[id] = s
	evicted, err := r.table.Add(s, now)
	return ids(evicted), err
}

func (r *registry) mustAdd(id, principal string, now time.Time) {
	r.t.Helper()
	if evicted, err := r.add(id, principal, now); evicted != "" || err != nil {
		r.t.Fatalf("Add(%s) = %q, %v; want it accepted", id, evicted, err)
	}
}

func (r *registry) mustGet(id, principal string, now time.Time) {
	r.t.Helper()
	if s, err := r.table.Get(id, principal, "", now); err != nil || s != r.made[id] {
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

// I18, S4: a session of another principal is as unknown as one that never existed.
func TestGetIsBoundToThePrincipal(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("a", "alice", epoch)
	r.mustGet("a", "alice", epoch)
	for _, tt := range []struct{ id, principal string }{{"a", "bob"}, {"a", ""}, {"b", "alice"}, {"", "alice"}} {
		_, err := r.table.Get(tt.id, tt.principal, "", epoch)
		if foreign := tt.id == "a"; !errors.Is(err, session.ErrUnknown) || errors.Is(err, session.ErrForeign) != foreign {
			t.Errorf("Get(%q, %q) = %v; want ErrUnknown, and ErrForeign: %t", tt.id, tt.principal, err, foreign)
		}
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
		{hour + 30*time.Second, "used", 2*hour + 30*time.Second}, // a busy session counts as used now
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

// Sessions that were never used come first, however much longer others have been idle.
func TestSweepOrder(t *testing.T) {
	r := newRegistry(t, 10, 10)
	for i, id := range []string{"used 1", "used 2", "fresh 1", "fresh 2"} {
		r.mustAdd(id, "", epoch.Add(time.Duration(i)*time.Second))
	}
	r.mustGet("used 2", "", epoch.Add(4*time.Second))
	r.mustGet("used 1", "", epoch.Add(5*time.Second))
	ended, next := r.table.Sweep(epoch.Add(2 * hour))
	if got, want := ids(ended), "fresh 1 fresh 2 used 2 used 1"; got != want || !next.IsZero() {
		t.Errorf("Sweep ended %q, next %v; want %q and never", got, next, want)
	}
}

// M101: the session's own lock decides whether an arrival or the expiry is first.
func TestArrivalAfterExpiryIsRefused(t *testing.T) {
	r := newRegistry(t, 10, 10)
	r.mustAdd("a", "", epoch)
	s, err := r.table.Get("a", "", "", epoch) // the lookup of the arrival
	if err != nil {
		t.Fatal(err)
	}
	if ended, _ := r.table.Sweep(epoch.Add(2 * hour)); ids(ended) != "a" {
		t.Fatalf("ended %q, want a", ids(ended))
	}
	if _, err := s.Begin(jsonrpc.NumberID(1), func(error) {}); !errors.Is(err, session.ErrEnded) {
		t.Errorf("Begin = %v, want ErrEnded", err)
	}
	if _, err := r.table.Get("a", "", "", epoch); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("Get = %v, want ErrUnknown", err)
	}
}

// M103: a removed session stays removed, and removing it again does not remove its
// successor.
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
