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

// On a pipe a log message and a question of the legacy era, and a log message of the
// modern one, do not say which request they belong to. Where a session has several
// under way, they are given to one of them or to the session, and to no other client.

// isBlindLocked reports whether a message that names no request can be given to any of
// those of one client: it has a session, and a pipe at one of the ends.
func (r *record) isBlindLocked(piped bool) bool {
	return r.era == mcp.EraLegacy && (piped || r.cameTo(byPipe))
}

// shakesHands reports whether the gateway may speak the legacy era over pipes to its
// backend. One of both eras is taken for a legacy one whose process ends while it is
// asked.
func (g *gateway) shakesHands() bool {
	g.back.mu.Lock()
	defer g.back.mu.Unlock()
	b := g.w.backend
	return b.piped && (b.legacy || g.version == "" && g.back.harmed > 0)
}

func (r *record) isMineLocked(mark string) bool { return strings.HasPrefix(mark, r.client+".") }

// hearBlindly takes what a request of the client may have been told, or asked. It
// reports false where that cannot be.
func (c *legacyClient) hearBlindly(session string, m *mcp.Message) bool {
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

// isBlind reports whether the client's listens may be told what belongs to a request
// of its.
func (c *ownClient) isBlind() bool {
	return c.scope != nil && (c.w.backend.piped || c.over == c.home.pipe)
}

func (c *ownClient) isMine(text []byte) bool { return bytes.Contains(text, []byte(c.name+".")) }

// questionOf returns what a question says.
func questionOf(params *mcp.Object) string {
	var q struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(params.Bytes(), &q) // whoever asks nothing asks a wrong question
	return q.Message
}
