// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"one", []string{"-seed", "7"}, 0, "seed 7: all well"},
		{"many", []string{"-n", "20", "-workers", "1"}, 0, "20 schedules; in each, on average:"},
		{"nothing of the kind", []string{"-sed", "7"}, 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs strings.Builder
			if code := run(tt.args, &out, &errs); code != tt.code {
				t.Errorf("exit %d, want %d: %s", code, tt.code, &errs)
			}
			if !strings.Contains(out.String(), tt.out) {
				t.Errorf("output %q, want %q in it", &out, tt.out)
			}
		})
	}
}
