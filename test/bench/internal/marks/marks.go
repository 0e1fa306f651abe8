// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marks compares measurements with the values that they must have.
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

// Findings has measured values by keys such as "calls/100 B/legacy to modern/cpu": a group,
// a thing, a way, and a value. It may be used concurrently. The zero value is empty.
type Findings struct {
	mu     sync.Mutex
	values map[string]stats.Summary
}

// Set stores a value and replaces an earlier one.
func (f *Findings) Set(key string, s stats.Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = make(map[string]stats.Summary)
	}
	f.values[key] = s
}

// Get returns a value, and whether it was measured.
func (f *Findings) Get(key string) (stats.Summary, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.values[key]
	return s, ok && s.Rounds > 0
}

// All returns the values by their keys.
func (f *Findings) All() map[string]stats.Summary {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.values)
}

// Mark is a requirement for a value.
type Mark struct {
	Name string
	// Keys is the pattern of the keys of its values, in the form of [path.Match].
	Keys string
	// Limit is the mark: the maximum of the value, or the minimum if Least.
	Limit float64
	Least bool
	// Bound, unless it is 0, is the regression bound: the value that has been reached, with
	// room for noise, if that is far from the mark on either side.
	Bound float64
	// Slow, unless it is 0, is the bound on a slow machine, as IsSlow reports it.
	Slow float64
	// Unit is printed after the values.
	Unit string
	// Short marks a value that the short form judges: a ratio within one run, or a count. A
	// time, or a rate by itself, depends more on the machine.
	Short bool
}

// Verdict is a mark and one of its values.
type Verdict struct {
	Mark
	Key   string
	Value stats.Summary
}

// Kept reports whether the value is on the right side of the mark.
func (v Verdict) Kept() bool { return v.margin() >= 0 }

// Red reports whether the value is beyond its bound, or beyond its mark if it has no bound.
func (v Verdict) Red() bool { return v.slack() < 0 }

// LimitText formats the limit.
func (m Mark) LimitText() string { return m.sign() + Number(m.Limit) + m.Unit }

// BoundText formats the regression bound. It is empty if no bound is set.
func (m Mark) BoundText() string {
	if m.Bound == 0 {
		return ""
	}
	return m.sign() + Number(m.Bound) + m.Unit
}

func (m Mark) sign() string {
	if m.Least {
		return ">= "
	}
	return "<= "
}

// bound returns the regression bound, or the limit if no bound is set.
func (m Mark) bound() float64 {
	if m.Bound != 0 {
		return m.Bound
	}
	return m.Limit
}

// Word returns the verdict in one word.
func (v Verdict) Word() string {
	switch {
	case v.Red():
		return "RED"
	case !v.Kept():
		return "MISSED"
	}
	return "kept"
}

// String formats the value and its requirement.
func (v Verdict) String() string {
	want := "mark " + v.LimitText()
	if bound := v.BoundText(); bound != "" && (!v.Kept() || v.Red()) {
		want += ", bound " + bound
	}
	return fmt.Sprintf("%-6s %s: %s = %s%s (%s to %s in %d rounds), %s", v.Word(), v.Name, v.Key,
		Number(v.Value.Median), v.Unit, Number(v.Value.Least), Number(v.Value.Most), v.Value.Rounds, want)
}

// On a slow machine the yardstick takes more than slowFrom CPU seconds for the 1000 calls of
// slowKey. The machine of docs/performance.md needs 0.042, and the slow ones seen so far 0.065.
const (
	slowKey  = "calls/100 B/RP legacy/cpu"
	slowFrom = 0.055
)

// IsSlow reports whether the findings are those of a slow machine, where one and the same
// program has larger ratios to the yardstick than elsewhere. Without the value that decides
// it, the machine is not slow.
func IsSlow(f *Findings) bool {
	s, ok := f.Get(slowKey)
	return ok && s.Median > slowFrom
}

// Judge compares the findings with marks. If short is true, it judges only those of the
// short form. A mark without values has no verdict.
func Judge(all []Mark, f *Findings, short bool) []Verdict {
	values, slow := f.All(), IsSlow(f)
	var verdicts []Verdict
	for _, m := range all {
		if short && !m.Short {
			continue
		}
		if slow && m.Slow != 0 {
			m.Bound = m.Slow
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if matches(m.Keys, key) && values[key].Rounds > 0 {
				verdicts = append(verdicts, Verdict{Mark: m, Key: key, Value: values[key]})
			}
		}
	}
	return verdicts
}

// Unmeasured returns the marks of groups that have no values, only those of the short form
// if short is true. Without this check, a mark that lost its values would always be
// kept.
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

// near is how far the best round may be beyond the bound for a repeated measurement to have
// a chance.
const near = 0.2

// IsNear reports whether a failing value may pass in a repeated measurement: the best of
// its rounds passes, or almost.
func (v Verdict) IsNear() bool {
	room := near * math.Abs(v.bound())
	if v.Least {
		return v.Value.Most >= v.bound()-room
	}
	return v.Value.Least <= v.bound()+room
}

// Missed returns the verdicts about values that miss their mark, within their bound or not.
func Missed(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), Verdict.Kept)
}

// Red returns the verdicts about failing values.
func Red(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return !v.Red() })
}

// Print writes a line for each failing verdict, and for each other mark a line with its
// worst value.
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

// ByMark groups verdicts, as returned by Judge, by their marks.
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

// Worst returns the verdict with the value farthest beyond its mark, or nearest to it.
func Worst(verdicts []Verdict) Verdict { return slices.MinFunc(verdicts, compareMargins) }

func compareMargins(a, b Verdict) int { return cmp.Compare(a.margin(), b.margin()) }

// margin returns how far the value is on the right side of the mark.
func (v Verdict) margin() float64 { return v.within(v.Limit) }

// slack returns how far it is on the right side of its bound.
func (v Verdict) slack() float64 { return v.within(v.bound()) }

func (v Verdict) within(limit float64) float64 {
	if v.Least {
		return v.Value.Median - limit
	}
	return limit - v.Value.Median
}

// Number formats a value with three significant digits, and larger ones as integers.
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
