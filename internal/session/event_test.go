// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"math"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

func TestEventIDText(t *testing.T) {
	for _, e := range []session.EventID{
		{Stream: 1}, {Stream: 35, Pos: 36}, {Stream: math.MaxUint64, Pos: math.MaxUint64}, {Pos: 1},
	} {
		got, ok := session.ParseEventID(e.String())
		if !ok || got != e {
			t.Errorf("ParseEventID(%q) = %v, %v; want %v", e.String(), got, ok, e)
		}
		if n := testing.AllocsPerRun(10, func() { _ = e.String() }); n > 1 {
			t.Errorf("%s: %v allocations, want 1", e, n)
		}
	}
}

// I14: an id is untrusted input. Only the output of String is accepted.
func TestParseEventIDRejectsOtherSpellings(t *testing.T) {
	for _, text := range []string{
		"", "-", "1", "1-", "-1", "0-0", "01-1", "1-01", "1-1-1", "+1-1", "1-+1", " 1-1", "1-1 ", "1-1\n", "1--1", "A-1", "1_0-1",
		"3w5e11264sgsg-1", "1-3w5e11264sgsg", "\x00-1", "1.1", "é-1", strings.Repeat("9", 8000) + "-1",
	} {
		if got, ok := session.ParseEventID(text); ok {
			t.Errorf("ParseEventID(%.40q) = %v, want none", text, got)
		}
	}
}

func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"1-1", "zz-0", "3w5e11264sgsf-3w5e11264sgsf", "0-0", "x", "-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e, ok := session.ParseEventID(text); ok && (e.String() != text || e.IsZero()) {
			t.Errorf("ParseEventID(%q) = %v, which is %q", text, e, e)
		}
	})
}
