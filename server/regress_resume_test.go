// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// Streams that are left and resumed, beside other streams of their session.

// M062, I12, I15: a client tries to resume a stream that has ended, again and again, as
// readers of event streams do. Each attempt is refused permanently, and never affects the
// standalone stream of the session.
func TestM062ResumeKeepsStandaloneStream(t *testing.T) {
	withChanges(t, map[string]mcp.HandlerFunc{"burst": progressBurst(t, 2)}, func(s *site, h *changing) {
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		defer get.close()
		<-h.acked
		post := s.open(s.ctx(), http.MethodPost, withToken("1", "burst", "7"), sess)
		for range 3 {
			post.next()
		}
		post.end()
		for range 5 {
			if got := s.resumeRefused(sess, post.last); got.status != 400 {
				t.Errorf("coming back for what has ended: %d %s; want 400", got.status, got.body)
			}
			h.changed <- toolsChanged
			equal(t, "the listening stream", get.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		}
		if n := len(h.acked); n != 0 {
			t.Errorf("the listen behind the stream was begun %d times more", n)
		}
	})
}

// M067, I2, I28: streams that are left and resumed hundreds of times, with calls that end
// while no client is connected, are dropped after their retention: nothing of them is kept.
func TestM067StreamsLeftAndResumed(t *testing.T) {
	const rounds = 200
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		sess := s.session()
		for i := range rounds {
			st := s.startCall(s.ctx(), k, sess, fmt.Sprint(i), "one")
			<-k.caller
			s.dropConnection(st)
			again := s.resume(sess, st.last)
			k.words <- "two"
			equal(t, "second", again.next(), wordMessage("two"))
			s.dropConnection(again)
			k.words <- "result {}"
		}
		s.advance(0)
		if got := s.server.Stats(); got.InFlight != 0 || got.Kept == 0 {
			t.Errorf("%+v; want nothing in flight, and something kept", got)
		}
		s.advance(10 * time.Minute)
		if got := s.server.Stats(); got.Kept != 0 || got.Sessions != 1 {
			t.Errorf("after the retention: %+v; want nothing kept, and the session", got)
		}
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		if got := s.server.Stats(); got.Sessions != 0 || got.Panics != 0 {
			t.Errorf("at the end: %+v; want nothing", got)
		}
	})
}
