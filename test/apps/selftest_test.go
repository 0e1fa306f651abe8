// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"slices"
	"strings"
	"testing"
)

// sample has three servers on two ways; one result is missing.
func sample() results {
	at := func(w way, server string, c check, ok bool) result {
		r := result{host: eraLegacy, servers: eraLegacy, way: w, server: server, check: c, ok: ok}
		if !ok {
			r.problem = "not reached"
		}
		return r
	}
	return results{
		at(direct, "map", page, true), at(direct, "pdf", page, true),
		at(together, "map", page, true), at(together, "pdf", page, false), at(together, "debug", page, true),
	}
}

func TestJudge(t *testing.T) {
	want := []string{"a legacy host, legacy servers, one endpoint: page of pdf: not reached"}
	if got := sample().judge(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTable(t *testing.T) {
	got := strings.Split(sample().table(), "\n")
	want := map[int]string{1: "2|2|", 2: "||", 5: "2|3|"}
	for i, cell := range want {
		if fields := strings.Fields(got[i]); !slices.Contains(fields, cell) {
			t.Errorf("line %d is %q, want the cell %q", i, got[i], cell)
		}
	}
}

// TestChecksOf has the names that only some servers have.
func TestChecksOf(t *testing.T) {
	tests := []struct {
		server string
		way    way
		check  check
		want   bool
	}{
		{"map", together, calls, true},
		{"map", together, ambiguous, false},
		{"basic-react", together, calls, false},
		{"basic-react", together, ambiguous, true},
		{"basic-react", own, calls, true},
		{"map", direct, hidden, false},
		{plain, together, page, false},
	}
	for _, tt := range tests {
		if got := slices.Contains(checksOf(tt.server, tt.way), tt.check); got != tt.want {
			t.Errorf("%s, %s, %s: %v, want %v", tt.server, tt.way, tt.check, got, tt.want)
		}
	}
}
