// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"testing"
	"time"
)

// NoExtension accepts every call and does nothing.
func TestNoExtension(t *testing.T) {
	var e CallerExtension = NoExtension{}
	if taken, err := e.Receive(t.Context(), nil); taken || err != nil {
		t.Errorf("Receive = %v, %v", taken, err)
	}
	if e.Poll(time.Second) {
		t.Error("Poll = true")
	}
	e.Pulse()
	e.Pause(true)
	e.Pause(false)
}
