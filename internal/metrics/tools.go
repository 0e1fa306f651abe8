// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTools bounds the histograms of single tools in one metric: each is 20 lines of an answer.
const maxTools = 1000

// tools are the durations of calls by tool, of one kind.
type tools struct {
	on atomic.Bool

	mu         sync.RWMutex
	histograms map[toolKey]*histogram
}

type toolKey struct{ backend, name, errorType string }

// histogram returns that of a key, or nil if there are too many or the names are not wanted.
func (t *tools) histogram(k toolKey) *histogram {
	t.mu.RLock()
	h := t.histograms[k]
	t.mu.RUnlock()
	if h != nil {
		return h
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h = t.histograms[k]; h == nil && len(t.histograms) < maxTools && t.on.Load() {
		if t.histograms == nil {
			t.histograms = make(map[toolKey]*histogram)
		}
		h = new(histogram)
		t.histograms[k] = h
	}
	return h
}

// use begins or ends to count by tool. What was counted is dropped at the end.
func (t *tools) use(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on.Store(on)
	if !on {
		t.histograms = nil
	}
}

func (t *tools) keep(offered func(backend, name string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.histograms, func(k toolKey, _ *histogram) bool { return !offered(k.backend, k.name) })
}

func (t *tools) collect(desc *prometheus.Desc, to chan<- prometheus.Metric) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for k, h := range t.histograms {
		to <- h.metric(desc, k.backend, names[0], k.errorType, k.name)
	}
}

// ObserveTool is Observe for a call of a tool that is offered, with its name. It counts
// without the name if there are too many.
func (o *Operations) ObserveTool(name, errorType string, d time.Duration) {
	if h := o.tools.histogram(toolKey{o.backend, name, errorType}); h != nil {
		h.Observe(d)
		return
	}
	o.Observe(names[0], errorType, d)
}

// UseTools sets whether ObserveTool counts by name, and whether the operations have a label
// for it.
func (m *Set) UseTools(on bool) {
	m.times.server.tools.use(on)
	m.times.client.tools.use(on)
}

// HasTools reports whether ObserveTool counts by name.
func (m *Set) HasTools() bool { return m.times.server.tools.on.Load() }

// KeepTools drops the durations of tools that are no longer offered.
func (m *Set) KeepTools(offered func(backend, name string) bool) {
	if m.HasTools() {
		m.times.server.tools.keep(offered)
		m.times.client.tools.keep(offered)
	}
}
