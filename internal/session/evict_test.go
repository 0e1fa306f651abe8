// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// used adds a session and uses it at once.
func (r *registry) used(id, who string, now time.Time) {
	r.t.Helper()
	r.mustAdd(id, who, now)
	r.use(id, now)
}

// use makes the owner of a session use it.
func (r *registry) use(id string, now time.Time) {
	r.t.Helper()
	r.mustGet(id, r.made[id].Principal, now)
}

// evicts adds a session and checks which one is evicted for it.
func (r *registry) evicts(id, who string, now time.Time, want string) {
	r.t.Helper()
	if got, err := r.add(id, who, now); got != want || err != nil {
		r.t.Errorf("Add(%s) after %v evicted %q, %v; want %q", id, now.Sub(epoch), got, err, want)
	}
}

// full adds a session and checks that it is refused, and with which Wait.
func (r *registry) full(id, who string, now time.Time, wait time.Duration) {
	r.t.Helper()
	evicted, err := r.add(id, who, now)
	full, ok := errors.AsType[*session.FullError](err)
	if !ok || evicted != "" || !errors.Is(err, session.ErrTooMany) {
		r.t.Fatalf("Add(%s) after %v evicted %q, %v; want a FullError", id, now.Sub(epoch), evicted, err)
	}
	if full.Wait != wait {
		r.t.Errorf("Add(%s) after %v: wait %v, want %v", id, now.Sub(epoch), full.Wait, wait)
	}
	if _, err := r.table.Get(id, r.made[id].Principal, "", now); !errors.Is(err, session.ErrUnknown) {
		r.t.Errorf("the refused session is in the table: %v", err)
	}
}

func after(d time.Duration) time.Time { return epoch.Add(d) }

// I21, M099, M102; FAULTS 25: unused sessions are evicted before idle ones, and busy ones
// never; the new session is never the evicted one.
func TestEvictionOrder(t *testing.T) {
	r := newRegistry(t, 4, 10)
	r.used("busy", "", epoch)
	begin(t, r.made["busy"], 1)
	r.used("older", "", epoch)
	r.mustAdd("newer", "", epoch)
	r.use("newer", after(1))
	r.mustAdd("fresh", "", after(hour))

	now := after(hour + freshRest)
	r.evicts("n0", "", now, "fresh")
	r.evicts("n1", "", now, "older")
	r.evicts("n2", "", now, "newer")
	r.full("n3", "", now, freshRest) // busy stays, n0 to n2 have not been idle long enough
	r.evicts("n3", "", now.Add(freshRest), "n0")
	if got := r.table.Len(); got != 4 {
		t.Errorf("%d sessions, want 4", got)
	}
}

// A session is evicted when it has been idle long enough and not a moment before, and a
// refusal names the moment.
func TestEvictionWait(t *testing.T) {
	tests := []struct {
		name  string
		build func(*registry)
		wait  time.Duration
		goes  string
	}{
		{"never used", func(r *registry) { r.mustAdd("a", "p", epoch); r.mustAdd("b", "p", after(time.Second)) }, freshRest, "a"},
		{"used", func(r *registry) { r.used("a", "p", after(time.Second)); r.used("b", "p", after(2*time.Second)) }, rest + time.Second, "a"},
		{"used later, but never used comes first", func(r *registry) { r.used("a", "p", epoch); r.mustAdd("b", "p", after(5*time.Second)) },
			freshRest + 5*time.Second, "b"},
		{"used again", func(r *registry) {
			r.used("a", "p", epoch)
			r.used("b", "p", epoch)
			r.use("a", after(2*time.Second))
		}, rest, "b"},
		{"used can be evicted first", func(r *registry) { r.used("a", "p", epoch); r.mustAdd("b", "p", after(25*time.Second)) }, rest, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry(t, 2, 9)
			tt.build(r)
			early := max(tt.wait-4*time.Second, 0)
			r.full("early", "p", after(early), tt.wait-early)
			r.full("a moment early", "p", after(tt.wait-1), 1)
			r.evicts("in time", "p", after(tt.wait), tt.goes)
		})
	}
}

// If all sessions are busy it is unknown when one can be evicted, but it takes at least
// Rest.
func TestLiveSessionsAreNotEvicted(t *testing.T) {
	r := newRegistry(t, 2, 10)
	for i, id := range []string{"a", "b"} {
		r.mustAdd(id, "", epoch)
		x := begin(t, r.made[id], 1)
		defer x.Finish(plain("end"))
		r.use(id, after(time.Duration(i)))
	}
	r.full("c", "", after(hour), rest)
	r.use("a", after(hour))
	r.use("b", after(hour))
}

// A stream with a consumer keeps its session, however long it has no messages.
func TestSessionsWithConsumersAreNotEvicted(t *testing.T) {
	r := newRegistry(t, 1, 10)
	r.used("a", "", epoch)
	c := r.made["a"].Standalone().Attach(make(chan struct{}, 1))
	r.full("b", "", after(hour), rest)
	c.Detach()
	r.full("b", "", after(hour+rest-1), 1) // in use an hour ago, when it was tried
	r.evicts("b", "", after(hour+rest), "a")
}

// Busy sessions do not hide an idle one, however many they are.
func TestIdleSessionBehindManyBusyOnes(t *testing.T) {
	const many = 300
	r := newRegistry(t, many+1, 10)
	for i := range many {
		id := fmt.Sprint("busy", i)
		r.used(id, "", after(time.Duration(i)))
		begin(t, r.made[id], 1)
	}
	r.used("idle", "", after(time.Second))
	r.evicts("new", "", after(hour), "idle")
	r.full("another", "", after(hour), freshRest)
}

// A principal cannot evict the sessions of another.
func TestPrincipalHasItsOwnLimit(t *testing.T) {
	r := newRegistry(t, 10, 2)
	r.used("other", "bob", epoch)
	r.used("a1", "alice", epoch)
	r.mustAdd("a2", "alice", epoch)
	r.evicts("n0", "alice", after(hour), "a2")
	r.evicts("n1", "alice", after(hour), "a1")
	begin(t, r.made["n0"], 1)
	begin(t, r.made["n1"], 1)
	_, err := r.add("more", "alice", after(2*hour))
	full, ok := errors.AsType[*session.FullError](err)
	if !ok || !full.PerPrincipal {
		t.Errorf("Add = %v; want that the principal's limit is reached", err)
	}
	r.mustAdd("more", "bob", after(2*hour))
	r.use("other", after(2*hour))
	for i := range 6 { // the anonymous principal is many clients
		r.mustAdd(fmt.Sprint("anonymous", i), "@here", after(2*hour))
	}
	_, err = r.add("beyond", "@here", after(2*hour))
	if full, ok = errors.AsType[*session.FullError](err); !ok || full.PerPrincipal {
		t.Errorf("Add = %v; want that the table's limit is reached", err)
	}
}

// FAULTS 25: a flood of initialize from any client is refused at a limit, and ends no
// session of others. Another client is still accepted.
func TestFloodOfSessions(t *testing.T) {
	for _, use := range []bool{false, true} { // with and without a message after initialize
		t.Run(fmt.Sprint("used ", use), func(t *testing.T) {
			r := newRegistry(t, 50, 10)
			r.used("resting", "@other", epoch) // a person at a keyboard
			r.used("named", "bob", epoch)
			now := after(20 * time.Minute)
			refused := 0
			for i := range 1000 {
				now = now.Add(time.Millisecond)
				id := fmt.Sprint("flood", i)
				evicted, err := r.add(id, "@flood", now)
				if evicted != "" {
					t.Fatalf("after %d: %s was evicted", i, evicted)
				}
				if err != nil {
					refused++
				} else if use {
					r.use(id, now)
				}
			}
			if refused != 1000-48 {
				t.Errorf("%d were refused, want all beyond 48", refused)
			}
			r.evicts("newcomer", "@third", now, "flood0")
			r.evicts("second", "bob", now, "flood1")
			r.use("resting", now)
			r.use("named", now)
		})
	}
}

// A flood of a named principal is limited in the same way.
func TestFloodOfAPrincipal(t *testing.T) {
	r := newRegistry(t, 50, 10)
	r.used("resting", "bob", epoch)
	for i := range 100 {
		now := after(hour/2 + time.Duration(i)*time.Millisecond)
		evicted, err := r.add(fmt.Sprint("flood", i), "alice", now)
		if evicted != "" || (err != nil) != (i >= 10) {
			t.Fatalf("number %d: evicted %q, %v; want nothing, and an error from the 11th on", i, evicted, err)
		}
	}
	r.use("resting", after(hour/2))
}

// Command line tools that leave a session behind on each run are never refused: not with a
// small limit, and not during a flood.
func TestToolsThatNeverDelete(t *testing.T) {
	for _, who := range []string{"@loopback", "ann"} {
		t.Run(who, func(t *testing.T) {
			r := newRegistry(t, 30, 15)
			for i := range 1000 {
				now := after(time.Duration(i) * 3 * time.Second)
				id := fmt.Sprint("run", i)
				evicted, err := r.add(id, who, now)
				if err != nil {
					t.Fatalf("run %d: %v", i, err)
				}
				if bound := map[string]int{"@loopback": 30, "ann": 15}[who]; (evicted != "") != (i >= bound) {
					t.Fatalf("run %d evicted %q", i, evicted)
				}
				r.use(id, now)
			}
		})
	}
}

// All clients behind a proxy have one address, which may fill the table: none is refused
// while a session is idle.
func TestAllClientsBehindAProxy(t *testing.T) {
	r := newRegistry(t, 500, 10)
	for i := range 500 {
		r.used(fmt.Sprint("user", i), "@proxy", after(time.Duration(i)*time.Millisecond))
	}
	r.full("one more", "@proxy", after(time.Second), rest-time.Second)
	for i := range 100 {
		r.evicts(fmt.Sprint("late", i), "@proxy", after(rest+time.Duration(i)*time.Millisecond), fmt.Sprint("user", i))
	}
}

// If the table is full, owners below their share evict sessions of those above it, and the
// latter evict their own.
func TestSharesOfAFullTable(t *testing.T) {
	r := newRegistry(t, 6, 9)
	for i := range 4 {
		r.used(fmt.Sprint("a", i), "alice", after(time.Duration(i)))
	}
	r.used("b0", "bob", epoch)
	r.used("c0", "carol", epoch)
	now := after(2 * time.Second)
	r.full("a4", "alice", now, rest-now.Sub(epoch)) // the largest owner
	r.evicts("b1", "bob", now, "a0")                // had one of four
	r.full("b2", "bob", now, freshRest)             // has two of three
	r.evicts("d0", "dave", now, "a1")               // had none
	r.evicts("e0", "eve", now, "a2")                // had none; of the two largest owners, alice came first
	r.full("d1", "dave", now, freshRest)
	r.evicts("a4", "alice", after(hour), "a3") // not c0, which is idle as well
	r.use("c0", after(hour))
}

// A flood from many addresses without sessions does not end those of an office behind one
// address, which did not fill the table.
func TestFloodFromManyAddresses(t *testing.T) {
	const total, office = 1000, 10
	r := newRegistry(t, total, 9)
	for i := range office {
		r.used(fmt.Sprint("desk", i), "@office", epoch)
	}
	for i := range total - office {
		r.mustAdd(fmt.Sprint("flood", i), fmt.Sprint("@place", i), epoch)
	}
	now := after(time.Second)
	for i := range 50 {
		r.full(fmt.Sprint("more", i), fmt.Sprint("@elsewhere", i), now, freshRest-time.Second)
	}
	for i := range office {
		r.use(fmt.Sprint("desk", i), now)
	}
	r.evicts("late", "@elsewhere", after(freshRest), "flood0")
}

// With as many owners as sessions, each has one, and a new session needs one that has been
// idle long enough.
func TestAsManyOwnersAsSessions(t *testing.T) {
	r := newRegistry(t, 3, 9)
	for i, id := range []string{"a", "b", "c"} {
		r.used(id, id, after(time.Duration(i)))
	}
	r.full("d", "d", after(time.Second), rest-time.Second)
	r.full("a2", "a", after(time.Second), rest-time.Second)
	r.evicts("d", "d", after(rest), "a")
	r.full("b2", "b", after(rest), 1)
	r.evicts("b2", "b", after(rest+1), "b") // not c, which is idle as well
}

// However a session is removed, its owner may add another, and an owner without sessions
// costs nothing.
func TestOwnerMayAddAfterRemoval(t *testing.T) {
	goes := map[string]func(*registry){
		"removed": func(r *registry) { r.table.Remove(r.made["a"]) },
		"swept": func(r *registry) {
			r.made["b"].Standalone().Attach(make(chan struct{}, 1))
			r.table.Sweep(after(hour + rest))
		},
		"drained": func(r *registry) { r.table.Drain() },
	}
	for name, end := range goes {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t, 5, 2)
			r.used("a", "p", epoch)
			r.mustAdd("b", "p", epoch)
			r.full("c", "p", after(1), freshRest-1)
			end(r)
			if name == "removed" {
				r.use("b", after(hour+rest))
			}
			r.mustAdd("c", "p", after(hour+rest))
			if name == "drained" {
				r.mustAdd("d", "p", after(hour+rest))
			}
			r.full("e", "p", after(hour+rest), freshRest)
		})
	}
}

// An owner without sessions costs no memory: clients come from any number of addresses.
func TestOwnersWithoutSessionsAreForgotten(t *testing.T) {
	const n = 4000
	table := session.NewTable(session.TableLimits{Total: 5, PerPrincipal: 5, Idle: hour, Fresh: hour})
	r := rules()
	before := heapBytes()
	for i := range n {
		s := session.New("id", "", &mcp.Peer{}, r)
		s.Address = fmt.Sprintf("%026d", i)
		if _, err := table.Add(s, epoch); err != nil {
			t.Fatal(err)
		}
		table.Remove(s)
	}
	if each := (heapBytes() - before) / n; each > 32 {
		t.Errorf("an owner without sessions costs %d bytes", each)
	}
	runtime.KeepAlive(table)
}

// If all sessions of the largest owner are busy, they are tried once in a while, and not
// for each new session: there may be as many as the table has.
func TestBusySessionsAreTriedOnceInAWhile(t *testing.T) {
	r := newRegistry(t, 3, 10)
	for _, id := range []string{"one", "two", "three"} {
		r.used(id, "@proxy", epoch)
	}
	exchange := begin(t, r.made["one"], 1)
	begin(t, r.made["two"], 1)
	begin(t, r.made["three"], 1)
	now := after(hour)
	r.full("n0", "@else", now, rest)
	exchange.Cancel(nil)
	r.full("n1", "@else", now.Add(time.Second-1), rest-time.Second+1)
	r.evicts("n1", "@else", now.Add(time.Second), "one")
}
