// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAppend(t *testing.T) {
	tests := []struct {
		name, got, want string
	}{
		{"event", string(AppendEvent(nil, "", []byte("{}"))), "event: message\ndata: {}\n\n"},
		{"event with an id", string(AppendEvent(nil, "a/1", []byte("{}"))), "event: message\nid: a/1\ndata: {}\n\n"},
		{"event in parts", string(AppendEvent(nil, "a", []byte("{\"a\":"), []byte("[1,\n2]"), nil, []byte("}"))), "event: message\nid: a\ndata: {\"a\":[1, 2]}\n\n"},
		{"event over lines", string(AppendEvent(nil, "", []byte("{\r\n\"a\": 1\n}"))), "event: message\ndata: {  \"a\": 1 }\n\n"},
		{"id that would begin another field", string(AppendEvent(nil, "1\ndata: {}", []byte("[]"))), "event: message\ndata: []\n\n"},
		{"id with CR", string(AppendEvent(nil, "1\r", []byte("[]"))), "event: message\ndata: []\n\n"},
		{"id with NUL", string(AppendEvent(nil, "1\x00", []byte("[]"))), "event: message\ndata: []\n\n"},
		{"after something", string(AppendEvent([]byte("x\n"), "", []byte("{}"))), "x\nevent: message\ndata: {}\n\n"},
		{"priming", string(AppendPriming(nil, "a/0")), "id: a/0\ndata:\n\n"},
		{"endpoint", string(AppendEndpoint(nil, "/m?id=1\nx")), "event: endpoint\ndata: /m?id=1 x\n\n"},
		{"retry", string(AppendRetry(nil, 3*time.Second)), "retry: 3000\n\n"},
		{"retry, rounded up", string(AppendRetry(nil, 1)), "retry: 1\n\n"},
		{"retry, at once", string(AppendRetry(nil, 0)), "retry: 0\n\n"},
		{"retry, negative", string(AppendRetry(nil, -time.Second)), "retry: 0\n\n"},
		{"comment", string(AppendComment(nil, "alive")), ": alive\n\n"},
		{"comment that would begin an event", string(AppendComment(nil, "a\n\ndata: {}")), ": a  data: {}\n\n"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

// Written events are read again, also by an independent parser, as far as the reference
// is one.
func TestEventRoundTrip(t *testing.T) {
	var stream []byte
	stream = AppendComment(stream, "hello")
	stream = AppendPriming(stream, "s/0")
	stream = AppendEvent(stream, "s/1", []byte(`{"a":"x\ny"}`))
	stream = AppendComment(stream, "")
	stream = AppendEvent(stream, "", []byte("[\n1]"))
	stream = AppendRetry(stream, 1500*time.Millisecond)
	want := []Event{
		{Name: "message", ID: "s/0", HasID: true, Data: []byte{}, Retry: noRetry},
		{Name: "message", ID: "s/1", HasID: true, Data: []byte(`{"a":"x\ny"}`), Retry: noRetry},
		{Name: "message", Data: []byte("[ 1]"), Retry: noRetry},
		{Name: "message", Retry: 1500 * time.Millisecond},
	}
	got, lastID := readEvents(t, bytes.NewReader(stream), 100)
	if diff := cmp.Diff(got, want); diff != "" || lastID != "s/1" {
		t.Errorf("last id %q (-got +want):\n%s", lastID, diff)
	}
	if ref, _ := refEvents(string(stream)); !cmp.Equal(ref, want) {
		t.Errorf("the reference reads something else: %s", cmp.Diff(ref, want))
	}
}

func TestAppendAllocations(t *testing.T) {
	dst := make([]byte, 0, 4096)
	msg := []byte("{\n\"a\":\n1}")
	got := testing.AllocsPerRun(100, func() {
		dst = AppendEvent(dst[:0], "s/1", msg)
		dst = AppendPriming(dst, "s/2")
		dst = AppendComment(dst, "alive")
		dst = AppendRetry(dst, time.Second)
		dst = AppendLine(dst, msg)
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
