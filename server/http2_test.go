// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The whole suite is played over HTTP/2 with -http2. What is here is what was found by
// that, or is HTTP/2's alone.

// quietFor is much longer than a write may take, and than the time between two comments.
const quietFor = 10 * time.Minute

// M054: on a stream of HTTP/2 a deadline is a timer which breaks the stream, not only a
// write that is late. A stream on which nothing is to be written lives.
func TestStreamOfHTTP2OutlivesItsWrites(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		s.speakHTTP2()
		get := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer get.close()
		<-h.acked
		s.pass(quietFor)
		h.changed <- toolsChanged
		equal(t, "on a GET", get.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
	slow := map[string]mcp.HandlerFunc{"slow": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := c.Notify(ctx, note(t, "notifications/progress", `{"progressToken":"p","progress":1}`)); err != nil {
			return nil, err
		}
		sleep(quietFor)
		return result(`{"content":[]}`)
	}}
	bubble(t, tools(slow), server.Config{KeepAlive: time.Hour}, func(s *site) {
		s.speakHTTP2()
		call := s.open(s.ctx(), http.MethodPost, withToken("1", "slow", `"p"`), s.session())
		call.next()
		equal(t, "on a POST", call.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		call.end()
	})
}

// So it is with a result that arrives slowly, wherever it pauses: behind some pieces, or
// behind the very first, which nothing else is written after.
func TestResultArrivesSlowlyOverHTTP2(t *testing.T) {
	const window = 63 << 10
	firstParts := map[string]string{
		"in the second window":    answerHead + contentTo + filler(96<<10),
		"behind the first":        answerHead + contentTo + strings.Repeat("a", window-len(answerHead+contentTo)),
		"a byte behind the first": answerHead + contentTo + strings.Repeat("a", window-len(answerHead+contentTo)+1),
	}
	for name, first := range firstParts {
		for _, era := range []mcp.Era{mcp.EraLegacy, mcp.EraModern} {
			t.Run(name+", "+era.String(), func(t *testing.T) {
				arrive(t, mcp.V20251125, func(s *site, b *backend) {
					s.speakHTTP2()
					next := make(chan struct{})
					b.say = inParts(next, first, filler(96<<10), answerTail)
					answer := s.later(s.largeCall(era))
					for range 2 {
						sleep(quietFor)
						next <- struct{}{}
					}
					got := <-answer
					if _, err := mcp.Parse([]byte(got.body), mcp.Limits{}); err != nil || got.err != nil {
						t.Errorf("it ended after %d bytes with %v: %v", len(got.body), got.err, err)
					}
				})
			})
		}
	}
}

// ended is how an answer ended.
type ended struct {
	body string
	err  error
}

// later sends a request, and returns where the end of its answer will be.
func (s *site) later(r *http.Request) <-chan ended {
	out := make(chan ended, 1)
	go func() { // ends with the answer
		res, err := s.client.Do(r)
		if err != nil {
			out <- ended{err: err}
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		out <- ended{string(body), err}
	}()
	return out
}

// Of the streams of one connection each ends for itself: who resets one has cancelled
// that, and nothing else (2026-07-28, basic/patterns/cancellation).
func TestResetOfOneStreamOfHTTP2(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		s.speakHTTP2()
		one, two := modernHeaders("tools/call", "wait"), modernHeaders("tools/call", "wait")
		ctx, reset := context.WithCancel(s.ctx())
		left := make(chan error, 1)
		go func() { // ends with the reset
			_, err := s.client.Do(s.request(ctx, http.MethodPost, modern("1", "tools/call", `"name":"wait"`), one))
			left <- err
		}()
		<-g.entered
		kept := s.async(s.request(s.ctx(), http.MethodPost, modern("2", "tools/call", `"name":"wait"`), two))
		<-g.entered
		reset()
		if err := <-left; err == nil {
			t.Error("the call that was reset has an answer")
		}
		s.pass(0)
		if got := len(g.cause); got != 1 {
			t.Errorf("%d calls are cancelled, want 1", got)
		}
		g.release <- struct{}{}
		equal(t, "the other call", (<-kept).body, `{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}`)
	})
}

// FAULTS 26: a client that does not read one of its streams is given up on that one, and
// served on the others.
func TestOneStreamOfHTTP2IsNotRead(t *testing.T) {
	arrive(t, mcp.V20251125, func(s *site, b *backend) {
		s.speakHTTP2()
		b.say = sayWhole(filler(1 << 20))
		res := s.begin(s.largeCall(mcp.EraModern))
		defer res.Body.Close()
		s.pass(time.Second)
		equal(t, "meanwhile", s.call("echo").body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		s.pass(quietFor)
		if got := s.server.Stats().InFlight; got != 0 {
			t.Errorf("%d requests in flight, want that the one is given up", got)
		}
		if _, err := io.ReadAll(res.Body); !brokenOff(err) {
			t.Errorf("the answer ended with %v, want that it has broken off", err)
		}
		equal(t, "after that", s.call("echo").body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
	})
}
