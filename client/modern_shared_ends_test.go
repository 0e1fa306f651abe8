// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A server that follows the specification does not respond to a cancelled listen. The
// loop does not wait for a response then.
func TestNoResponseToACancelledListen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.silent = true
		c, _ := dialLines(t, s.Lines, client.Config{})
		one := s.join(t, c, nil, "x:1")
		synctest.Wait()
		began := time.Now()
		two := s.join(t, c, nil, "x:2")
		wantStrings(t, "the server was asked", s.asked(), []string{"x:1", "-x:1", "x:1 x:2"})
		one.wantReceived(t, "one", "x:1")
		two.wantReceived(t, "two")
		if took := time.Since(began); took != 0 {
			t.Errorf("another listen was asked for after %v, want at once", took)
		}
	})
}

// A server that responds has ended the listen by then, and the next one is opened after
// that. A listen opened before this was known is opened again.
func TestServerThatEndsAListenLate(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second} {
		t.Run(linger.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSharedSetServer()
				s.linger = func() time.Duration { return linger }
				c, _ := dialLines(t, s.Lines, client.Config{})
				members := map[string]*listenMember{}
				for _, uri := range []string{"x:1", "x:2", "x:3"} {
					members[uri] = s.join(t, c, nil, uri)
					time.Sleep(time.Second)
					s.change("x:1")
				}
				time.Sleep(10*time.Minute + 30*time.Second)
				for uri, m := range members {
					m.wantUpToDate(t, uri)
					if linger <= time.Second { // a server slower than the wait is asked again and again
						s.change(uri)
						m.wantUpToDate(t, uri)
					}
				}
			})
		})
	}
}

// A listen that the server refuses ends with its error, whatever other listens join at
// the same time. Established listens continue.
func TestRefusedOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.refuse = func(items []string) error {
			if bad := slices.IndexFunc(items, func(item string) bool { return strings.HasPrefix(item, "x:bad") }); bad >= 0 {
				return errors.New("no " + items[bad])
			}
			return nil
		}
		c, _ := dialLines(t, s.Lines, client.Config{})
		old := s.join(t, c, nil, "x:1")
		synctest.Wait()
		members := map[string]*listenMember{"x:1": old}
		for _, uri := range []string{"x:2", "x:bad1", "x:3", "x:4", "x:bad2", "x:5", "x:6"} {
			members[uri] = s.join(t, c, nil, uri)
		}
		time.Sleep(10 * time.Second)
		for uri, m := range members {
			s.change(uri)
			synctest.Wait()
			if !strings.HasPrefix(uri, "x:bad") {
				m.wantUpToDate(t, uri)
				if isDone(m.running) || m.seen[uri] != 1 {
					t.Errorf("%s has ended (%v), or was not told: %v", uri, m.err, m.seen)
				}
				continue
			}
			<-m.done
			if e, ok := errors.AsType[*mcp.Error](m.err); !ok || e.Code != mcp.CodeInvalidParams || e.Message != "no "+uri {
				t.Errorf("%s ended with %v, want the server's error for it", uri, m.err)
			}
		}
	})
}

// Two equal listens that join at the same time are both refused, each once.
func TestRefusedTogetherOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.refuse = func([]string) error { return errors.New("no") }
		c, _ := dialLines(t, s.Lines, client.Config{})
		for _, m := range []*listenMember{s.join(t, c, nil, "x:bad"), s.join(t, c, nil, "x:bad"), s.join(t, c, nil, "x:bad", "x:1")} {
			<-m.done
			wantError(t, m.err, mcp.CodeInvalidParams)
		}
		if n := len(s.asked()); n > 6 {
			t.Errorf("the server was asked %d times: %q", n, s.asked())
		}
	})
}

// A server may refuse what it accepted before. Only the listen that asks for it ends.
func TestRefusedAfterABreakOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		gone := false
		s.refuse = func(items []string) error {
			if gone && slices.Contains(items, "x:2") {
				return errors.New("no x:2")
			}
			return nil
		}
		c, _ := dialLines(t, s.Lines, client.Config{})
		members := map[string]*listenMember{}
		for _, uri := range []string{"x:1", "x:2", "x:3"} {
			members[uri] = s.join(t, c, nil, uri)
		}
		synctest.Wait()
		gone = true
		members["x:4"] = s.join(t, c, nil, "x:4")
		<-members["x:2"].done
		wantError(t, members["x:2"].err, mcp.CodeInvalidParams)
		time.Sleep(time.Minute)
		for _, uri := range []string{"x:1", "x:3", "x:4"} {
			s.change(uri)
			members[uri].wantUpToDate(t, uri)
			if m := members[uri]; isDone(m.running) || m.seen[uri] != 1 {
				t.Errorf("%s has ended (%v), or was not told: %v", uri, m.err, m.seen)
			}
		}
	})
}

// A server without subscriptions is asked once for all listens.
func TestNoSubscriptionsOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.mangled = func(x *faultyserver.Line, _ []string) bool {
			x.Error(mcp.CodeMethodNotFound, "no such method")
			return true
		}
		c, _ := dialLines(t, s.Lines, client.Config{})
		if _, err := within(t, c, echo(t), &recorder{}); err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		plain := s.mangled
		s.mangled = func(x *faultyserver.Line, items []string) bool {
			<-hold
			return plain(x, items)
		}
		var all []*listenMember
		for i := range 10 {
			all = append(all, s.join(t, c, nil, fmt.Sprintf("x:%d", i)))
		}
		synctest.Wait()
		close(hold)
		for _, m := range all {
			<-m.done
			wantError(t, m.err, mcp.CodeMethodNotFound)
		}
		if n := len(s.asked()); n > 2 {
			t.Errorf("the server was asked %d times: %q", n, s.asked())
		}
	})
}

// A server that does not acknowledge one client's listen does not affect the others. A
// single listen waits for as long as it likes.
func TestNeverAcknowledgedOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.mangled = func(_ *faultyserver.Line, items []string) bool { return slices.Contains(items, "x:hangs") }
		c, _ := dialLines(t, s.Lines, client.Config{})
		hangs := s.join(t, c, nil, "x:hangs")
		time.Sleep(time.Hour)
		if isDone(hangs.running) {
			t.Fatalf("it was alone, and has ended: %v", hangs.err)
		}
		one := s.join(t, c, nil, "x:1")
		<-hangs.done
		wantFault(t, hangs.err, mcp.CodeBackendFailed, mcp.Unknown, "has not acknowledged")
		one.wantReceived(t, "one")
		for range 2 {
			hangs = s.join(t, c, nil, "x:hangs")
			time.Sleep(13 * time.Second) // ten, and two for a response that does not arrive
			s.change("x:1")
			one.wantUpToDate(t, "one")
		}
		<-hangs.done
		time.Sleep(time.Minute)
		s.change("x:1")
		one.wantUpToDate(t, "one")
		if one.seen["x:1"] != 3 {
			t.Errorf("one knows version %d, want 3", one.seen["x:1"])
		}
	})
}

// A server that ends the listen, or was started again, is asked again for all at once,
// and everything is reported as changed.
func TestSharedListenIsReopened(t *testing.T) {
	for _, dies := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := newSharedSetServer()
			c, opened := dialLines(t, s.Lines, client.Config{})
			one, two := s.join(t, c, nil, "x:1", "tools"), s.join(t, c, nil, "x:2")
			synctest.Wait()
			if dies {
				for _, l := range s.open {
					l.x.Close()
				}
			} else {
				s.tearDown()
			}
			s.change("x:1")
			time.Sleep(10 * time.Second)
			one.wantReceived(t, "one", "tools", "x:1")
			two.wantReceived(t, "two", "x:2")
			one.wantUpToDate(t, "one")
			s.change("x:2")
			two.wantUpToDate(t, "two")
			if n := opened(); dies != (n == 2) {
				t.Errorf("%d pipes were opened", n)
			}
		})
	}
}

// An unwanted subscription does not cause a gap for the others at once, and is not kept
// for ever.
func TestSharedListenNarrows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		c, _ := dialLines(t, s.Lines, client.Config{})
		one := s.join(t, c, nil, "x:1")
		synctest.Wait()
		two := s.join(t, c, nil, "x:2")
		one.wantReceived(t, "one", "x:1")
		two.leave()
		time.Sleep(time.Minute)
		s.change("x:2")
		if got := s.subscribed(t); !slices.Equal(got, []string{"x:1", "x:2"}) {
			t.Errorf("after a minute the server tells of %q", got)
		}
		one.wantReceived(t, "one")
		time.Sleep(5 * time.Minute)
		if got := s.subscribed(t); !slices.Equal(got, []string{"x:1"}) {
			t.Errorf("after six minutes the server tells of %q", got)
		}
		one.wantReceived(t, "one", "x:1")
		n := len(s.asked())
		time.Sleep(time.Hour)
		if more := len(s.asked()) - n; more != 0 {
			t.Errorf("in an hour in which nothing happened the server was asked %d times", more)
		}
	})
}

// Listens that join while the next stream is being opened share the one after it.
// Listens that keep joining and leaving do not make all others fetch everything all the
// time.
func TestJoiningIsCoalescedAndPaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.silent = true
		s.think = func() time.Duration { return time.Second }
		c, _ := dialLines(t, s.Lines, client.Config{})
		members := []*listenMember{s.join(t, c, nil, "x:first")}
		synctest.Wait()
		for i := range 100 {
			members = append(members, s.join(t, c, nil, fmt.Sprintf("x:%d", i)))
		}
		time.Sleep(10 * time.Second)
		for i, m := range members {
			m.wantUpToDate(t, fmt.Sprintf("member %d", i))
			if m.acks != 1 {
				t.Errorf("member %d has %d acknowledgements", i, m.acks)
			}
		}
		if got := s.asked(); len(got) != 3 {
			t.Errorf("the server was asked %q, want two listens", got)
		}
		s.think = nil
		before := len(s.asked())
		for i := range 1000 {
			m := s.join(t, c, nil, fmt.Sprintf("y:%d", i))
			time.Sleep(10 * time.Millisecond)
			m.leave()
		}
		// A cancelled and an opened listen, four times a second, and eight at once.
		if n := len(s.asked()) - before; n > 2*(10*4+8+1) {
			t.Errorf("the server was told %d times in ten seconds", n)
		}
	})
}

// Some servers end a listen at once if they can notify about nothing in it. It is not
// opened again until a listen wants something else.
func TestServerWithNothingToNotifyAbout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.agree = func(item string) bool { return item == "x:1" }
		s.mangled = func(x *faultyserver.Line, items []string) bool {
			if slices.Contains(items, "x:1") {
				return false
			}
			id := x.Msg.ID.String()
			x.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},` + subscription(id) + `}}`)
			x.Result(`{"resultType":"complete",` + subscription(id) + `}`)
			return true
		}
		c, _ := dialLines(t, s.Lines, client.Config{})
		lists := s.join(t, c, nil, "tools")
		nothing := s.join(t, c, nil)
		time.Sleep(time.Hour)
		wantStrings(t, "the server was asked", s.asked(), []string{"tools"})
		if lists.acks != 1 || len(lists.agreed) > 0 || nothing.acks != 1 {
			t.Errorf("%d and %d acknowledgements, and %q agreed", lists.acks, nothing.acks, lists.agreed)
		}
		lists.wantReceived(t, "the listen for lists")
		one := s.join(t, c, nil, "x:1")
		synctest.Wait()
		s.change("x:1")
		one.wantReceived(t, "one", "x:1")
		one.leave()
		lists.leave()
		wantStrings(t, "the server was asked", s.asked(), []string{"tools", "tools x:1", "-x:1"})
	})
}

// Each listen receives its own tasks. After a gap each task is fetched.
func TestTasksOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		s.On["tasks/get"] = func(x *faultyserver.Line) {
			id, _ := x.Msg.Params.Text(mcp.FieldTaskID)
			x.Result(fmt.Sprintf(`{"resultType":"complete","taskId":%q,"status":"working",%s}`, id, modernTimes))
		}
		c, _ := dialLines(t, s.Lines, client.Config{})
		one := s.join(t, c, nil, "task:1")
		synctest.Wait()
		two := s.join(t, c, nil, "task:2", "x:2")
		one.wantReceived(t, "one", "task:1")
		for _, item := range []string{"task:1", "task:2", "task:3"} {
			s.change(item)
		}
		one.wantReceived(t, "one", "task:1")
		two.wantReceived(t, "two", "task:2")
		one.wantUpToDate(t, "one")
		two.wantUpToDate(t, "two")
		// A client without task support is not notified of any.
		req := request(t, "subscriptions/listen", listenParamsOf([]string{"task:1"}))
		ear := &recorder{}
		launch(t, c, req, ear)
		synctest.Wait()
		wantStrings(t, "heard", ear.notifications(), []string{`subscriptions/acknowledged {"notifications":{}}`})
	})
}

// In whatever order listens join and leave, and however long the server takes for each
// step: no listen misses a change or receives another's, there is one stream at a time,
// and in the end nothing is left.
func TestSharedListenInAnyOrder(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		inBubble(t, func(t *testing.T) {
			newRandomRun(t, seed).run()
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// randomRun is one random order.
type randomRun struct {
	*sharedSetServer
	t      *testing.T
	rng    *rand.Rand
	c      *client.Client
	scopes []*mcp.Scope
	here   []*listenMember
}

var runItems = []string{"tools", "resources", "x:1", "x:2", "x:3", "task:1", "x:bad"}

func newRandomRun(t *testing.T, seed uint64) *randomRun {
	t.Helper()
	r := &randomRun{sharedSetServer: newSharedSetServer(), t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	own := rand.New(rand.NewPCG(seed, 2)) // the server's, guarded by its lock
	upTo := func(most time.Duration) func() time.Duration {
		return func() time.Duration { return time.Duration(own.Int64N(int64(most))) * time.Duration(own.IntN(2)) }
	}
	// A server that does not respond has ended a listen before it reads on.
	if r.silent = r.rng.IntN(3) == 0; !r.silent {
		r.linger = upTo(1500 * time.Millisecond)
	}
	r.think = upTo(3 * time.Second)
	r.refuse = func(items []string) error {
		if slices.Contains(items, "x:bad") {
			return errors.New("no")
		}
		return nil
	}
	r.On["tasks/get"] = func(x *faultyserver.Line) {
		x.Result(fmt.Sprintf(`{"resultType":"complete","taskId":"1","status":"working",%s}`, modernTimes))
	}
	r.c, _ = dialLines(t, r.Lines, client.Config{})
	for _, name := range []string{"a", "b"} {
		r.scopes = append(r.scopes, mcp.NewScope(name, nil))
	}
	r.scopes = append(r.scopes, nil)
	return r
}

func (r *randomRun) run() {
	for range 40 {
		r.step()
	}
	time.Sleep(10 * time.Minute)
	for i, m := range r.here {
		m.wantUpToDate(r.t, fmt.Sprintf("member %d of %q", i, m.wants))
	}
	wanted := map[string]bool{}
	for i, m := range r.here {
		for _, item := range m.wants {
			wanted[item] = true
			r.change(item)
		}
		m.wantUpToDate(r.t, fmt.Sprintf("member %d of %q, later,", i, m.wants))
		if m.acks != 1 || isDone(m.running) {
			r.t.Errorf("member %d of %q has %d acknowledgements, or has ended: %v", i, m.wants, m.acks, m.err)
		}
	}
	for _, item := range r.subscribed(r.t) {
		if !wanted[item] {
			r.t.Errorf("the server tells of %s, which nobody wants", item)
		}
	}
	for len(r.here) > 0 {
		r.leave(0)
	}
	time.Sleep(10 * time.Second)
	if got := r.subscribed(r.t); len(got) > 0 || len(r.open) > 0 {
		r.t.Errorf("nobody listens, and the server tells of %q on %d listens", got, len(r.open))
	}
}

func (r *randomRun) step() {
	switch k := r.rng.IntN(12); {
	case k < 4:
		r.addListen()
	case k < 6 && len(r.here) > 0:
		r.leave(r.rng.IntN(len(r.here)))
	case k == 6:
		r.tearDown()
	default:
		r.change(runItems[r.rng.IntN(len(runItems))])
	}
	switch r.rng.IntN(3) {
	case 0:
		synctest.Wait()
	case 1:
		time.Sleep(time.Duration(r.rng.Int64N(int64(4 * time.Second))))
	}
}

// addListen adds a listen. A listen that the server refuses has ended when that is
// known.
func (r *randomRun) addListen() {
	var items []string
	for _, item := range runItems {
		if r.rng.IntN(3) == 0 && item != "x:bad" {
			items = append(items, item)
		}
	}
	scope := r.scopes[r.rng.IntN(len(r.scopes))]
	if r.rng.IntN(6) == 0 {
		r.join(r.t, r.c, scope, append(items, "x:bad")...)
		return
	}
	r.here = append(r.here, r.join(r.t, r.c, scope, items...))
}

func (r *randomRun) leave(i int) {
	r.here[i].leave()
	r.here = slices.Delete(r.here, i, i+1)
}
