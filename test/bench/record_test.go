// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestMetricOf(t *testing.T) {
	const out = "pkg: x\nBenchmarkA-2   \t 241\t 8790363 ns/op\t 0.2643 %\t 1.043 x\nBenchmarkA-2   \t 500\t 11 ns/op\t 0.5 %\t 1.012 x\nok  \tx 6.4s\n"
	for unit, want := range map[string][]float64{"x": {1.043, 1.012}, "%": {0.2643, 0.5}, "ns/op": {8790363, 11}, "y": nil} {
		if got := metricOf(out, unit); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", unit, got, want)
		}
	}
}
