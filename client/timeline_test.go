// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// On a pipe, a request that waits for the handshake has that on its Timeline, one that
// comes later has not. The first byte of an answer is not known.
func TestTimelineOnAPipe(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				after := func(d time.Duration) func(x *faultyserver.Line) {
					return func(x *faultyserver.Line) {
						time.Sleep(d)
						x.Polite()
					}
				}
				slow := "initialize"
				if modern {
					slow = "server/discover"
				}
				var ended []time.Duration
				c, _ := dialLines(t, &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){
					slow: after(2 * time.Second), "tools/call": after(3 * time.Second),
				}}, client.Config{SessionEnded: func(d time.Duration) { ended = append(ended, d) }})
				scope := newTenant("one").Scope
				opening := 2 * time.Second
				for range 2 {
					req, times := in(scope, echo(t)), new(mcp.Timeline)
					times.Begin(time.Now())
					times.Mark(mcp.StageResolved)
					req.Timeline = times
					if _, err := c.Serve(t.Context(), req, &recorder{}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					for s, want := range map[mcp.Stage]time.Duration{
						mcp.StageLeased: opening, mcp.StageSent: opening, mcp.StageFirstByte: -1, mcp.StageLastByte: opening + 3*time.Second,
					} {
						if at, ok := times.At(s); ok != (want >= 0) || ok && at != want {
							t.Errorf("stage %d: %v, %v; want %v", s, at, ok, want)
						}
					}
					if start, handshake := times.Opening(); start != 0 || handshake != opening || times.Attempts() != 1 {
						t.Errorf("start %v, handshake %v, want %v; %d attempts", start, handshake, opening, times.Attempts())
					}
					opening = 0
				}
				c.Close()
				synctest.Wait()
				want := []time.Duration{6 * time.Second} // two calls
				if modern {
					want = nil // there are no sessions
				}
				if !slices.Equal(ended, want) {
					t.Errorf("sessions have ended after %v, want %v", ended, want)
				}
			})
		})
	}
}
