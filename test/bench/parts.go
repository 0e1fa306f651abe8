// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// part is the result of one run of one benchmark of the gateway's packages.
type part struct {
	pkg, name                 string
	nanos, rate, bytes, count float64
}

// measureParts runs the benchmarks of the gateway's own packages.
func (b *bench) measureParts(ctx context.Context, _ *rig) error {
	packages := []string{"./internal/jsonscan", "./mcp", "./internal/frame", "./internal/catalog", "./internal/session"}
	// A third of a second is enough for benchmarks of at most milliseconds.
	args := append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", "300ms", "-count", strconv.Itoa(b.starts)}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // our own packages
	cmd.Dir = b.source
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	t := b.table("parts", "Parts", "`go test -bench` on one core. All columns but MB/s are per operation.", "package, benchmark", "ns", "MB/s", "bytes allocated", "allocations")
	order, found := byName(parseParts(string(out)))
	for _, key := range order {
		of := found[key]
		b.found.Set("parts/"+key+"/rate", rated(of))
		b.found.Set("parts/"+key+"/allocs", stats.Each(of, func(p part) float64 { return p.count }))
		rate := ""
		if s := rated(of); s.Rounds > 0 {
			rate = marks.Number(s.Median)
		}
		median := func(f func(part) float64) string { return marks.Number(stats.Each(of, f).Median) }
		t.Add(strings.Replace(key, "/", ", ", 1), median(func(p part) float64 { return p.nanos }), rate,
			median(func(p part) float64 { return p.bytes }), median(func(p part) float64 { return p.count }))
	}
	return nil
}

// rated summarizes the rates of a benchmark, if it has any.
func rated(of []part) stats.Summary {
	var rates []float64
	for _, p := range of {
		if p.rate > 0 {
			rates = append(rates, p.rate)
		}
	}
	return stats.Of(rates...)
}

// byName groups the results by package and benchmark, in the order of the output.
func byName(all []part) (order []string, found map[string][]part) {
	found = make(map[string][]part)
	for _, p := range all {
		key := p.pkg + "/" + p.name
		if found[key] == nil {
			order = append(order, key)
		}
		found[key] = append(found[key], p)
	}
	return order, found
}

// parseParts parses the output of go test (golang.org/design/14313-benchmark-format).
func parseParts(out string) []part {
	var all []part
	pkg := ""
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "pkg:" {
			pkg = path.Base(fields[1])
		}
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		p := part{pkg: pkg, name: benchmarkName(fields[0])}
		for i := 2; i+1 < len(fields); i += 2 {
			p.take(fields[i], fields[i+1])
		}
		all = append(all, p)
	}
	return all
}

// take stores a value by its unit.
func (p *part) take(value, unit string) {
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return // an additional metric of the benchmark
	}
	switch unit {
	case "ns/op":
		p.nanos = v
	case "MB/s":
		p.rate = v
	case "B/op":
		p.bytes = v
	case "allocs/op":
		p.count = v
	}
}

// benchmarkName makes a name readable: without the number of processors, and with one comma
// before the case. A slash would split a key.
func benchmarkName(name string) string {
	name = strings.TrimPrefix(name, "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "/", ", "), "_", " ")
}
