// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"slices"
)

// gap is something that a client and a server cannot do with each other when
// nothing stands between them. Each is tried all the same: one that works is an
// error of this list.
type gap struct {
	mark, reason string
	applies      func(c cell, s server) bool
}

func gaps() []gap {
	fromServer := []feature{featureCancel, featureElicit, featureSample, featureRoots, featureChanges}
	oneShot := []feature{featureProgress, featureCancel, featureLog, featureComplete, featureChanges}
	return []gap{
		{"a", "the server speaks only the legacy era", func(c cell, s server) bool {
			return c.row.era() == eraModern && s.legacyOnly
		}},
		{"b", "the server keeps no session, which the legacy era needs for this", func(c cell, s server) bool {
			return c.row.era() == eraLegacy && s.sessionless && slices.Contains(fromServer, c.feature)
		}},
		{"c", "the inspector's command line refuses this method; it makes one request and prints the result", func(c cell, _ server) bool {
			return c.row.client == "inspector" && slices.Contains(oneShot, c.feature)
		}},
		{"d", "the inspector's command line declares neither elicitation nor sampling", func(c cell, _ server) bool {
			return c.row.client == "inspector" && (c.feature == featureElicit || c.feature == featureSample)
		}},
	}
}

// gapOf returns why a cell cannot work directly, if there is a reason.
func gapOf(c cell, s server) (gap, bool) {
	for _, g := range gaps() {
		if g.applies(c, s) {
			return g, true
		}
	}
	return gap{}, false
}

// judgeDirect compares what worked directly with what is known: everything but
// the gaps. It returns one line per difference.
func (t table) judgeDirect() []string {
	var wrong []string
	for c := range t.each() {
		g, known := t.gapOf(c)
		switch works := t.direct().works(c); {
		case works && known:
			wrong = append(wrong, fmt.Sprintf("%s works directly, but is a gap: %s", c, g.reason))
		case !works && !known:
			wrong = append(wrong, fmt.Sprintf("%s does not work directly: %s", c, t.direct().why(c)))
		}
	}
	return wrong
}

// judge returns one line for each cell that works directly and not on the way.
func (t table) judge(way route) []string {
	var wrong []string
	for c := range t.each() {
		if t.direct().works(c) && !way.results.works(c) {
			wrong = append(wrong, fmt.Sprintf("%s works directly, but not %s: %s", c, way.name, way.results.why(c)))
		}
	}
	return wrong
}

func (r results) why(c cell) string {
	if o, ok := r[c]; ok {
		return o.Error
	}
	return "not reached, the client could not connect"
}
