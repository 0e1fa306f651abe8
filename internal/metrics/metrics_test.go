// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scrape returns the lines of the gateway's own metrics.
func scrape(t *testing.T, m *Set) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var ours []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, Prefix) {
			ours = append(ours, strings.TrimSuffix(line, "\n"))
		}
	}
	return ours
}

func newMetrics(t *testing.T, instruments []Instrument, kinds ...string) *Set {
	t.Helper()
	m, err := New(instruments, kinds)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The text has names with the suffixes of their types, help, types, and zeros for counters
// without events.
func TestMetricsText(t *testing.T) {
	sessions := int64(3)
	m := newMetrics(t, []Instrument{
		{Name: "sessions", Help: "Sessions of clients.", Read: func() []Value { return One(sessions) }},
		{Name: "backend_requests", Help: "Requests to the backend.", Counter: true, Read: func() []Value {
			return []Value{{Number: 2, Key: "backend", Label: "a"}, {Number: 5, Key: "backend", Label: `odd"name\`}}
		}},
	}, "foreign_host", "limited")
	m.Event(t.Context(), "limited")
	m.Event(t.Context(), "limited")
	m.Reload(t.Context(), true)
	m.AuditFailure(t.Context())
	want := []string{
		`# HELP signalbox_audit_failures_total Entries of the audit record that did not reach its file.`,
		`# TYPE signalbox_audit_failures_total counter`,
		`signalbox_audit_failures_total 1`,
		`# HELP signalbox_backend_requests_total Requests to the backend.`,
		`# TYPE signalbox_backend_requests_total counter`,
		`signalbox_backend_requests_total{backend="a"} 2`,
		`signalbox_backend_requests_total{backend="odd\"name\\"} 5`,
		`# HELP signalbox_events_total Rejected requests and other security events, by kind.`,
		`# TYPE signalbox_events_total counter`,
		`signalbox_events_total{kind="foreign_host"} 0`,
		`signalbox_events_total{kind="limited"} 2`,
		`# HELP signalbox_reloads_total Configurations that were applied and refused since the start.`,
		`# TYPE signalbox_reloads_total counter`,
		`signalbox_reloads_total{result="applied"} 1`,
		`signalbox_reloads_total{result="refused"} 0`,
		`# HELP signalbox_sessions Sessions of clients.`,
		`# TYPE signalbox_sessions gauge`,
		`signalbox_sessions 3`,
	}
	if diff := cmp.Diff(scrape(t, m), want); diff != "" {
		t.Errorf("metrics (-got +want):\n%s", diff)
	}
	sessions = 4
	if got := scrape(t, m); got[len(got)-1] != "signalbox_sessions 4" {
		t.Errorf("read again: %s", got[len(got)-1])
	}
}

// The label of a removed backend disappears.
func TestMetricsForgetWhatIsGone(t *testing.T) {
	names := []string{"a", "b"}
	m := newMetrics(t, []Instrument{{Name: "live", Help: "x", Read: func() []Value {
		var values []Value
		for _, name := range names {
			values = append(values, Value{Number: 1, Key: "backend", Label: name})
		}
		return values
	}}})
	all := strings.Join(scrape(t, m), "\n")
	names = []string{"b"}
	fewer := strings.Join(scrape(t, m), "\n")
	if !strings.Contains(all, `{backend="a"}`) || strings.Contains(fewer, `{backend="a"}`) || !strings.Contains(fewer, `{backend="b"}`) {
		t.Errorf("before:\n%s\nafter:\n%s", all, fewer)
	}
}

// Metrics of the process and the runtime are included.
func TestMetricsOfTheProcess(t *testing.T) {
	w := httptest.NewRecorder()
	newMetrics(t, nil).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, name := range []string{"\ngo_goroutines ", "\ngo_memstats_heap_alloc_bytes "} {
		if !strings.Contains(w.Body.String(), name) {
			t.Errorf("no metric %q", strings.TrimSpace(name))
		}
	}
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("content type %q", got)
	}
	for _, stray := range []string{"otel_scope", "target_info"} {
		if strings.Contains(w.Body.String(), stray) {
			t.Errorf("%s is nobody's concern here", stray)
		}
	}
}

// An invalid instrument is an error of New.
func TestMetricsRefuseABadName(t *testing.T) {
	_, err := New([]Instrument{{Name: "no spaces", Read: func() []Value { return One(1) }}}, nil)
	if err == nil || !strings.Contains(err.Error(), "no spaces") {
		t.Errorf("error %v, want one with the name", err)
	}
}

// Collections and events may be concurrent.
func TestMetricsConcurrently(t *testing.T) {
	m := newMetrics(t, nil, "x")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // ends by itself; waited for below
			for range 50 {
				m.Event(t.Context(), "x")
			}
		})
		all.Go(func() { // ends by itself; waited for below
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		})
	}
	all.Wait()
	if got := strings.Join(scrape(t, m), "\n"); !strings.Contains(got, fmt.Sprintf("signalbox_events_total{kind=%q} 200", "x")) {
		t.Errorf("counted:\n%s", got)
	}
}
