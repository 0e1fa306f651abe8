// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func perPrincipal(calls int, every time.Duration, burst int, on ...string) Rule {
	return Rule{PerPrincipal: true, On: on, Calls: calls, Every: every, Burst: burst}
}

func forAll(calls int, every time.Duration, burst int, on ...string) Rule {
	return Rule{On: on, Calls: calls, Every: every, Burst: burst}
}

func using(rules ...Rule) *Quotas {
	q := new(Quotas)
	q.Use(rules)
	return q
}

// admitted makes n calls and returns how many are admitted.
func admitted(q *Quotas, principal, item string, n int) int {
	count := 0
	for range n {
		if _, ok := q.Take(principal, item); ok {
			count++
		}
	}
	return count
}

// A bucket begins full, and a refusal names the wait after which a call is admitted, not
// earlier.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := using(perPrincipal(600, time.Minute, 3))
		if n := admitted(q, "ci", "a", 10); n != 3 {
			t.Fatalf("%d at once, want 3", n)
		}
		refused, ok := q.Take("ci", "a")
		if want := 100 * time.Millisecond; ok || refused.Wait != want || refused.Index != 0 || refused.Rule.Calls != 600 {
			t.Fatalf("got %+v, %t, want a wait of %v", refused, ok, want)
		}
		if n := admitted(q, "bob", "a", 10); n != 3 {
			t.Errorf("another principal: %d at once, want 3", n)
		}
		time.Sleep(refused.Wait - time.Microsecond)
		if _, ok := q.Take("ci", "a"); ok {
			t.Error("admitted before the wait is over")
		}
		time.Sleep(time.Microsecond)
		if n := admitted(q, "ci", "a", 10); n != 1 {
			t.Errorf("%d after the wait, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := admitted(q, "ci", "a", 10); n != 3 {
			t.Errorf("%d after an hour, want 3", n)
		}
	})
}

// The wait of a refusal is enough and not too long for any rate, also for those that do not
// divide a second.
func TestWaitIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			rule := forAll(1+r.IntN(1000), time.Duration(1+r.Int64N(int64(time.Hour))), 1+r.IntN(5))
			q := using(rule)
			admitted(q, "", "", rule.Burst)
			for range 3 {
				refused, ok := q.Take("", "")
				if ok {
					t.Fatalf("%+v: more than the burst", rule)
				}
				time.Sleep(refused.Wait)
				if again, ok := q.Take("", ""); !ok {
					t.Fatalf("%+v: refused after the wait of %v: %+v", rule, refused.Wait, again)
				}
			}
		}
	})
}

// In any period no more calls are admitted than the burst and what comes back, and with
// enough calls no fewer.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := using(forAll(7, time.Second, 5))
		r := rand.New(rand.NewPCG(3, 4))
		began, count := time.Now(), 0
		for time.Since(began) < time.Minute {
			count += admitted(q, "", "", 1+r.IntN(3))
			time.Sleep(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
		}
		most := 5 + int(7*time.Since(began).Seconds())
		if count > most || count < most-1 {
			t.Errorf("%d admitted, want %d", count, most)
		}
	})
}

// A call that one rule refuses takes no token of the others.
func TestRefusedCallIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := using(perPrincipal(10, time.Hour, 10), forAll(1, time.Minute, 1, "llm__*"), forAll(1, time.Hour, 1, "llm__x"))
		if n := admitted(q, "ci", "llm__x", 100); n != 1 {
			t.Fatalf("%d calls, want 1", n)
		}
		refused, _ := q.Take("ci", "llm__x")
		if refused.Index != 2 || refused.Wait != time.Hour {
			t.Errorf("got %+v, want the rule with the longest wait", refused)
		}
		if n := admitted(q, "ci", "other", 100); n != 9 {
			t.Errorf("%d other calls, want 9", n)
		}
	})
}

func TestPatterns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			item  string
			bound bool
		}{{"llm__ask", true}, {"file:///x/y", true}, {"llm_ask", false}, {"xllm__ask", false}, {"", false}} {
			q := using(forAll(1, time.Hour, 1, "llm__*", "file:///x/*"))
			if got := admitted(q, "", tt.item, 2) == 1; got != tt.bound {
				t.Errorf("%q: bound %t, want %t", tt.item, got, tt.bound)
			}
		}
	})
}

// A reload keeps the buckets of the rules that it does not change, wherever they are then, and
// one that changes begins full.
func TestUseKeepsBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, all := perPrincipal(5, time.Hour, 5, "a*"), forAll(7, time.Hour, 7, "b*")
		q := using(mine, all, mine)
		admitted(q, "ci", "a", 100)
		admitted(q, "ci", "b", 100)
		q.Use([]Rule{forAll(1, time.Hour, 1, "c"), all, mine, mine})
		for item, rule := range map[string]int{"a": 2, "b": 1} {
			if refused, ok := q.Take("ci", item); ok || refused.Index != rule {
				t.Errorf("%s: %+v, %t, want refused by %d", item, refused, ok, rule)
			}
		}
		mine.Burst++
		q.Use([]Rule{mine, all})
		if n := admitted(q, "ci", "a", 100); n != 6 {
			t.Errorf("%d admitted after the rule has changed, want 6", n)
		}
		if _, ok := q.Take("ci", "b"); ok {
			t.Error("the rule that has not changed has lost its bucket")
		}
	})
}

// There are at most so many buckets. A full one leaves first, which loses nothing; if none is
// full, the one that will be full first.
func TestFullBucketLeavesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := using(perPrincipal(1, time.Second, 4))
		rule := q.rules[0]
		rule.maximum = 3
		admitted(q, "idle", "", 1)
		time.Sleep(time.Second) // full
		admitted(q, "one", "", 4)
		admitted(q, "two", "", 2)
		has := func(principals ...string) {
			t.Helper()
			for _, p := range principals {
				if rule.of[p] == nil {
					t.Errorf("%s has no bucket", p)
				}
			}
			if len(rule.of) != 3 || len(rule.byFull) != 3 {
				t.Errorf("%d buckets, %d in the heap", len(rule.of), len(rule.byFull))
			}
		}
		admitted(q, "three", "", 3)
		has("one", "two", "three") // idle was full
		admitted(q, "four", "", 4)
		has("one", "three", "four") // two would have been full first
		if n := admitted(q, "one", "", 1); n != 0 {
			t.Error("one has lost its debt")
		}
		if n := admitted(q, "two", "", 9); n != 4 {
			t.Errorf("two is admitted %d times, want 4", n)
		}
	})
}

// The buckets are bounded whatever principals there are, and the heap always has the bucket
// that is full first at its root.
func TestManyPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := using(perPrincipal(10, time.Second, 20))
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 3 * MaxPrincipals {
			admitted(q, fmt.Sprint("p", i), "", 1+r.IntN(3))
		}
		rule := q.rules[0]
		if len(rule.of) != MaxPrincipals || len(rule.byFull) != MaxPrincipals {
			t.Fatalf("%d buckets, %d in the heap, want %d", len(rule.of), len(rule.byFull), MaxPrincipals)
		}
		first := slices.MinFunc(rule.byFull, func(a, b *bucket) int { return a.full.Compare(b.full) })
		if !rule.byFull[0].full.Equal(first.full) {
			t.Error("the root of the heap is not full first")
		}
		for i, b := range rule.byFull {
			if b.index != i || rule.of[b.principal] != b {
				t.Fatalf("bucket %d has index %d", i, b.index)
			}
		}
	})
}

// Calls and reloads at once admit no more than the burst.
func TestConcurrently(t *testing.T) {
	rule := perPrincipal(1, 1000*time.Hour, 50)
	q := using(rule)
	var wg sync.WaitGroup // waited for below; each ends after its calls
	counts := make([]int, 8)
	for i := range counts {
		wg.Go(func() { counts[i] = admitted(q, "ci", "x", 100) })
	}
	wg.Go(func() {
		for range 100 {
			q.Use([]Rule{forAll(1, time.Hour, 1, "y"), rule})
			q.Use([]Rule{rule})
		}
	})
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	if total != 50 {
		t.Errorf("%d admitted, want 50", total)
	}
}

// Without rules a call costs a load, and with rules no allocation.
func TestTakeDoesNotAllocate(t *testing.T) {
	for name, q := range map[string]*Quotas{
		"none": using(),
		"two":  using(perPrincipal(1000, time.Second, 20, "other", "jira__*"), forAll(1, time.Hour, 1)),
	} {
		q.Take("ci", "jira__create")
		if n := testing.AllocsPerRun(200, func() { q.Take("ci", "jira__create") }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	rules := []Rule{perPrincipal(1e9, time.Second, 1e9), forAll(1e9, time.Second, 1e9, "llm__*", "jira__*")}
	for name, q := range map[string]*Quotas{"none": using(), "one": using(rules[0]), "two": using(rules...)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q.Take("ci", "jira__create")
			}
		})
	}
	b.Run("10000 principals", func(b *testing.B) {
		q := using(rules[0])
		principals := make([]string, MaxPrincipals)
		for i := range principals {
			principals[i] = fmt.Sprint("p", i)
			q.Take(principals[i], "")
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			q.Take(principals[i%len(principals)], "jira__create")
		}
	})
	b.Run("new principals", func(b *testing.B) {
		q := using(rules[0])
		principals := make([]string, 8*MaxPrincipals)
		for i := range principals {
			principals[i] = fmt.Sprint("p", i)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			q.Take(principals[i%len(principals)], "jira__create")
		}
	})
}

// A resource counts by each spelling of its URI, and a tool by its name alone.
func TestSpellingsOfURIs(t *testing.T) {
	for _, tt := range []struct {
		uri     string
		charged bool
	}{
		{"file:///data/a", true},
		{"FILE:///data/a", true},
		{"file:///d%61ta/a", true},
		{"file:///x/../data/a", true},
		{"file:///data/../x", true}, // as it is written
		{"file:///x", false},
	} {
		q := using(perPrincipal(1, time.Hour, 1, "file:///data/*"))
		q.TakeURI("ci", tt.uri, func() string { return glob.PlainURI(tt.uri) })
		if _, ok := q.TakeURI("ci", "file:///data/b", func() string { return "file:///data/b" }); ok == tt.charged {
			t.Errorf("%s is charged: %t, want %t", tt.uri, !ok, tt.charged)
		}
	}
	q := using(perPrincipal(1, time.Hour, 1, "a:x"))
	if n := admitted(q, "ci", "A:x", 3); n != 3 {
		t.Errorf("a tool with another name: %d admitted", n)
	}
}
