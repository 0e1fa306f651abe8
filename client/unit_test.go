// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The cause of the gateway's own failure is not the server's response to the probe.
func TestDecideLooksForTheFaultFirst(t *testing.T) {
	s := Config{Name: "b"}.setup()
	for _, cause := range []*mcp.Error{{Code: mcp.CodeHeaderMismatch}, {Code: mcp.CodeMissingCapability}, {Code: mcp.CodeUnsupportedVersion}, {Code: mcp.CodeMethodNotFound}} {
		fault := s.Unavailable(cause, "it could not be reached")
		for _, err := range []error{fault, &call.Rejected{Why: call.Busy, Err: fault}} {
			if got, gotErr := decide(s, nil, err); got != isUndecided || !errors.Is(gotErr, fault) {
				t.Errorf("code %d: finding %d, error %v, want neither and the fault", cause.Code, got, gotErr)
			}
		}
		if got, _ := decide(s, nil, cause); got == isUndecided {
			t.Errorf("code %d: the server's own word says nothing", cause.Code)
		}
	}
}

func TestBudget(t *testing.T) {
	var c Client
	for range minResending {
		if !c.beginRetry() {
			t.Fatal("less than the minimum")
		}
	}
	c.serving = 30
	if c.beginRetry() {
		t.Error("want a tenth of what is under way")
	}
	c.serving = 50
	if !c.beginRetry() {
		t.Error("want a tenth of what is under way")
	}
	c.endRetry()
	if !c.beginRetry() {
		t.Error("what is given back can be taken")
	}
}
