// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"
	"time"
)

// An id is ten digits without those that are taken for others, and is read back from what
// people type.
func TestCallIDText(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	for counter, want := range map[uint64]string{0: "662wa-00000", 1: "662wa-00001", 1<<14 - 1: "662wa-00fzz", 1 << 14: "662wa-00g00"} {
		id := CallIDAt(at, counter)
		if got := id.String(); got != want {
			t.Errorf("counter %d: %q, want %q", counter, got, want)
		}
		for _, text := range []string{want, strings.ToUpper(want), want[:5] + want[6:]} {
			if got, ok := ParseCallID(text); got != id || !ok {
				t.Errorf("ParseCallID(%q) = %v, %v; want %v", text, got, ok, id)
			}
		}
	}
	if got, ok := ParseCallID("7K3M9-Q2XFA"); !ok || got.String() != "7k3m9-q2xfa" {
		t.Errorf("ParseCallID = %v, %v", got, ok)
	}
	if got, ok := ParseCallID("ilo00-00000"); !ok || got.String() != "11000-00000" {
		t.Errorf("letters like digits: %v, %v", got, ok)
	}
	for _, text := range []string{"", "7k3m9", "7k3m9-q2xf", "7k3m9-q2xfaa", "7k3m-9q2xfa", "7k3m9q-2xfa", "7k3m9_q2xfa", "7k3m9-q2xfu", "00000-00000", "everything__echo"} {
		if id, ok := ParseCallID(text); ok {
			t.Errorf("ParseCallID(%q) = %v", text, id)
		}
	}
	if text := CallID(0).String(); text != "" {
		t.Errorf("no id: %q", text)
	}
}

// An error with an id has it in the text and in the data, which keeps its members. One of
// a peer is not touched.
func TestErrorWithCall(t *testing.T) {
	id, _ := ParseCallID("7k3m9-q2xfa")
	for _, tt := range []struct{ data, want string }{
		{"", `{"call":"7k3m9-q2xfa"}`},
		{"{ }", `{ "call":"7k3m9-q2xfa"}`},
		{`{"uri":"x"}`, `{"uri":"x","call":"7k3m9-q2xfa"}`},
		{` {"uri":"x"} `, `{"uri":"x","call":"7k3m9-q2xfa"}`},
		{`["x"]`, `["x"]`},
	} {
		e := &Error{Code: 1, Message: "no", Data: []byte(tt.data)}
		own := e.WithCall(id)
		if own.Message != "no (call 7k3m9-q2xfa)" || string(own.Data) != tt.want || own.Code != 1 {
			t.Errorf("%s: %v with %s, want %s", tt.data, own, own.Data, tt.want)
		}
		if e.Message != "no" || string(e.Data) != tt.data {
			t.Errorf("the error was changed: %v with %s", e, e.Data)
		}
	}
	peer := &Error{Code: 1, Message: "no", Raw: []byte(`{"code":1,"message":"no"}`)}
	if peer.WithCall(id) != peer {
		t.Error("an error of a peer was changed")
	}
	if own := new(Error); own.WithCall(0) != own {
		t.Error("an error was changed without an id")
	}
	if wire := (&Fault{Message: "lost", Call: id}).Wire(); wire.Message != "lost (call 7k3m9-q2xfa)" || string(wire.Data) != `{"source":"gateway","call":"7k3m9-q2xfa"}` {
		t.Errorf("a fault: %v with %s", wire, wire.Data)
	}
}
