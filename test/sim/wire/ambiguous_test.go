// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// On a pipe a log message and a request of the legacy era, and a log message of the modern
// one, do not name the request that they belong to. If a session has several requests in
// flight, they are delivered to one of them or to the session, and to no other client.

// isAmbiguousLocked reports whether a message that names no request may be delivered to any
// request of one client: it has a session, and a pipe at one of the ends.
func (r *record) isAmbiguousLocked(piped bool) bool {
	return r.era == mcp.EraLegacy && (piped || r.sentTo(byPipe))
}

// shakesHands reports whether the gateway may use the legacy era over pipes to its backend.
// A backend of both eras is taken for a legacy one if its process ends during the probe.
func (g *gateway) shakesHands() bool {
	g.back.mu.Lock()
	defer g.back.mu.Unlock()
	b := g.w.backend
	return b.piped && (b.legacy || g.version == "" && g.back.harmed > 0)
}

func (r *record) isMineLocked(mark string) bool { return strings.HasPrefix(mark, r.client+".") }

// takeAmbiguous accepts a message that may belong to any request of the client. It reports
// false if it cannot.
func (c *legacyClient) takeAmbiguous(session string, m *mcp.Message) bool {
	switch mine := bytes.Contains(m.Raw, []byte(`"`+c.name+`.`)); {
	case m.Method == "notifications/message" && mine, m.Method == "notifications/cancelled":
		return true
	case m.Kind == mcp.KindRequest && mine:
		question := questionOf(&m.Params)
		c.spawn(func() {
			if c.insist(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID.String(), answerTo(question))) {
				c.w.answers(question)
			}
		})
		return true
	default:
		return false
	}
}

// isAmbiguous reports whether the client's listens may receive messages of its requests.
func (c *libraryClient) isAmbiguous() bool {
	return c.scope != nil && (c.w.backend.piped || c.over == c.home.pipe)
}

func (c *libraryClient) isMine(text []byte) bool { return bytes.Contains(text, []byte(c.name+".")) }

// questionOf returns the text of a question.
func questionOf(params *mcp.Object) string {
	var q struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(params.Bytes(), &q) // an invalid question has no text, which is wrong
	return q.Message
}
