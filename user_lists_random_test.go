// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Whatever users do, none of them sees or calls a tool that its own list has not had: with
// sign-ins and sign-outs, changes of lists, restarts of the server, and users that come and go. What
// it sees a while after the last change is exactly its list.
func TestNoUserSeesTheListOfAnother(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { newRandomUsers(t, seed).run() })
	}
}

// randomUsers are users that do something at random.
type randomUsers struct {
	*users

	random *rand.Rand
	names  []string
	sess   map[string]gatewaytest.Header // of those with a session
	signed map[string]bool
	had    map[string]map[string]bool // the tools that each user has had
	hidden bool                       // a policy hides the tools named t3
}

func newRandomUsers(t *testing.T, seed uint64) *randomUsers {
	r := &randomUsers{
		random: rand.New(rand.NewPCG(seed, 1)), sess: make(map[string]gatewaytest.Header),
		signed: make(map[string]bool), had: make(map[string]map[string]bool), hidden: seed%3 == 2,
	}
	for i := range 8 {
		r.names = append(r.names, fmt.Sprintf("user%d", i))
		r.had[r.names[i]] = make(map[string]bool)
	}
	d := newDesk()
	r.users = openUsers(t, d, eras[seed%2], func(cfg *config.Config) {
		gatewaytest.WithPrincipals(cfg, r.names...)
		if r.hidden {
			cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "no", Deny: "true", On: []string{"crm__t3*"}}}}
		}
	})
	for _, user := range r.names {
		r.change(user)
	}
	return r
}

// change gives a user other tools: some that all may have, and one of its own.
func (r *randomUsers) change(user string) {
	tools := []string{"of_" + user}
	for i := range 5 {
		if r.random.IntN(2) == 0 {
			tools = append(tools, fmt.Sprintf("t%d", i))
		}
	}
	for _, tool := range tools {
		r.had[user]["crm__"+tool] = true
	}
	r.desk.give(user, tools...)
}

func (r *randomUsers) run() {
	t := r.T
	steps := 400
	if testing.Short() {
		steps = 100
	}
	for range steps {
		user := r.names[r.random.IntN(len(r.names))]
		switch r.random.IntN(12) {
		case 0, 1:
			r.signIn(user)
			r.signed[user] = true
		case 2:
			r.signOut(user)
			r.signed[user] = false
		case 3, 4:
			r.change(user)
		case 5:
			if r.sess[user] == nil {
				r.sess[user] = r.Legacy(gatewaytest.WithToken(user))
			} else {
				r.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), r.sess[user])
			}
		case 6:
			time.Sleep(time.Duration(r.random.IntN(8)) * time.Second)
		case 7:
			r.down.set(r.random.IntN(3) == 0)
		default:
			r.look(user)
			other := r.names[r.random.IntN(len(r.names))]
			r.tryToCall(user, "crm__of_"+other)
			r.tryToCall(user, fmt.Sprintf("crm__t%d", r.random.IntN(5)))
		}
		if t.Failed() {
			return
		}
	}
	r.down.set(false)
	r.RetryCRM()
	time.Sleep(2 * time.Minute)
	for _, user := range r.names {
		want := []string{"crm__sign_in", "wiki__read"}
		if r.signed[user] {
			want = []string{"wiki__read"}
			for _, tool := range r.desk.toolsOf(user) {
				if !r.hidden || tool != "t3" {
					want = append(want, "crm__"+tool)
				}
			}
		}
		got := strings.Fields(r.tools(user))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %q at the end, want %q", user, got, want)
		}
	}
}

func (d *desk) toolsOf(user string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tools[user]
}

// look checks the tools that a user gets.
func (r *randomUsers) look(user string) {
	list := r.tools(user)
	if s := r.sess[user]; s != nil && r.random.IntN(2) == 0 {
		list = listedNames(r.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), s).Body)
	}
	for tool := range strings.FieldsSeq(list) {
		isGateway := tool == "wiki__read" || tool == "crm__sign_in"
		if !isGateway && !r.had[user][tool] || r.hidden && tool == "crm__t3" {
			r.T.Errorf("%s sees %s", user, tool)
		}
	}
}

// tryToCall checks that the server gets a call only for what the user has had.
func (r *randomUsers) tryToCall(user, tool string) {
	res := r.call(user, tool)
	for _, call := range r.desk.called() {
		if call != user+" "+strings.TrimPrefix(tool, "crm__") {
			r.T.Errorf("%s calls %s, and the server gets %s", user, tool, call)
		}
		if !r.had[user][tool] || r.hidden && tool == "crm__t3" || !r.signed[user] && !strings.Contains(res, "by "+user) {
			r.T.Errorf("%s has called %s: %s", user, tool, res)
		}
	}
}

// A thousand users with equal lists have one of them in memory, and one view: a longer list does not
// make a user larger.
func TestEqualListsOfUsersAreOne(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 40
	}
	// What other tests have left may be freed between two readings of the heap.
	var short, long, size int
	for range 3 {
		short, _ = memoryOfUsers(t, n, 1)
		long, size = memoryOfUsers(t, n, 300)
		t.Logf("a user has %d bytes with one tool, and %d bytes with 300 tools of %d bytes", short, long, size)
		if short > 0 && long-short <= size/2 {
			return
		}
	}
	t.Errorf("a user has %d bytes with one tool, and %d bytes with 300 tools of %d bytes", short, long, size)
}

// memoryOfUsers returns the memory for each of n users with so many equal tools, with that of its
// connection to the server, which is in this process, too, and the size of the tools.
func memoryOfUsers(t *testing.T, n, tools int) (each, size int) {
	synctest.Test(t, func(t *testing.T) {
		var list []string
		for i := range tools {
			list = append(list, fmt.Sprintf("tool_%d_%s", i, strings.Repeat("x", 200)))
		}
		size = len(gatewaytest.ToolList(list...))
		d := newDesk()
		var names []string
		for i := range n + 1 {
			names = append(names, fmt.Sprintf("u%04d", i))
		}
		u := openUsers(t, d, "modern", func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, names...) })
		for _, user := range names {
			d.tools[user] = list
			u.signIn(user)
		}
		want := u.tools(names[0])
		if !strings.HasPrefix(want, "crm__tool_0_") {
			t.Fatalf("tools %.100s", want)
		}
		before := heap()
		for _, user := range names[1:] {
			if got := u.tools(user); got != want {
				t.Fatalf("%s: %.100s", user, got)
			}
		}
		each = (heap() - before) / n
		if s := u.G.Status().Backends[0]; s.Users == nil || s.Users.Users != n+1 || s.Users.Lists != 1 {
			t.Errorf("users %+v", s.Users)
		}
	})
	return each, size
}

// heap returns the size of what is in use. It must be called in a bubble.
func heap() int {
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
