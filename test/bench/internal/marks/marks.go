// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marks says what has been measured, what it has to be, and whether it is.
package marks

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// Findings is what was measured, by keys such as
// "calls/100 B/legacy to modern/cpu": a group, a thing, who, and which of its values.
// It may be used concurrently. The zero value is empty.
type Findings struct {
	mu     sync.Mutex
	values map[string]stats.Summary
}

// Set puts down a value; one that was there before is replaced.
func (f *Findings) Set(key string, s stats.Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = make(map[string]stats.Summary)
	}
	f.values[key] = s
}

// Get is a value, and whether it was measured.
func (f *Findings) Get(key string) (stats.Summary, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.values[key]
	return s, ok && s.Rounds > 0
}

// All are the values by their keys.
func (f *Findings) All() map[string]stats.Summary {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.values)
}

// Mark is what a value has to be.
type Mark struct {
	Name string
	// Keys is the pattern, in the form of [path.Match], of the keys that it is for.
	Keys string
	// Limit is the mark: the value has to be at most that, or at least if Least.
	Limit float64
	Least bool
	// Held, unless it is 0, is what has been reached, with room for noise, where that is
	// far from the mark on either side of it. It is not to be lost again.
	Held float64
	// Unit stands behind the values.
	Unit string
	// Short says that the short form judges it: it is a ratio within one run, or a
	// count. A time, or a rate by itself, says more about the machine.
	Short bool
}

// Verdict is a mark and one value that it is for.
type Verdict struct {
	Mark
	Key   string
	Value stats.Summary
}

// Kept reports whether the value is on the right side of the mark.
func (v Verdict) Kept() bool { return v.margin() >= 0 }

// Red reports whether the value has passed what it must not: what was reached where that
// is held, and else the mark.
func (v Verdict) Red() bool { return v.slack() < 0 }

// Bound says what a value has to be.
func (m Mark) Bound() string { return m.sign() + Number(m.Limit) + m.Unit }

// HeldAt says what a value must not pass, and is empty where that is the mark.
func (m Mark) HeldAt() string {
	if m.Held == 0 {
		return ""
	}
	return m.sign() + Number(m.Held) + m.Unit
}

func (m Mark) sign() string {
	if m.Least {
		return ">= "
	}
	return "<= "
}

// bound is what a value must not pass.
func (m Mark) bound() float64 {
	if m.Held != 0 {
		return m.Held
	}
	return m.Limit
}

// Word is the verdict in one word.
func (v Verdict) Word() string {
	switch {
	case v.Red():
		return "RED"
	case !v.Kept():
		return "MISSED"
	}
	return "kept"
}

// String says what was measured and what was wanted.
func (v Verdict) String() string {
	bound := "mark " + v.Bound()
	if held := v.HeldAt(); held != "" && (!v.Kept() || v.Red()) {
		bound += ", held at " + held
	}
	return fmt.Sprintf("%-6s %s: %s = %s%s (%s to %s in %d rounds), %s", v.Word(), v.Name, v.Key,
		Number(v.Value.Median), v.Unit, Number(v.Value.Least), Number(v.Value.Most), v.Value.Rounds, bound)
}

// Judge holds the findings against marks. Only those of the short form are judged if
// short is true. A mark that nothing was measured for has no verdict.
func Judge(all []Mark, f *Findings, short bool) []Verdict {
	values := f.All()
	var verdicts []Verdict
	for _, m := range all {
		if short && !m.Short {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if matches(m.Keys, key) && values[key].Rounds > 0 {
				verdicts = append(verdicts, Verdict{Mark: m, Key: key, Value: values[key]})
			}
		}
	}
	return verdicts
}

// Unmeasured are the marks of groups, those of the short form if short is true, that
// nothing was measured for: a mark whose values are gone would be kept for ever.
func Unmeasured(all []Mark, f *Findings, short bool, groups []string) []Mark {
	return slices.DeleteFunc(slices.Clone(all), func(m Mark) bool {
		group, _, _ := strings.Cut(m.Keys, "/")
		return short && !m.Short || !slices.Contains(groups, group) || len(Judge([]Mark{m}, f, short)) > 0
	})
}

func matches(pattern, key string) bool {
	ok, err := path.Match(pattern, key)
	return ok && err == nil
}

// near is how far the best round may be beyond the bound for another measurement to
// have a chance.
const near = 0.2

// IsNear reports whether a value that is red might not be so another time: the best of
// its rounds is not, or hardly.
func (v Verdict) IsNear() bool {
	room := near * math.Abs(v.bound())
	if v.Least {
		return v.Value.Most >= v.bound()-room
	}
	return v.Value.Least <= v.bound()+room
}

// Missed are the verdicts about values that miss their mark, held or not.
func Missed(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), Verdict.Kept)
}

// Red are the verdicts about values that have passed what they must not.
func Red(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return !v.Red() })
}

// Print writes each verdict that is red on a line of its own, and of each mark that has
// none one line, with the value that is worst.
func Print(w io.Writer, verdicts []Verdict) error {
	for _, of := range ByMark(verdicts) {
		lines := Red(of)
		rest := ""
		if len(lines) == 0 {
			lines, rest = []Verdict{Worst(of)}, fmt.Sprintf(" (the worst of %d)", len(of))
		}
		for _, v := range lines {
			if _, err := fmt.Fprintf(w, "%s%s\n", v, rest); err != nil {
				return err
			}
		}
	}
	return nil
}

// ByMark divides verdicts, as Judge returns them, into those of each mark.
func ByMark(verdicts []Verdict) [][]Verdict {
	var all [][]Verdict
	for _, v := range verdicts {
		if n := len(all); n > 0 && all[n-1][0].Name == v.Name {
			all[n-1] = append(all[n-1], v)
			continue
		}
		all = append(all, []Verdict{v})
	}
	return all
}

// Worst is the verdict whose value is farthest beyond its mark, or nearest to it.
func Worst(verdicts []Verdict) Verdict { return slices.MinFunc(verdicts, compareMargins) }

func compareMargins(a, b Verdict) int { return cmp.Compare(a.margin(), b.margin()) }

// margin is how far the value is on the right side of the mark.
func (v Verdict) margin() float64 { return v.within(v.Limit) }

// slack is how far it is on the right side of what it must not pass.
func (v Verdict) slack() float64 { return v.within(v.bound()) }

func (v Verdict) within(limit float64) float64 {
	if v.Least {
		return v.Value.Median - limit
	}
	return limit - v.Value.Median
}

// Number writes a value with three digits that count, and larger ones whole.
func Number(v float64) string {
	switch {
	case v >= 100 || v <= -100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1 || v <= -1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
