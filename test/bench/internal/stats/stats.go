// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stats summarizes the values of several rounds of a measurement.
package stats

import (
	"math"
	"slices"
)

// Summary has the median, the minimum and the maximum of rounds. The zero Summary is of no
// rounds.
type Summary struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Rounds int     `json:"rounds"`
}

// Of summarizes values. For an even number of them the median is between the two in the
// middle.
func Of(values ...float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (v[len(v)/2-1] + mid) / 2
	}
	return Summary{Median: mid, Least: v[0], Most: v[len(v)-1], Rounds: len(v)}
}

// Spread returns the range of the rounds as a share of the median.
func (s Summary) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return math.Abs((s.Most - s.Least) / s.Median)
}

// Each summarizes f of each round's values.
func Each[T any](rounds []T, f func(T) float64) Summary {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = f(r)
	}
	return Of(values...)
}

// Ratio summarizes the ratios of two measurements in the same rounds: the two values of a
// round come from the same state of the machine, which drifts from round to round. Rounds
// with a divisor that is not positive are left out.
func Ratio[T any](of, to []T, f func(T) float64) Summary {
	var values []float64
	for i := range min(len(of), len(to)) {
		if d := f(to[i]); d > 0 {
			values = append(values, f(of[i])/d)
		}
	}
	return Of(values...)
}
