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
	notPassedOn = "an extension is agreed to by the two ends of a connection, and the gateway does not know this one " +
		"([0026](adr/0026-negotiate-extensions-per-hop.md)); the suite asks nothing of a client that is not offered it"
	// noKeys is a reason of docs/bridge.md.
	noKeys = "the legacy era has none: a question is a request, and known by its id when it is asked, so that no answer can come before it"
)

func knownExceptions(t *testing.T) exceptions {
	t.Helper()
	reasons := bridgeReasons(t)
	keys, ok := reasons[noKeys]
	if !ok {
		t.Fatalf("%s does not say: %s", bridgePage, noKeys)
	}
	return exceptions{
		unchecked: map[string]string{
			"sep-2640-skills-directory":   notOffered,
			"sep-2640-skills-enumeration": notOffered,
			"sep-2640-skills-manifest":    notOffered,
			"tasks-status-notifications":  "the suite itself always skips it",
		},
		hops: map[string]string{
			"server-sse-polling": "a server ends the response of a call, and its client comes back for the rest: whose connection that frees is " +
				"each hop's own, and a server of the modern era has no such thing; the gateway ends the responses of its own by `streamLife`",
			"sep-2640-client-no-prefetch":        notPassedOn,
			"sep-2640-client-verify-digest":      notPassedOn,
			"sep-2640-client-verify-size":        notPassedOn,
			"sep-2640-client-verify-frontmatter": notPassedOn,
		},
		gaps: map[gapKey]string{
			// The one wants to see the key that it knows, and the other answers by it before
			// it is asked.
			{modern, "input-required-result-basic-elicitation"}:   keys,
			{modern, "input-required-result-ignore-extra-params"}: keys,
		},
	}
}

const bridgePage = "../../docs/bridge.md"

var bridgeReason = regexp.MustCompile(`(?m)^- \*\*([a-z])\*\*: (.*) \(\[`)

// bridgeReasons are the letters of docs/bridge.md by their reasons, each of which a
// transcript shows.
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
