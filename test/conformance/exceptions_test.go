// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// exceptions are all the cells of the table in which no success is wanted. There
// is no list of failures that are expected: what stands here cannot be otherwise.
type exceptions struct {
	// unchecked are scenarios for which the suite does nothing in any way, and why.
	unchecked map[string]string
	// hops are scenarios for which it does nothing through the gateway, because
	// what they look at belongs to each hop by itself, or is not offered beyond the
	// first, and why that is as it should be.
	hops map[string]string
	// gaps are what a revision cannot express, by the era that a backend lacks and
	// the scenario: the letter is that of docs/bridge.md, where the reason stands.
	gaps map[gapKey]string
}

type gapKey struct {
	lacks    era
	scenario string
}

// gap is the letter of the reason for which a scenario cannot pass in a way.
func (e exceptions) gap(w way, scenario string) (string, bool) {
	letter, ok := e.gaps[gapKey{w.lacks, scenario}]
	return letter, ok
}

// mayBeEmpty reports whether the suite may have checked nothing.
func (e exceptions) mayBeEmpty(w way, scenario string) bool {
	return e.unchecked[scenario] != "" || e.hops[scenario] != "" && strings.HasPrefix(w.name, through)
}

const (
	// notOffered is why the scenarios of an extension have nothing to look at.
	notOffered = "the server does not offer the extension"
	// notPassedOn is why a client asks for nothing of an extension behind the gateway.
	notPassedOn = "the gateway does not know the extension, and so offers it to no client"
	// noState is a reason of docs/bridge.md.
	noState = "the legacy era has none: a question is a request on the stream of the call, and its answer a response with its id"
)

func knownExceptions(t *testing.T) exceptions {
	t.Helper()
	reasons := bridgeReasons(t)
	b, ok := reasons[noState]
	if !ok {
		t.Fatalf("%s does not say: %s", bridgePage, noState)
	}
	return exceptions{
		unchecked: map[string]string{
			"sep-2640-skills-directory":   notOffered,
			"sep-2640-skills-enumeration": notOffered,
			"sep-2640-skills-manifest":    notOffered,
			"tasks-status-notifications":  "the suite itself always skips it",
		},
		hops: map[string]string{
			"server-sse-polling": "a server closes the stream of a call, and its client comes back: that is between the backend and the gateway, " +
				"whose own answer has nothing to stream before the result",
			"sep-2640-client-no-prefetch":        notPassedOn,
			"sep-2640-client-verify-digest":      notPassedOn,
			"sep-2640-client-verify-size":        notPassedOn,
			"sep-2640-client-verify-frontmatter": notPassedOn,
		},
		gaps: map[gapKey]string{
			// A question has a key, by which it is answered before it is asked.
			{modern, "input-required-result-basic-elicitation"}:   b,
			{modern, "input-required-result-ignore-extra-params"}: b,
		},
	}
}

const bridgePage = "../../docs/bridge.md"

var bridgeReason = regexp.MustCompile(`(?m)^- \*\*([a-z])\*\*: (.*) \(\[`)

// bridgeReasons are the letters of docs/bridge.md by their reasons, each of which a
// dialogue shows.
func bridgeReasons(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(bridgePage)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, m := range bridgeReason.FindAllStringSubmatch(string(text), -1) {
		found[m[2]] = m[1]
	}
	return found
}
