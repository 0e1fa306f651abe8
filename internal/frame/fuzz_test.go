// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzEventReader compares the reader with the reference parser, on the stream cut at
// two places.
func FuzzEventReader(f *testing.F) {
	for i, tt := range eventCases() {
		f.Add([]byte(tt.stream), uint16(i), uint16(2*i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, a, b uint16) {
		want, wantID := refEvents(string(stream))
		got, lastID := readEvents(t, newCut(string(stream), int(min(a, b)), int(max(a, b))), 1<<20)
		if diff := cmp.Diff(got, want); diff != "" || lastID != wantID {
			t.Errorf("last id %q, want %q (-got +want):\n%s", lastID, wantID, diff)
		}
		limited(t, stream, int(a%64))
	})
}

// limited reads with a small limit, once whole and once in single bytes: the same
// events are over the limit, and no returned event is.
func limited(t *testing.T, stream []byte, limit int) {
	t.Helper()
	whole, _ := readEvents(t, bytes.NewReader(stream), limit)
	var each []int
	for i := range stream {
		each = append(each, i)
	}
	cut, _ := readEvents(t, newCut(string(stream), each...), limit)
	if diff := cmp.Diff(whole, cut); diff != "" {
		t.Errorf("limit %d: whole and in bytes differ:\n%s", limit, diff)
	}
	for _, e := range whole {
		if len(e.Data) > limit {
			t.Errorf("limit %d: %d bytes were returned", limit, len(e.Data))
		}
	}
}

// FuzzLineReader compares the reader with the reference, and writes the lines again.
func FuzzLineReader(f *testing.F) {
	for i, tt := range lineCases() {
		f.Add([]byte(tt.stream), uint16(i), uint8(10))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16, limit uint8) {
		want := refLines(string(stream), int(limit))
		got := readLines(t, newCut(string(stream), int(cut)), int(limit))
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
		for _, line := range got {
			out := AppendLine(nil, []byte(line))
			if bytes.Count(out, []byte("\n")) != 1 || bytes.ContainsRune(out, '\r') || len(out) != len(line)+1 {
				t.Errorf("AppendLine(%q) = %q", line, out)
			}
		}
	})
}
