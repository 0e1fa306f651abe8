// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// Rest ends a session that no client has used since the time, unless its end would lose
// something. The next request opens another one.
func TestRestEndsIdleSessions(t *testing.T) {
	for _, c := range []struct {
		name   string
		modern bool
		cfg    client.Config
		req    func(*testing.T) *mcp.Request
		ends   bool
	}{
		{name: "listed only", req: listOfTools, ends: true},
		{name: "called", req: func(t *testing.T) *mcp.Request { return echo(t) }},
		{name: "called, with RestSessions", req: func(t *testing.T) *mcp.Request { return echo(t) }, cfg: client.Config{RestSessions: true}, ends: true},
		{name: "shared", req: func(t *testing.T) *mcp.Request { return echo(t) }, cfg: client.Config{Share: true}, ends: true},
		{name: "modern", modern: true, req: func(t *testing.T) *mcp.Request { return echo(t) }, ends: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				cl, opened := dialLines(t, &faultyserver.Lines{Modern: c.modern, On: answersLists()}, c.cfg)
				who := newTenant("a")
				t.Cleanup(who.End)
				call := func() {
					t.Helper()
					if _, err := within(t, cl, in(who.Scope, c.req(t)), &recorder{}); err != nil {
						t.Fatal(err)
					}
				}
				call()
				before := opened()
				time.Sleep(time.Minute)
				cl.Rest(time.Now().Add(-2 * time.Minute)) // it was used since
				call()
				if n := opened(); n != before {
					t.Errorf("%d processes after a call within the time, want %d", n, before)
				}
				if got := cl.KeepsState(); got == c.ends {
					t.Errorf("KeepsState is %t", got)
				}
				time.Sleep(time.Minute)
				cl.Rest(time.Now())
				synctest.Wait()
				call()
				if n, want := opened(), before+btoi(c.ends); n != want {
					t.Errorf("%d processes were started, want %d", n, want)
				}
			})
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func answersLists() map[string]func(*faultyserver.Line) {
	return map[string]func(*faultyserver.Line){"tools/list": func(x *faultyserver.Line) { x.Result(`{"resultType":"complete","tools":[]}`) }}
}

func listOfTools(t *testing.T) *mcp.Request { return request(t, "tools/list", `{}`) }

// Rest ends nothing that is in use: a call in progress, or a listen.
func TestRestLeavesWhatIsInUse(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			gate := make(chan struct{})
			s := &faultyserver.Lines{Modern: modern, On: gated(gate), Capabilities: `{"tools":{"listChanged":true}}`}
			c, opened := dialLines(t, s, client.Config{RestSessions: true})
			calling, listening := newTenant("calling"), newTenant("listening")
			t.Cleanup(listening.End)
			t.Cleanup(calling.End)
			hears := &recorder{}
			listen := launch(t, c, in(listening.Scope, request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)), hears)
			time.Sleep(time.Hour)
			if got := hears.notifications(); len(got) != 1 && !modern {
				t.Errorf("the listen has received %q", got)
			}
			slow := launch(t, c, in(calling.Scope, tool(t, "slow")), &recorder{})
			time.Sleep(time.Hour)
			before := opened()
			c.Rest(time.Now())
			synctest.Wait()
			close(gate)
			<-slow.done
			if slow.err != nil {
				t.Errorf("modern %t: the call ended with %v", modern, slow.err)
			}
			time.Sleep(time.Hour)
			if _, err := within(t, c, in(calling.Scope, echo(t)), &recorder{}); err != nil {
				t.Error(err)
			}
			select {
			case <-listen.done:
				if !modern { // this modern server has no listens
					t.Errorf("the listen ended with %v", listen.err)
				}
			default:
			}
			if n := opened(); n != before {
				t.Errorf("modern %t: %d processes were started, want %d", modern, n, before)
			}
		})
	}
}

// A request of the gateway itself does not count as use, so that lists that are fetched
// keep no process.
func TestRestIgnoresInternalRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, opened := dialLines(t, &faultyserver.Lines{Modern: true, On: answersLists()}, client.Config{})
		scope := mcp.NewScope("lists", nil)
		t.Cleanup(scope.End)
		for want := 1; want <= 2; want++ {
			if _, err := within(t, c, in(scope, listOfTools(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			if n := opened(); n != want {
				t.Errorf("%d processes were started, want %d", n, want)
			}
			time.Sleep(time.Hour)
			if _, err := within(t, c, in(scope, listOfTools(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			c.Rest(time.Now().Add(-time.Hour))
			synctest.Wait()
		}
	})
}

// No call is lost or fails because its process was idle a moment ago.
func TestCallsWhileProcessesRest(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, share := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				c, opened := dialLines(t, &faultyserver.Lines{Modern: modern, On: answersLists()}, client.Config{RestSessions: true, Share: share})
				var calling sync.WaitGroup
				for i := range 8 {
					who := newTenant("a")
					t.Cleanup(who.End)
					calling.Go(func() { // ends after its calls
						for n := range 200 {
							if i%2 == 0 {
								time.Sleep(time.Duration(n%7) * time.Millisecond)
							}
							req := echo(t)
							if i < 6 {
								req = in(who.Scope, req)
							}
							if _, err := c.Serve(t.Context(), req, &recorder{}); err != nil {
								t.Errorf("modern %t, share %t: %v", modern, share, err)
								return
							}
						}
					})
				}
				stop := make(chan struct{})
				var resting sync.WaitGroup
				resting.Go(func() { // ends with stop
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
						}
						for range 50 {
							c.Rest(time.Now().Add(-time.Millisecond))
							runtime.Gosched()
						}
					}
				})
				calling.Wait()
				close(stop)
				resting.Wait()
				if n := opened(); n < 10 {
					t.Errorf("modern %t, share %t: only %d processes were started, so none rested", modern, share, n)
				}
			})
		}
	}
}

// Rest leaves a process that has asked for input, until it has the input or the time of
// the client for that is over.
func TestRestLeavesWhatWaitsForInput(t *testing.T) {
	ask := request(t, "tools/call", `{"name":"x","arguments":{}}`)
	retry := request(t, "tools/call", `{"name":"x","arguments":{},"inputResponses":{"q":{"action":"accept"}},"requestState":"s1"}`)
	for name, c := range map[string]struct {
		wait  time.Duration
		retry bool
		ends  bool
	}{
		"no input yet":      {wait: 9 * time.Minute},
		"input given":       {wait: time.Minute, retry: true, ends: true},
		"no input any more": {wait: 11 * time.Minute, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
					if x.Msg.Params.Has(mcp.FieldRequestState) {
						x.Polite()
						return
					}
					x.Result(`{"resultType":"input_required","requestState":"s1","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`)
				}}}
				cl, opened := dialLines(t, s, client.Config{})
				serve := func(req *mcp.Request) {
					t.Helper()
					again := *req
					again.TakesInputRequired = true
					if _, err := within(t, cl, &again, &recorder{}); err != nil {
						t.Fatal(err)
					}
				}
				serve(ask)
				if c.retry {
					serve(retry)
				}
				time.Sleep(c.wait)
				if got := cl.KeepsState(); got == c.ends {
					t.Errorf("KeepsState is %t", got)
				}
				before := opened()
				cl.Rest(time.Now())
				synctest.Wait()
				serve(retry)
				if n, want := opened(), before+btoi(c.ends); n != want {
					t.Errorf("%d processes were started, want %d", n, want)
				}
			})
		})
	}
}

// A process whose call has just ended was in use until then: it does not rest as if it had
// been idle since the call began.
func TestRestAtTheEndOfALongCall(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			gate := make(chan struct{})
			c, opened := dialLines(t, &faultyserver.Lines{Modern: modern, On: gated(gate)}, client.Config{RestSessions: true})
			who := newTenant("a")
			t.Cleanup(who.End)
			for range 50 {
				slow := launch(t, c, in(who.Scope, tool(t, "slow")), &recorder{})
				synctest.Wait()
				begun := time.Now()
				time.Sleep(time.Minute)
				var resting sync.WaitGroup
				for range 2 {
					resting.Go(func() { // ends with the call
						for {
							select {
							case <-slow.done:
								return
							default:
								c.Rest(begun)
								runtime.Gosched()
							}
						}
					})
				}
				gate <- struct{}{}
				resting.Wait()
				if slow.err != nil {
					t.Fatal(slow.err)
				}
			}
			if n, want := opened(), 1+btoi(!modern); n > want {
				t.Errorf("modern %t: %d processes were started, want %d", modern, n, want)
			}
		})
	}
}
