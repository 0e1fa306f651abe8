// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestError(t *testing.T) {
	err := error(Errorf(CodeMethodNotFound, "no method %q", "x"))
	if got, want := err.Error(), `no method "x" (code -32601)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wrapped := fmt.Errorf("calling: %w", err)
	if !errors.Is(wrapped, &Error{Code: CodeMethodNotFound}) {
		t.Error("an error is not one of its code")
	}
	if errors.Is(wrapped, &Error{Code: CodeInvalidParams}) || errors.Is(wrapped, io.EOF) {
		t.Error("an error is one of another code")
	}
}

// J15+ 2026-07-28 basic/index: "Implementations surfacing local errors in
// JSON-RPC-shaped structures should ensure they cannot be mistaken for errors received
// from the peer."
func TestFault(t *testing.T) {
	for _, tt := range []struct {
		fault *Fault
		text  string
		data  string
	}{
		{&Fault{Code: CodeBackendUnavailable, Outcome: NotDispatched, Backend: "db", Message: "connection refused", Cause: io.EOF},
			`backend "db": connection refused; the request was not sent`,
			`{"source":"gateway","outcome":"not_dispatched","backend":"db"}`},
		{&Fault{Code: CodeBackendFailed, Outcome: Unknown, Backend: "a\"b", Message: "it exited"},
			`backend "a\"b": it exited; the request may have been executed`,
			`{"source":"gateway","outcome":"unknown","backend":"a\"b"}`},
		{&Fault{Code: CodeDeadline, Outcome: Completed, Message: "too late"},
			`too late; the request was executed`,
			`{"source":"gateway","outcome":"completed"}`},
		{&Fault{Code: CodeUnsupported, Message: "no way"}, `no way`, `{"source":"gateway"}`},
		{&Fault{Code: CodeBackendUnavailable, Outcome: NotDispatched, Backend: "db", Reason: "SB_NET_REFUSED", Message: "connection refused"},
			`backend "db": connection refused; the request was not sent`,
			`{"source":"gateway","outcome":"not_dispatched","backend":"db","code":"SB_NET_REFUSED"}`},
	} {
		if tt.fault.Error() != tt.text {
			t.Errorf("got %s, want %s", tt.fault, tt.text)
		}
		// "Errors local to the implementation" name their source, and never their
		// cause: J15.
		want := &Error{Code: tt.fault.Code, Message: tt.text, Data: []byte(tt.data)}
		if diff := cmp.Diff(want, tt.fault.Wire()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
	}
	if !errors.Is(&Fault{Cause: io.EOF}, io.EOF) {
		t.Error("a fault hides its cause")
	}
}

func TestToWire(t *testing.T) {
	own := Errorf(CodeInvalidParams, "no")
	fault := &Fault{Code: CodeLimit, Message: "too many"}
	if got := ToWire(fmt.Errorf("x: %w", own)); got != own {
		t.Errorf("an Error goes out as %v", got)
	}
	if diff := cmp.Diff(fault.Wire(), ToWire(fmt.Errorf("x: %w", fault))); diff != "" {
		t.Errorf("a Fault (-want +got):\n%s", diff)
	}
	secret := errors.New("dial 10.0.0.7: token abc refused")
	if diff := cmp.Diff(&Error{Code: CodeInternalError, Message: "internal error"}, ToWire(secret)); diff != "" {
		t.Errorf("any other error (-want +got):\n%s", diff)
	}
}

// ToWire does not send the cause of a fault, even if it is an Error: a backend's
// refusal of the handshake is not the answer to the client's call.
//
// J15- 2026-07-28 basic/index: "Implementations surfacing local errors in
// JSON-RPC-shaped structures should ensure they cannot be mistaken for errors received
// from the peer."
func TestToWireHidesTheCause(t *testing.T) {
	cause := &Error{Code: CodeInternalError, Message: "secret of the backend", Raw: []byte(`{"code":-32603,"message":"secret of the backend"}`)}
	fault := &Fault{Code: CodeBackendFailed, Outcome: NotDispatched, Backend: "b", Message: "the handshake failed", Cause: cause}
	for _, err := range []error{fault, fmt.Errorf("calling: %w", fault), &Fault{Code: CodeBackendFailed, Outcome: NotDispatched, Backend: "b", Message: "the handshake failed", Cause: fmt.Errorf("x: %w", cause)}} {
		if diff := cmp.Diff(fault.Wire(), ToWire(err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if !errors.Is(err, &Error{Code: CodeInternalError}) {
			t.Errorf("%v: the log does not find the cause", err)
		}
	}
}

// The outcome is in the text for people and in the data for programs, and both agree
// (DELIVERY: an error always reports whether the call may have run).
func TestOutcomeInTextAndData(t *testing.T) {
	for outcome, words := range map[Outcome]string{
		NotDispatched: "was not sent", Unknown: "may have been executed", Completed: "was executed",
	} {
		wire := (&Fault{Code: CodeBackendFailed, Outcome: outcome, Backend: "b", Message: "m"}).Wire()
		var data map[string]string
		if err := json.Unmarshal(wire.Data, &data); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(wire.Message, words) || data["outcome"] != string(outcome) || data["backend"] != "b" || data["source"] != "gateway" {
			t.Errorf("%s: %q with %v", outcome, wire.Message, data)
		}
	}
	if wire := (&Fault{Message: "m"}).Wire(); wire.Message != "m" || string(wire.Data) != `{"source":"gateway"}` {
		t.Errorf("no outcome: %q with %s", wire.Message, wire.Data)
	}
}

// "SHOULD use codes outside the range reserved by JSON-RPC" (2026-07-28, basic,
// "Error Codes"): J10. "MUST NOT emit any code from this sub-range that is not
// defined by this specification": J9.
//
// J9+ 2026-07-28 basic/index: "**MUST** use defined codes only with their specified
// meanings."
//
// J10+ 2026-07-28 basic/index: "New error codes for purposes not defined by this
// specification **SHOULD** be allocated outside the JSON-RPC reserved range (`-32768`
// to `-32000`)"
func TestErrorCodes(t *testing.T) {
	for _, code := range []int{CodeBackendUnavailable, CodeBackendFailed, CodeDeadline, CodeShuttingDown, CodeUnsupported, CodeLimit, CodeSessionEnded} {
		if code >= -32768 && code <= -32000 {
			t.Errorf("our own code %d lies in the reserved range", code)
		}
	}
	want := [...]int{-32020, -32021, -32022}
	if got := [...]int{CodeHeaderMismatch, CodeMissingCapability, CodeUnsupportedVersion}; got != want {
		t.Errorf("codes of the specification: %v, want %v", got, want)
	}
}
