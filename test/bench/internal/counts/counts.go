// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package counts serves the counters of a process's Go runtime, in the text format and with
// the names that the gateway uses on /metrics, so that one reader parses both.
package counts

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Path is the path of the counters.
const Path = "/metrics"

// The names of the counters.
const (
	Mallocs    = "go_memstats_mallocs_total"
	Bytes      = "go_memstats_alloc_bytes_total"
	Heap       = "go_memstats_heap_alloc_bytes"
	Stacks     = "go_memstats_stack_inuse_bytes"
	Goroutines = "go_goroutines"
)

// sources returns, for each counter, the metrics of the runtime that are summed.
func sources() map[string][]string {
	return map[string][]string{
		Mallocs:    {"/gc/heap/allocs:objects", "/gc/heap/tiny/allocs:objects"},
		Bytes:      {"/gc/heap/allocs:bytes"},
		Heap:       {"/memory/classes/heap/objects:bytes"},
		Stacks:     {"/memory/classes/heap/stacks:bytes"},
		Goroutines: {"/sched/goroutines:goroutines"},
	}
}

// Handler serves the counters of this process.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for name, from := range sources() {
			if _, err := fmt.Fprintf(w, "%s %d\n", name, sum(from)); err != nil {
				return // the client has disconnected
			}
		}
	})
}

func sum(names []string) uint64 {
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	var total uint64
	for _, s := range samples {
		total += s.Value.Uint64()
	}
	return total
}

// Parse parses metrics without labels from the text format of Prometheus.
func Parse(r io.Reader) (map[string]float64, error) {
	found := make(map[string]float64)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") || strings.Contains(name, "{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		found[name] = n
	}
	return found, lines.Err()
}
