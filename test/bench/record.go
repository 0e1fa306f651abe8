// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// measureRecord compares a call with one that has no id and no record. Both are served by the
// same gateway in the process of a benchmark, in turns, because no gateway runs without.
func (b *bench) measureRecord(ctx context.Context, _ *rig) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkRecordOfACall$", "-benchtime", "3s", "-count", strconv.Itoa(b.starts), ".") //nolint:gosec // our own package
	cmd.Dir = b.source
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	ratio, alone := stats.Of(metricOf(string(out), "x")...), stats.Of(metricOf(string(out), "%")...)
	if ratio.Rounds == 0 {
		return fmt.Errorf("no result of the benchmark: %s", out)
	}
	b.found.Set("record/call/loopback/time-without", ratio)
	t := b.table("record", "Record of a call", "A call of 100 bytes over loopback, client and backend included, against one without an id, stages and a record, in turns. What these cost by themselves, as a share of the call.", "time x without", "alone, %")
	t.Add(marks.Number(ratio.Median), marks.Number(alone.Median))
	return nil
}

// metricOf returns the values of the benchmarks in the output of go test that have the unit.
func metricOf(out, unit string) (values []float64) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		i := slices.Index(fields, unit)
		if i < 1 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		if v, err := strconv.ParseFloat(fields[i-1], 64); err == nil {
			values = append(values, v)
		}
	}
	return values
}
