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

// The flag -http2 runs the whole suite over HTTP/2. The tests of this file cover what was
// found by that, or applies to HTTP/2 only.

// quietFor is much longer than the write timeout and the keep-alive interval.
const quietFor = 10 * time.Minute

// M054: on a stream of HTTP/2 a deadline is a timer that resets the stream, even if no
// write is late. A stream without anything to write must stay open.
func TestStreamOfHTTP2OutlivesItsWrites(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		s.speakHTTP2()
		get := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer get.close()
		<-h.acked
		s.advance(quietFor)
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

// The same holds for a result that arrives slowly, wherever it pauses: after some pieces,
// or after the first one, which no other write follows.
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
				withBackend(t, mcp.V20251125, func(s *site, b *backend) {
					s.speakHTTP2()
					next := make(chan struct{})
					b.write = inParts(next, first, filler(96<<10), answerTail)
					answer := s.asyncEnd(s.largeRequest(era))
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

// bodyEnd is how an answer ended.
type bodyEnd struct {
	body string
	err  error
}

// asyncEnd sends a request, and returns a channel with the end of its answer.
func (s *site) asyncEnd(r *http.Request) <-chan bodyEnd {
	out := make(chan bodyEnd, 1)
	go func() { // ends with the answer
		res, err := s.client.Do(r)
		if err != nil {
			out <- bodyEnd{err: err}
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		out <- bodyEnd{string(body), err}
	}()
	return out
}

// Each stream of a connection ends by itself: resetting one cancels its request and no
// other (2026-07-28, basic/patterns/cancellation).
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
		s.advance(0)
		if got := len(g.cause); got != 1 {
			t.Errorf("%d calls are cancelled, want 1", got)
		}
		g.release <- struct{}{}
		equal(t, "the other call", (<-kept).body, `{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}`)
	})
}

// FAULTS 26: a client that does not read one of its streams loses that one, and is served
// on the others.
func TestOneStreamOfHTTP2IsNotRead(t *testing.T) {
	withBackend(t, mcp.V20251125, func(s *site, b *backend) {
		s.speakHTTP2()
		b.write = writeWhole(filler(1 << 20))
		res := s.begin(s.largeRequest(mcp.EraModern))
		defer res.Body.Close()
		s.advance(time.Second)
		equal(t, "meanwhile", s.call("echo").body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		s.advance(quietFor)
		if got := s.server.Stats().InFlight; got != 0 {
			t.Errorf("%d requests in flight, want that the one is given up", got)
		}
		if _, err := io.ReadAll(res.Body); !isTruncated(err) {
			t.Errorf("the answer ended with %v, want that it has broken off", err)
		}
		equal(t, "after that", s.call("echo").body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
	})
}
