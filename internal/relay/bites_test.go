// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/sim/mutant"
)

var flagBites = flag.Int("sim.bites", 0, "break the Relay in each of the known ways, and want that to be found within so many schedules")

// relayMutations are rules of the Relay, each broken in a way that could happen by mistake.
var relayMutations = []struct {
	rule     string
	breach   string // text of the breach that must be found
	file     string
	old, new string
}{
	{"a call in flight is not sent again", "was executed 2 times", "relay.go",
		"		if isHandshake(q.method) && q.line != nil && r.repeatHandshake(ctx, q) {\n", "		if q.method != \"subscriptions/listen\" && q.line != nil && r.repeatHandshake(ctx, q) {\n"},
	{"each request in flight is answered", "has 0 answers", "relay.go",
		"	for _, q := range lost {\n		if isHandshake(", "	for _, q := range lost[:min(1, len(lost))] {\n		if isHandshake("},
	{"the answer to a repeated initialize is the Relay's", "which the client has not used", "link.go",
		"				to <- reply{bytes.Clone(line), m.failed} // has space for it\n				return nil\n", "				to <- reply{bytes.Clone(line), m.failed}\n				return line\n"},
	{"a request that was answered is not answered again", "has 2 answers", "link.go",
		"	r.forgetLocked(m.id)\n	if isHandshake(", "	if isHandshake("},
	{"the client is told of changes after a replacement", "was not told of another gateway", "relay.go",
		"	for _, notice := range changes {\n		r.out.line(notice)\n	}\n", "	_ = changes\n"},
	{"a client that only listens gets another gateway", "was not told of another gateway", "relay.go",
		"	if !closing && r.session != nil && !r.joining {\n", "	if !closing && r.session == nil && !r.joining {\n"},
	{"a subscription is repeated to another gateway", "was not told of a change at another gateway", "session.go",
		"	for _, uri := range slices.Sorted(maps.Keys(s.subscribed)) {\n		again(subscribe, s.subscribed[uri])\n	}\n", ""},
	{"what was received may have run", "the error says that it was not", "relay.go",
		"Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: \"the gateway ended", "Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Message: \"the gateway ended"},
	{"questions of two gateways have two ids", "has the answer", "relay.go",
		"	if l != a.first {\n", "	if l != a.first && false {\n"},
}

// TestBitesApply keeps the list up to date with the code.
func TestBitesApply(t *testing.T) {
	for _, b := range relayMutations {
		if _, err := (mutant.Change{File: b.file, Old: b.old, New: b.new}).Text(); err != nil {
			t.Errorf("%s: %v", b.rule, err)
		}
	}
}

// TestBites breaks each rule in turn, in an overlay for the compiler, and requires
// TestSchedules to find that. Each takes a build, so it runs only if -sim.bites is set.
func TestBites(t *testing.T) {
	if *flagBites == 0 {
		return
	}
	for _, b := range relayMutations {
		t.Run(strings.ReplaceAll(b.rule, " ", "_"), func(t *testing.T) {
			began := time.Now()
			out, err := mutant.Schedules(t.Context(), t.TempDir(), mutant.Change{File: b.file, Old: b.old, New: b.new}, b.breach, *flagBites)
			_, found, ok := strings.Cut(out, "schedules_test.go:")
			line, _, _ := strings.Cut(found, "\n")
			if err == nil || !ok || !strings.Contains(line, b.breach) {
				t.Fatalf("was not found by its rule in %d schedules: %v\n%s", *flagBites, err, out[max(0, len(out)-2000):])
			}
			t.Logf("found after %v: %s", time.Since(began).Round(time.Second), line)
		})
	}
}
