// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// sooner returns how often an element of a is less than one of b, and half of how often they are
// equal, as a share of all pairs: the statistic of Mann and Whitney, 0.5 for equal distributions.
func sooner(a, b []time.Duration) float64 {
	b = slices.Sorted(slices.Values(b))
	pairs := 0.0
	for _, x := range a {
		less := sort.Search(len(b), func(i int) bool { return b[i] >= x })
		more := sort.Search(len(b), func(i int) bool { return b[i] > x })
		pairs += float64(len(b)-more) + float64(more-less)/2
	}
	return pairs / float64(len(a)*len(b))
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

func TestSooner(t *testing.T) {
	for _, tt := range []struct {
		a, b []time.Duration
		want float64
	}{
		{[]time.Duration{1, 2, 3}, []time.Duration{1, 2, 3}, 0.5},
		{[]time.Duration{1, 2}, []time.Duration{3, 4}, 1},
		{[]time.Duration{3, 4}, []time.Duration{1, 2}, 0},
		{[]time.Duration{1, 4}, []time.Duration{2, 3, 5}, 4.0 / 6},
	} {
		if got := sooner(tt.a, tt.b); got != tt.want {
			t.Errorf("sooner(%v, %v) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// identity N5, I18: a hidden item and an unknown one are refused in the same time.
//
// Both are asked for in turns, so that whatever else the machine does is with both. Equal
// distributions give 0.5, with a standard deviation of 0.013 for the first number of pairs and less
// for each larger one: the bounds are seven of them away. A single further rule, or a look at one
// template, gives 0.65 and more. A measurement outside is repeated with four times the pairs; the
// largest counts.
func TestHiddenAndUnknownTakeTheSameTime(t *testing.T) {
	g, _ := withPolicy(t, officeRules(), func(cfg *config.Config) { cfg.Audit.File = filepath.Join(t.TempDir(), "audit.jsonl") })
	bob := person("bob", "staff")
	for _, tt := range []struct{ method, params, hidden, unknown string }{
		{"tools/call", `{"name":%q,"arguments":{"a":1}}`, "office__secret", "office__absent"},
		{"prompts/get", `{"name":%q}`, "office__secret", "office__absent"},
		{"resources/read", `{"uri":%q}`, "doc:///secret", "doc:///absent"},
		{"resources/read", `{"uri":%q}`, "vault:///secret", "vaulx:///secret"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"b"}}`, "office__secret", "office__absent"},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"a","value":"b"}}`, "vault:///{id}", "vaulx:///{id}"},
	} {
		requests := [2]*mcp.Request{requestOf(t, bob, tt.method, fmt.Sprintf(tt.params, tt.hidden)), requestOf(t, bob, tt.method, fmt.Sprintf(tt.params, tt.unknown))}
		for pairs := 1000; ; pairs *= 4 {
			var times [2][]time.Duration
			for i := range 2 * pairs {
				which := (i + i/2) % 2 // each is the first one of a pair as often as the other
				began := time.Now()
				if _, err := g.Serve(t.Context(), requests[which], nil); err == nil {
					t.Fatalf("%s: it is not refused", tt.method)
				}
				times[which] = append(times[which], time.Since(began))
			}
			share := sooner(times[0], times[1])
			if share > 0.4 && share < 0.6 || testing.Short() { // beside other tests it measures them, too
				break
			}
			if pairs >= 16_000 {
				t.Errorf("%s: what is hidden (%s) is refused in %v, what is unknown in %v; the first is the sooner one in %.0f %%",
					tt.method, tt.hidden, median(times[0]), median(times[1]), 100*share)
				break
			}
		}
	}
}
