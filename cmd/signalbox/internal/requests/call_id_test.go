// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
)

// The id is that of a call of the tool, and not of one whose name it begins with, unless the
// record has the name cut.
func TestIDIsOfTheTool(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", recorder.MaxName+1)
	began := time.Now()
	record := func(id, name string, received time.Time) signalbox.CallRecord {
		return signalbox.CallRecord{ID: id, Name: name, Client: "signalbox devel", Outcome: "ok", Received: received}
	}
	gateway := &target.Target{Calls: func(context.Context, signalbox.CallFilter) ([]signalbox.CallRecord, error) {
		return []signalbox.CallRecord{
			record("one", "echo", began), record("two", "echo_two", began), record("cut", long[:recorder.MaxName], began),
			record("old", "echo_two", began.Add(-time.Second)),
		}, nil
	}}
	for tool, want := range map[string]string{
		"echo_two": "signalbox: call two (ok, 0ms)\n",
		long:       "signalbox: call cut (ok, 0ms)\n",
		"other":    "signalbox: the gateway has no record of the call\n",
	} {
		e := commandtest.New(t, "")
		printID(t.Context(), e.Env, gateway, tool, began)
		if got := e.Err.String(); got != want {
			t.Errorf("%s: got %q, want %q", tool, got, want)
		}
	}
}
