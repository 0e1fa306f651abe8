// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reports records the reports of a meter.
type reports struct {
	mu     sync.Mutex
	counts map[string]int
	order  []string
	times  int
}

func (d *reports) tell(key string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = make(map[string]int)
	}
	d.counts[key] += n
	d.order = append(d.order, key)
	d.times++
}

func (d *reports) all() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// flood offers n things of a key at once and returns the number of admitted ones.
func flood(m *Meter[string], key string, n int) int {
	passed := 0
	for range n {
		if m.Admit(key, time.Now()) {
			passed++
		}
	}
	return passed
}

func TestMeterPassesABurstAndCountsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d reports
		m := NewMeter(10, 8, d.tell)
		if got := flood(m, "a", 25); got != 10 {
			t.Errorf("%d pass of 25 at once, want 10", got)
		}
		if got := flood(m, "b", 3); got != 3 {
			t.Errorf("%d pass of 3 of another key, want all", got)
		}
		if got := d.all(); got != nil {
			t.Errorf("told at once: %v", got)
		}
		<-time.After(reportEvery)
		synctest.Wait()
		if diff := cmp.Diff(d.all(), map[string]int{"a": 15}); diff != "" {
			t.Errorf("told (-got +want):\n%s", diff)
		}
		if got := flood(m, "a", 25); got != 10 {
			t.Errorf("%d pass a second later, want 10", got)
		}
	})
}

// Reports are in the order in which the drops began.
func TestMeterReportsInOrder(t *testing.T) {
	var d reports
	m := NewMeter(1, 64, d.tell)
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint(i*7%50))
		flood(m, want[i], 3)
	}
	flood(m, want[40], 3)
	m.Report()
	if diff := cmp.Diff(d.order, want); diff != "" {
		t.Errorf("told (-got +want):\n%s", diff)
	}
}

// The rate is enforced as long as the flood lasts, with one report per second.
func TestMeterReportsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d reports
		m := NewMeter(10, 8, d.tell)
		passed := 0
		const seconds, each = 20, 100
		for range seconds * each {
			passed += flood(m, "a", 1)
			<-time.After(time.Second / each)
		}
		<-time.After(reportEvery)
		synctest.Wait()
		if most := 10 + seconds*10; passed > most || passed < most-10 {
			t.Errorf("%d pass in %d seconds, want about %d", passed, seconds, most)
		}
		if got := d.all()["a"]; got != seconds*each-passed {
			t.Errorf("told of %d, and %d did not pass", got, seconds*each-passed)
		}
		if d.times > seconds+1 || d.times < seconds-1 {
			t.Errorf("told %d times in %d seconds", d.times, seconds)
		}
	})
}

// Without drops there is no timer, so that an idle gateway does not wake up.
func TestMeterIsSilentWithoutAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d reports
		m := NewMeter(10, 8, d.tell)
		flood(m, "a", 10)
		<-time.After(time.Minute)
		m.Report()
		if d.times != 0 || m.timer != nil {
			t.Errorf("told %d times, timer %v", d.times, m.timer)
		}
		flood(m, "a", 11)
		m.Report()
		if d.times != 1 || m.timer != nil {
			t.Errorf("told %d times when asked, timer %v", d.times, m.timer)
		}
		<-time.After(time.Minute)
		if d.times != 1 {
			t.Errorf("told %d times, want no second time", d.times)
		}
	})
}

// Arbitrary keys use no additional memory and do not avoid the limit.
func TestMeterKeepsAFixedNumberOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d reports
		const most, keys = 5, 8
		m := NewMeter(most, keys, d.tell)
		passed := 0
		for i := range 1000 {
			passed += flood(m, fmt.Sprint("key", i), 1)
		}
		// One of each kept key, and a burst of all the others together.
		if want := keys + most; passed != want {
			t.Errorf("%d pass of 1000 keys, want %d", passed, want)
		}
		if got := len(m.kept); got > keys+1 {
			t.Errorf("%d keys are kept, want at most %d and the one for the rest", got, keys)
		}
		m.Report()
		if got := d.all()[""]; got != 1000-passed {
			t.Errorf("told of %d others, want %d", got, 1000-passed)
		}
		<-time.After(2 * time.Second)
		if got := flood(m, "later", most+3); got != most {
			t.Errorf("%d of a new key pass when the others are idle, want %d", got, most)
		}
		if got := len(m.kept); got > 2 {
			t.Errorf("%d keys are kept though none but one is in use", got)
		}
	})
}

// A key with an unreported count is not removed.
func TestMeterForgetsNoCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d reports
		m := NewMeter(1, 2, d.tell)
		flood(m, "a", 5)
		<-time.After(reportEvery / 2)
		m.mu.Lock()
		m.forgetLocked(time.Now().Add(time.Hour))
		m.mu.Unlock()
		<-time.After(reportEvery)
		synctest.Wait()
		if got := d.all()["a"]; got != 4 {
			t.Errorf("told of %d, want 4", got)
		}
	})
}

func TestMeterConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d reports
		m := NewMeter(10, 4, d.tell)
		var passed atomic.Int64
		var all sync.WaitGroup
		const callers, each = 8, 200
		for i := range callers {
			all.Go(func() { // ends by itself; waited for below
				for j := range each {
					passed.Add(int64(flood(m, fmt.Sprint(i, j%7), 1)))
				}
			})
		}
		all.Wait()
		<-time.After(reportEvery)
		synctest.Wait()
		sum := int(passed.Load())
		for _, key := range slices.Sorted(maps.Keys(d.all())) {
			sum += d.all()[key]
		}
		if sum != callers*each {
			t.Errorf("%d passed or were told of, want %d", sum, callers*each)
		}
	})
}

// A caller with an earlier time gets no additional tokens.
func TestMeterOfTimesOutOfOrder(t *testing.T) {
	var d reports
	m := NewMeter(10, 4, d.tell)
	now, passed := time.Now(), 0
	for i := range 1000 {
		if m.Admit("k", now.Add(-time.Duration(i%2)*time.Second)) {
			passed++
		}
	}
	m.Report()
	if passed != 10 || d.all()["k"] != 990 {
		t.Errorf("%d passed at one time and %d are told to have not; want 10 and 990", passed, d.all()["k"])
	}
}
