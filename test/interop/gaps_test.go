// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"slices"
)

// gap is something that cannot work on a route. All gaps except one kind are tested all the
// same: a listed cell that works is an error of the list.
type gap struct {
	mark, reason string
	applies      func(c cell, s server) bool
	// mayWork is set if the result depends on concurrent events.
	mayWork bool
}

func isAsk(f feature) bool {
	return slices.Contains([]feature{
		featureElicit, featureSample, featureRoots, featureSeveral, featureURL, featureUse, featureState,
	}, f)
}

func asksBefore(c cell, s server) bool { return s.asksAtStart && c.feature == featureRoots }

// clientGaps are what a client does not support at all.
func clientGaps() []gap {
	oneShot := []feature{featureProgress, featureCancel, featureLog, featureComplete, featureTasks, featureChanges, featureUpdates}
	return []gap{
		{mark: "c", reason: "the inspector's command line refuses this method; it makes one request and prints the result",
			applies: func(c cell, _ server) bool {
				return c.row.client == inspectorName && slices.Contains(oneShot, c.feature)
			}},
		{mark: "d", reason: "the inspector's command line declares neither elicitation nor sampling",
			applies: func(c cell, _ server) bool {
				return c.row.client == inspectorName && isAsk(c.feature) && c.feature != featureRoots
			}},
		{mark: "s", reason: "the inspector's command line prints the message of an error, and not its code",
			applies: func(c cell, _ server) bool { return c.row.client == inspectorName && c.feature == featureErrors }},
		{mark: "p", reason: "the client's SDK has no tasks in this era",
			applies: func(c cell, _ server) bool {
				has := []row{{"ts1", newestLegacy}, {"fastmcp", modernVersion}}
				return c.feature == featureTasks && !slices.Contains(has, c.row)
			}},
	}
}

// directGaps are what a client and a server cannot do directly with each other. The gateway
// bridges them, except those of the client.
func directGaps() []gap {
	fromServer := []feature{featureCancel, featureChanges, featureUpdates}
	return append([]gap{
		{mark: "a", reason: "the server supports only the legacy era",
			applies: func(c cell, s server) bool { return c.row.era() == eraModern && s.legacyOnly }},
		{mark: "b", reason: "the server keeps no session, which the legacy era needs for this",
			applies: func(c cell, s server) bool {
				return c.row.era() == eraLegacy && s.sessionless && (isAsk(c.feature) || slices.Contains(fromServer, c.feature))
			}},
		{mark: "q", reason: "the server has tasks only in the modern era",
			applies: func(c cell, s server) bool {
				return c.row.era() == eraLegacy && c.feature == featureTasks && !s.legacyOnly
			}},
		{mark: "k", reason: "the legacy era has no headers for arguments",
			applies: func(c cell, _ server) bool { return c.row.era() == eraLegacy && c.feature == featureHeader }},
	}, slices.Concat(clientGaps(), readerGaps())...)
}

// readerGaps are messages that a client cannot decode.
func readerGaps() []gap {
	return []gap{
		{mark: "o", reason: "the client cannot decode a question without params, and this server's question for the roots has none",
			applies: func(c cell, s server) bool {
				return c.row == row{"go-sdk", modernVersion} && s.bareRoots && (c.feature == featureRoots || c.feature == featureSeveral)
			}},
	}
}

// sharedGaps are what does not work through a gateway that serves many clients.
func sharedGaps() []gap {
	return append(throughGaps(), gap{
		mark: "r", reason: "the client does not send Mcp-Name with tasks/get, which the extension requires, and the gateway refuses that",
		applies: func(c cell, _ server) bool {
			return c.row == row{"fastmcp", modernVersion} && c.feature == featureTasks
		},
	}, gap{
		mark: "i", reason: "the server makes the change for one session, and a modern client has none over HTTP",
		applies: func(c cell, s server) bool {
			return c.row.era() == eraModern && s.private && c.feature == featureChanges
		},
	}, gap{
		mark: "j", reason: "a modern server on a pipe that all clients share logs without naming the request; while several are served, the message is dropped",
		mayWork: true,
		applies: func(c cell, s server) bool {
			return !s.legacyOnly && s.target.URL == "" && c.feature == featureLog
		},
	})
}

// pipedGaps are what does not work through a gateway that its client has just started.
func pipedGaps() []gap {
	return append(throughGaps(), gap{
		mark: "u", reason: "the server took longer to start than a gateway waits before it answers initialize or server/discover",
		mayWork: true,
		applies: func(c cell, _ server) bool { return c.feature == featureInstruct },
	})
}

// throughGaps are what does not work through the gateway.
func throughGaps() []gap {
	return append(slices.Concat(clientGaps(), readerGaps()), []gap{
		{mark: "n", reason: "the revision has no links to resources; a text replaces them",
			applies: func(c cell, _ server) bool {
				return c.row.version < "2025-06-18" && c.feature == featureKinds
			}},
		{mark: "f", reason: "the server asks once, after its handshake, and answers without waiting; a modern client can be asked only while a request is served",
			mayWork: true,
			applies: func(c cell, s server) bool { return c.row.era() == eraModern && asksBefore(c, s) }},
		{mark: "g", reason: "the client ends before the server gets the answer to its question after the handshake, which the first call causes",
			applies: func(c cell, s server) bool {
				return c.row.client == inspectorName && c.row.era() == eraLegacy && asksBefore(c, s)
			}},
		{mark: "h", reason: "the server logs on another connection than the request's; the modern era cannot deliver messages after the response",
			mayWork: true,
			applies: func(c cell, s server) bool {
				return c.row.era() == eraModern && s.private && s.target.URL != "" && c.feature == featureLog
			}},
		{mark: "l", reason: "not tried: two calls that a modern client makes at once have a legacy process each, and neither sees what the other does",
			applies: func(c cell, s server) bool { return s.apart(c.row) && c.feature == featureCancel }},
	}...)
}

// known returns the features of a server that do not work for a row, or not reliably.
func (r route) known(row row, s server) []feature {
	var all []feature
	for _, f := range features() {
		if slices.ContainsFunc(r.gaps, func(g gap) bool { return g.applies(cell{row, s.name, f}, s) }) {
			all = append(all, f)
		}
	}
	return all
}

// judge compares the results on a route with the expectation: everything but its gaps
// works. It returns one line per difference.
func (t table) judge(way route) []string {
	var wrong []string
	for c := range t.each(way) {
		g, known := t.gapOf(c, way)
		switch works := way.results.works(c); {
		case works && known && !g.mayWork:
			wrong = append(wrong, fmt.Sprintf("%s works %s, but is a gap: %s", c, way.name, g.reason))
		case !works && !known:
			wrong = append(wrong, fmt.Sprintf("%s does not work %s%s: %s", c, way.name, t.elsewhere(c), way.results.why(c)))
		}
	}
	return wrong
}

// elsewhere notes that a cell works directly, so the gateway is the cause.
func (t table) elsewhere(c cell) string {
	if t.routes[0].results.works(c) {
		return ", but directly"
	}
	return ""
}

func (r results) why(c cell) string {
	if o, ok := r[c]; ok {
		return o.Error
	}
	return "not reached, the client could not connect"
}
