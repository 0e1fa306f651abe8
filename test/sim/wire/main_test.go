// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	flagSchedules = flag.Int("sim.schedules", 12, "how many schedules are played")
	flagSeed      = flag.Uint64("sim.seed", 1, "the seed of the first; each next one has the next")
	flagCount     = flag.Int("sim.count", 1, "how often each is played, until it fails")
	flagSchedule  = flag.String("sim.schedule", "", "play this one, as a failure prints it")
	flagSurvey    = flag.Bool("sim.survey", false, "go on after a failure, and print no more than what it is")
	flagUntil     = flag.String("sim.until", "", "as -sim.survey, but stop at a failure that matches this regular expression")
	flagTrace     = flag.Bool("sim.trace", false, "print the transcript of each")
)

// steps limits the steps of a random schedule, which sets its own limit.
const steps = 64

// TestSchedules plays schedules from one seed after another, on all processors.
func TestSchedules(t *testing.T) {
	if *flagSchedule != "" {
		replay(t, parse(t, *flagSchedule))
		return
	}
	var (
		next   atomic.Int64
		failed atomic.Bool
		mu     sync.Mutex
		sum    tally
	)
	began := time.Now()
	t.Run("all", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				var own tally
				for i := next.Add(1); i <= int64(*flagSchedules) && !failed.Load(); i = next.Add(1) {
					seed := *flagSeed + uint64(i) - 1
					if !playSeed(t, seed, &own) {
						failed.Store(true)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				sum.add(&own)
			})
		}
	})
	t.Log(sum.String(), "in", time.Since(began).Round(time.Millisecond))
}

// playSeed plays the schedule of a seed, and reports whether it passed. A failed one is
// shrunk, and printed with the command that repeats it.
func playSeed(t *testing.T, seed uint64, sum *tally) bool {
	var s choice.Source
	for range *flagCount {
		s.Random(seed, steps)
		out := play(t, &s)
		sum.add(&out.tally)
		if *flagTrace {
			t.Logf("seed %d:\n%s", seed, strings.Join(out.trace, "\n"))
		}
		if len(out.breach) == 0 {
			continue
		}
		if *flagSurvey || *flagUntil != "" {
			what, found := out.about(*flagUntil)
			t.Errorf("seed %d: %s", seed, what)
			return *flagSurvey || !found
		}
		schedule := s.Schedule()
		small, best := shrink(t, schedule, out)
		t.Errorf("seed %d: %d breaches, the first: %s\n\n%s\n\nthe same again:  go test ./test/sim/wire -run TestSchedules -sim.count=100 -sim.seed=%d -sim.schedules=1\n"+
			"made smaller:    go test ./test/sim/wire -run TestSchedules -sim.count=100 -sim.schedule=%s",
			seed, len(out.breach), out.breach[0], strings.Join(best.trace, "\n"), seed, format(small))
		return false
	}
	return true
}

// about returns the first breach that matches, or else the first: one mistake breaks
// several rules, and another may be the first to notice.
func (o *outcome) about(pattern string) (breach string, found bool) {
	i := slices.IndexFunc(o.breach, regexp.MustCompile(pattern).MatchString)
	return o.breach[max(0, i)], i >= 0
}

// Limits of shrinking. A schedule does not determine which goroutine runs first, so each
// candidate gets several chances to fail.
const (
	shrinkTries = 150
	shrinkPlays = 3
)

// shrink searches for a smaller schedule that fails in the same way.
func shrink(t *testing.T, schedule choice.Schedule, out outcome) (choice.Schedule, outcome) {
	small := choice.Shrink(schedule, shrinkTries, func(candidate choice.Schedule) bool {
		got, bad := playAgain(t, candidate, shrinkPlays)
		bad = bad && way(got.breach[0]) == way(out.breach[0])
		if bad {
			out = got
		}
		return bad
	})
	return small, out
}

// way returns what a breach is about, without its request.
func way(breach string) string {
	_, what, _ := strings.Cut(breach, "): ")
	return what[:min(len(what), 30)]
}

// playAgain plays a schedule until it fails, at most most times.
func playAgain(t *testing.T, schedule choice.Schedule, most int) (out outcome, bad bool) {
	var s choice.Source
	for range most {
		s.Again(schedule)
		if out = play(t, &s); len(out.breach) > 0 {
			return out, true
		}
	}
	return out, false
}

func replay(t *testing.T, schedule choice.Schedule) {
	out, bad := playAgain(t, schedule, *flagCount)
	t.Logf("the last transcript:\n%s", strings.Join(out.trace, "\n"))
	if bad {
		t.Errorf("%s", strings.Join(out.breach, "\n"))
	}
}

// format formats a schedule for a flag: commas between the choices of a step, slashes
// between steps.
func format(s choice.Schedule) string {
	lines := make([]string, len(s))
	for i, step := range s {
		words := make([]string, len(step))
		for k, v := range step {
			words[k] = strconv.FormatUint(uint64(v), 10)
		}
		lines[i] = strings.Join(words, ",")
	}
	return strings.Join(lines, "/")
}

func parse(t *testing.T, text string) choice.Schedule {
	t.Helper()
	var s choice.Schedule
	for line := range strings.SplitSeq(text, "/") {
		var step []uint32
		for word := range strings.SplitSeq(line, ",") {
			if word == "" {
				continue
			}
			v, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				t.Fatalf("-sim.schedule: %v", err)
			}
			step = append(step, uint32(v))
		}
		s = append(s, step)
	}
	return s
}

// String returns the tally as text.
func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d schedules, %d steps, %d requests: %d results, %d errors, %d refused, %d silent, %d broken off\nharm:",
		t.schedules, t.steps, t.requests, t.results, t.errors, t.refused, t.silent, t.brokenOff)
	for h, n := range t.harms {
		fmt.Fprintf(&b, " %s %d", fault(h), n)
	}
	b.WriteString("\ndeeds:")
	for _, k := range slices.Sorted(maps.Keys(t.deeds)) {
		fmt.Fprintf(&b, " %s %d;", k, t.deeds[k])
	}
	return b.String()
}
