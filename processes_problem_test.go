// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

func TestProcessThatKeepsEndingIsAProblem(t *testing.T) {
	t.Parallel()
	v := &view{offered: []*backend.Offer{{State: backend.Live}}, backends: []*activeBackend{{Backend: backend.New(backend.Config{Name: "s"}), srv: config.Backend{Name: "s"}}}}
	for n, want := range map[int][]string{
		4: nil,
		5: {`backend "s": its process has ended unexpectedly 5 times within the last hour; 'signalbox logs s' has what it wrote before [` + code.ChildRestarts + `]`},
	} {
		if got := v.processProblems([]client.ProcessStats{{Ended: n}}); !slices.Equal(got, want) {
			t.Errorf("after %d ends: %q, want %q", n, got, want)
		}
	}
	v.offered[0].State = backend.Down
	if got := v.processProblems([]client.ProcessStats{{Ended: 5}}); got != nil {
		t.Errorf("of a backend that is down: %q", got)
	}
}
