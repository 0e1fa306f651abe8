// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package stats

import "testing"

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   Summary
	}{
		{nil, Summary{}},
		{[]float64{3}, Summary{3, 3, 3, 1}},
		{[]float64{3, 1, 2}, Summary{2, 1, 3, 3}},
		{[]float64{4, 1, 2, 3}, Summary{2.5, 1, 4, 4}},
	} {
		if got := Of(tt.values...); got != tt.want {
			t.Errorf("Of(%v) = %+v, want %+v", tt.values, got, tt.want)
		}
	}
}

func TestRatioIsOfTheSameRounds(t *testing.T) {
	same := func(v float64) float64 { return v }
	// The machine is twice as slow in the second round, for both.
	if got := Ratio([]float64{2, 4, 2}, []float64{1, 2, 1}, same); got != (Summary{2, 2, 2, 3}) {
		t.Errorf("got %+v, want 2 in each of 3 rounds", got)
	}
	if got := Ratio([]float64{2, 4}, []float64{0, 2}, same); got != (Summary{2, 2, 2, 1}) {
		t.Errorf("got %+v, want the round that says something", got)
	}
	if got := Ratio([]float64{2}, nil, same); got.Rounds != 0 {
		t.Errorf("got %+v of nothing", got)
	}
}

func TestSpread(t *testing.T) {
	if got := Of(9, 10, 12).Spread(); got != 0.3 {
		t.Errorf("got %v, want 0.3", got)
	}
	if got := (Summary{}).Spread(); got != 0 {
		t.Errorf("got %v of nothing", got)
	}
}
