// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path"
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
)

func TestPipeIsMeasuredToo(t *testing.T) {
	g := openRig(t)
	for name, start := range map[string]func(context.Context, *rig, canned.Era, string) (*entrant, error){
		"direct": enterDirectly, "relay": enterRelay, "relay by HTTP": enterRelayHTTP,
	} {
		for _, era := range eras() {
			e, err := start(t.Context(), g, era, "text_10240")
			if err != nil {
				t.Fatal(err)
			}
			s, err := e.measure(t.Context(), amount{many: 50})
			e.close()
			if err != nil || s.rate <= 0 || s.errors != 0 || s.counted != (name == "relay by HTTP") {
				t.Errorf("%s %s: %+v, %v", name, era, s, err)
			}
		}
	}
}

// TestMarksForTimesAreNotARelays checks that no mark applies to the added times of a
// yardstick, which are measured as well.
func TestMarksForTimesAreNotARelays(t *testing.T) {
	for _, way := range []string{onPipes, overNet} {
		for _, era := range eras() {
			judged := func(name string) bool {
				return slices.ContainsFunc(marks.All(), func(m marks.Mark) bool {
					ok, err := path.Match(m.Keys, "stdio/100 B/"+name+"/added-p50")
					return ok && err == nil
				})
			}
			if name := relayName(era, way); judged(name) {
				t.Errorf("%s has a mark", name)
			}
			if name := cellName(era, era) + way; !judged(name) {
				t.Errorf("%s has no mark", name)
			}
		}
	}
}
