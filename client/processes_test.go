// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// tenant is a client session: a scope with an owner that yields when asked, unless it
// is busy.
type tenant struct {
	*mcp.Scope

	busy  atomic.Bool
	asked atomic.Int32
}

func newTenant(key string) *tenant {
	s := &tenant{Scope: mcp.NewScope(key, &recorder{})}
	s.OnYield(func() bool {
		s.asked.Add(1)
		if s.busy.Load() {
			return false
		}
		s.End()
		return true
	})
	return s
}

func (s *tenant) hasEnded() bool { return !s.OnEnd(func() {}) }

// gated answers a call once the gate is open.
func gated(gate <-chan struct{}) map[string]func(*faultyserver.Line) {
	return map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
		if strings.Contains(string(x.Msg.Params.Raw(mcp.FieldName)), "slow") {
			<-gate
		}
		x.Polite()
	}}
}

// At the limit the least recently used session is evicted, if its owner agrees. A
// session with a call in progress is not asked.
func TestProcessesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		c, opened := dialLines(t, &faultyserver.Lines{On: gated(gate)}, client.Config{MaxProcesses: 3})
		calling, first, second, third := newTenant("calling"), newTenant("first"), newTenant("second"), newTenant("third")
		slow := launch(t, c, in(calling.Scope, tool(t, "slow")), &recorder{})
		synctest.Wait()
		for _, s := range []*tenant{first, second, first} { // so that the second is unused for longer
			time.Sleep(time.Second)
			if _, err := within(t, c, in(s.Scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		res, err := within(t, c, in(third.Scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if !second.hasEnded() || first.hasEnded() || calling.asked.Load() != 0 {
			t.Errorf("ended: first %v, second %v; the calling one was asked %d times", first.hasEnded(), second.hasEnded(), calling.asked.Load())
		}
		first.busy.Store(true)
		third.busy.Store(true)
		_, err = within(t, c, in(newTenant("fourth").Scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeLimit, mcp.NotDispatched, "3 processes are in use (limits.processes)")
		if first.asked.Load() == 0 || third.asked.Load() == 0 {
			t.Error("an idle session was not asked to make room")
		}
		close(gate)
		slow.wantResult(t, `{"content":[]}`)
		res, err = within(t, c, in(newTenant("fifth").Scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if !calling.hasEnded() || opened() != 5 {
			t.Errorf("the one that has called has ended: %v; %d pipes, want 5", calling.hasEnded(), opened())
		}
	})
}

// A session without a scope is evicted before any client's.
func TestIdlePooledProcessIsEvictedFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, _ := dialLines(t, new(faultyserver.Lines), client.Config{MaxProcesses: 2})
		old := newTenant("old")
		if _, err := within(t, c, in(old.Scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := within(t, c, echo(t), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if _, err := within(t, c, in(newTenant("next").Scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if old.asked.Load() != 0 {
			t.Error("a client's session was asked to make room although an idle one was there")
		}
		// A request without a session gets a slot in the same way.
		if _, err := within(t, c, echo(t), &recorder{}); err != nil || !old.hasEnded() {
			t.Errorf("error %v; the longest unused session has ended: %v", err, old.hasEnded())
		}
	})
}

// Internal requests have a process of their own, whatever the clients have: lists can
// be fetched at the limit, and no session ends for that.
func TestListsAreNotStarved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		defer close(gate)
		c, _ := dialLines(t, &faultyserver.Lines{On: gated(gate)}, client.Config{MaxProcesses: 1})
		busy := launch(t, c, in(newTenant("busy").Scope, tool(t, "slow")), &recorder{})
		synctest.Wait()
		for range 3 {
			lists := mcp.NewScope("lists", nil)
			if _, err := within(t, c, in(lists, request(t, "server/discover", "{}")), &recorder{}); err != nil {
				t.Fatalf("the lists cannot be learned: %v", err)
			}
			lists.End()
			// Its process may still be ending when the next one is opened.
		}
		_, err := within(t, c, in(newTenant("other").Scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeLimit, mcp.NotDispatched, "1 processes are in use")
		busy.cancel()
	})
}

// The probed pipe counts too, whichever request uses it.
func TestProbedProcessCounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		defer close(gate)
		c, opened := dialLines(t, &faultyserver.Lines{On: gated(gate)}, client.Config{MaxProcesses: 2})
		for i := range 2 {
			launch(t, c, in(newTenant(fmt.Sprint(i)).Scope, tool(t, "slow")), &recorder{})
			synctest.Wait()
		}
		_, err := within(t, c, in(newTenant("third").Scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeLimit, mcp.NotDispatched, "2 processes are in use")
		if opened() != 2 {
			t.Errorf("%d pipes, want 2", opened())
		}
	})
}

// While a process takes time to end, the next one does not start.
func TestNewProcessWaitsForTheOldOne(t *testing.T) {
	t.Parallel()
	c := startChild(t, "legacy-stubborn", client.Config{MaxProcesses: 1, Stop: 200 * time.Millisecond})
	res, err := within(t, c, in(newTenant("first").Scope, tool(t, "pid")), &recorder{})
	old := pidIn(t, res, err)
	res, err = within(t, c, in(newTenant("second").Scope, tool(t, "pid")), &recorder{})
	pid := pidIn(t, res, err)
	if isRunning(old) || pid == old {
		t.Errorf("process %d was started beside %d", pid, old)
	}
}

// slowClose is a stream that takes time to close.
type slowClose struct {
	io.ReadWriteCloser
	gate <-chan struct{}
}

func (s slowClose) Close() error {
	<-s.gate
	return s.ReadWriteCloser.Close()
}

// Nothing is opened until the evicted process has ended, and a waiting request can be
// cancelled.
func TestWaitForASlotIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var opened atomic.Int32
		s := new(faultyserver.Lines)
		c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
			opened.Add(1)
			a, b := memnet.Pipe(1 << 20)
			go s.Serve(b) // ends when the client closes its end, at the latest by Close below
			return slowClose{a, gate}, nil
		}, client.Config{Name: "b", MaxProcesses: 1})
		first, second := newTenant("first"), newTenant("second")
		if _, err := within(t, c, in(first.Scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		hasty := launch(t, c, in(second.Scope, echo(t)), &recorder{})
		synctest.Wait()
		if !first.hasEnded() || isDone(hasty) || opened.Load() != 1 {
			t.Fatalf("the first session has ended: %v; the second one waits: %v; %d streams were opened, want 1", first.hasEnded(), !isDone(hasty), opened.Load())
		}
		hasty.cancel()
		<-hasty.done
		if f, ok := errors.AsType[*mcp.Fault](hasty.err); !ok || f.Outcome != mcp.NotDispatched || !errors.Is(hasty.err, context.Canceled) {
			t.Errorf("who does not wait: %v, want that it was given up, not dispatched", hasty.err)
		}
		patient := launch(t, c, in(second.Scope, echo(t)), &recorder{})
		synctest.Wait()
		if isDone(patient) || opened.Load() != 1 {
			t.Errorf("%d streams are open beside one that has not gone", opened.Load())
		}
		close(gate)
		patient.wantResult(t, `{"content":[]}`)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Many sessions that come and go with real processes keep the limit all the time.
func TestProcessesOfManySessions(t *testing.T) {
	const limit, sessions = 2, 6
	c := startChild(t, "legacy", client.Config{MaxProcesses: limit})
	pids := make(map[int]bool)
	for i := range sessions {
		res, err := within(t, c, in(newTenant(fmt.Sprint(i)).Scope, tool(t, "pid")), &recorder{})
		pids[pidIn(t, res, err)] = true
		running := 0
		for pid := range pids {
			if isRunning(pid) {
				running++
			}
		}
		if running > limit {
			t.Errorf("%d processes are running, want at most %d", running, limit)
		}
	}
	if len(pids) != sessions {
		t.Errorf("%d processes for %d sessions", len(pids), sessions)
	}
}

// Without a limit no session is evicted.
func TestUnboundedProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, opened := dialLines(t, new(faultyserver.Lines), client.Config{MaxProcesses: -1})
		var all []*tenant
		for i := range 70 {
			all = append(all, newTenant(fmt.Sprint(i)))
			if _, err := within(t, c, in(all[i].Scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range all {
			if s.asked.Load() != 0 {
				t.Fatalf("session %s was asked to leave", s.Key())
			}
		}
		if opened() != 70 {
			t.Errorf("%d pipes, want 70", opened())
		}
	})
}
