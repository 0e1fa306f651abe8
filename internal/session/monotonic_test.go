// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// far returns progress with a value.
func progressAt(value string) session.Message {
	m := msg(session.Progress, "t", value)
	m.Value = []byte(value)
	return m
}

// Each progress value of an exchange must be greater than the one before, compared as
// numbers; others are dropped and counted.
//
// C8- 2026-07-28 basic/patterns/progress: "The `progress` value MUST increase with each
// notification, even if the total is unknown."
func TestProgressMustIncrease(t *testing.T) {
	tests := []struct {
		name    string
		values  []string
		want    []string
		dropped uint64
	}{
		{"forth", []string{"0", "1", "2"}, []string{"0", "1", "2"}, 0},
		{"back", []string{"1", "3", "2", "0", "-1", "4"}, []string{"1", "3", "4"}, 3},
		{"the same", []string{"1", "1", "1.0", "10e-1"}, []string{"1"}, 3},
		{"fractions", []string{"0.1", "0.25", "0.2", "0.5"}, []string{"0.1", "0.25", "0.5"}, 1},
		{"below nothing", []string{"-2", "-1.5", "-3", "0"}, []string{"-2", "-1.5", "0"}, 1},
		{"large", []string{"9007199254740992", "9007199254740993", "9007199254740993"}, []string{"9007199254740992", "9007199254740993"}, 1},
		{"larger than any", []string{"1e400", "1e401", "2"}, []string{"1e400"}, 2},
		{"mixed", []string{"1", "1.5", "2e0", "1e1", "9"}, []string{"1", "1.5", "2e0", "1e1"}, 1},
		{"values that are not numbers are not compared", []string{"2", `"1"`, "null", "1"}, []string{"2", `"1"`, "null"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rules()
			r.Limits.Messages, r.Limits.Bytes = 1000, 1<<20
			x := stateless(t, r)
			c := attach(x.Stream())
			for _, v := range tt.values {
				if _, full, err := x.Report(progressAt(v), time.Unix(1000, 0)); full != nil || err != nil {
					t.Errorf("Report(%s): full %v, %v", v, full != nil, err)
				}
			}
			wantTake(t, c, session.Open, tt.want...)
			if got := r.Counts.Dropped.Load(); got != tt.dropped {
				t.Errorf("dropped = %d, want %d", got, tt.dropped)
			}
		})
	}
}

// Deferred progress counts as reported, and progress that did not fit does not.
func TestDeferredProgressCountsAsReported(t *testing.T) {
	now := time.Unix(1000, 0)
	x := stateless(t, rateLimited())
	c := attach(x.Stream())
	for _, v := range []string{"1", "2", "3", "9", "5"} {
		_, _, _ = x.Report(progressAt(v), now)
	}
	x.Finish(plain("end"))
	wantTake(t, c, session.Ended, "1", "2", "3", "9", "end")

	r := rules()
	r.Limits.Messages = 1
	y := stateless(t, r)
	c = attach(y.Stream())
	mustAppend(t, y.Stream(), plain("first"))
	if _, full, _ := y.Report(progressAt("1"), now); full == nil {
		t.Fatal("the stream is not full")
	}
	wantTake(t, c, session.Open, "first")
	if _, full, err := y.Report(progressAt("1"), now); full != nil || err != nil {
		t.Errorf("once more: full %v, %v", full != nil, err)
	}
	wantTake(t, c, session.Open, "1")
}
