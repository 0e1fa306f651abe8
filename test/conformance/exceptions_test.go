// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// exceptions are all the cells of the table in which no success is required. There is no
// list of expected failures: the cells listed here cannot have another result.
type exceptions struct {
	// unchecked are scenarios for which the suite checks nothing in any way, with the
	// reason.
	unchecked map[string]string
	// hops are scenarios for which it checks nothing through the gateway, because their
	// subject belongs to each hop separately, or is not offered beyond the first, with the
	// reason.
	hops map[string]string
	// unsupported are scenarios of extensions that are not supported: they fail, with the
	// reason.
	unsupported map[string]string
	// gaps are scenarios that a revision cannot express, by the era that a backend lacks.
	// The value is the letter of the reason in docs/bridge.md.
	gaps map[gapKey]string
}

type gapKey struct {
	lacks    era
	scenario string
}

// gap returns the letter of the reason why a scenario cannot pass in a way.
func (e exceptions) gap(w way, scenario string) (string, bool) {
	letter, ok := e.gaps[gapKey{w.lacks, scenario}]
	return letter, ok
}

// mayBeEmpty reports whether the suite may have checked nothing.
func (e exceptions) mayBeEmpty(w way, scenario string) bool {
	return e.unchecked[scenario] != "" || e.hops[scenario] != "" && strings.HasPrefix(w.name, through)
}

const (
	// noProofs is the reason for the scenarios of DPoP.
	noProofs = "tokens that are bound to a key of the client (RFC 9449) are not requested"
	// noKeys is a reason of docs/bridge.md.
	noKeys = "the legacy era has none: an input request is a JSON-RPC request, identified by its id, so that no answer can precede it"
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
			"tasks-status-notifications": "the suite itself always skips it",
		},
		hops: map[string]string{
			"server-sse-polling": "a server ends the response of a call, and its client reconnects for the rest: this frees a connection of one hop only, " +
				"and modern servers do not do it; the gateway ends its own responses by `streamLife`",
		},
		unsupported: map[string]string{
			"auth/dpop":       noProofs,
			"auth/dpop-nonce": noProofs,
		},
		gaps: map[gapKey]string{
			// One scenario requires a known key, and the other answers with it before it is
			// asked.
			{modern, "input-required-result-basic-elicitation"}:   keys,
			{modern, "input-required-result-ignore-extra-params"}: keys,
		},
	}
}

const bridgePage = "../../docs/bridge.md"

var bridgeReason = regexp.MustCompile(`(?m)^- \*\*([a-z])\*\*: (.*) \(\[`)

// bridgeReasons returns the letters of docs/bridge.md by their reasons. A transcript
// shows each of them.
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
