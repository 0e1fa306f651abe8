// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// identitySeries calls each method of identity once.
func identitySeries(m *Set) []Counter {
	m.PendingSignIns().Set(3)
	return []Counter{
		m.Decisions("staff", "allow"),
		m.Refreshes("github", "ok"),
		m.QuotaRefusals("quotas[0]"),
	}
}

// Nothing is served before the first use, and a series begins with zero. All and only these
// are in docs/metrics.md.
func TestIdentityMetrics(t *testing.T) {
	m := newMetrics(t, nil)
	unused := scrape(t, m)
	series := identitySeries(m)
	got := slices.DeleteFunc(scrape(t, m), func(line string) bool { return slices.Contains(unused, line) || line[0] == '#' })
	want := []string{
		`signalbox_decisions_total{decision="allow",rule="staff"} 0`,
		`signalbox_pending_sign_ins 3`,
		`signalbox_quota_refusals_total{quota="quotas[0]"} 0`,
		`signalbox_refreshes_total{backend="github",outcome="ok"} 0`,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("metrics (-got +want):\n%s", diff)
	}
	for _, c := range series {
		c.Inc()
	}
	now := scrape(t, m)
	for _, line := range want {
		if name, ok := strings.CutSuffix(line, " 0"); ok && !slices.Contains(now, name+" 1") {
			t.Errorf("%s is not 1", name)
		}
	}

	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Identity\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var documented, served []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(signalbox_[^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	for _, line := range want {
		name, _, _ := strings.Cut(line, " ")
		served = append(served, regexp.MustCompile(`="[^"]*"`).ReplaceAllString(name, ""))
	}
	slices.Sort(documented)
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("docs/metrics.md (-documented +served):\n%s", diff)
	}
}

// A count of a call does not allocate, even if the series is looked up each time.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := newMetrics(t, nil)
	if n := testing.AllocsPerRun(100, func() { m.Decisions("staff", "allow").Inc() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecision(b *testing.B) {
	m, err := New(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Decisions("staff", "allow").Inc()
	}
}
