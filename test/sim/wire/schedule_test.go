// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// outcome is what a schedule came to.
type outcome struct {
	breach []string
	trace  []string
	tally  tally
}

// play runs one schedule in a bubble of its own. What is left over there when it
// has ended is a breach like any other.
func play(t *testing.T, s *choice.Source) (out outcome) {
	var w *world
	defer func() {
		if p := recover(); p != nil {
			out = w.outcome()
			out.breach = append(out.breach, fmt.Sprintf("the bubble: %v", p))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s)
		defer time.AfterFunc(longest, w.giveUp).Stop()
		w.play()
		out = w.outcome()
	})
	return out
}

// longest is more than the steps of any schedule, and all that follows, take.
const longest = 48 * time.Hour

// giveUp ends everything, because the schedule never would: somebody waits in vain,
// and a timer goes on beside that. Where they all are is said by the stacks.
func (w *world) giveUp() {
	trace := w.outcome().trace
	panic("the schedule does not come to rest:\n" + strings.Join(trace[max(0, len(trace)-40):], "\n"))
}

func (w *world) outcome() outcome {
	if w == nil {
		return outcome{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return outcome{breach: w.breach, trace: w.trace, tally: w.tally}
}

// newWorld makes a world by the choices of the first step.
func newWorld(s *choice.Source) *world {
	s.Step()
	w := &world{choose: s, start: time.Now(), jobs: make(map[string]*job), homes: make(map[string]*gateway), deleted: make(map[string]bool), answered: make(map[string]time.Time)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	buffers := []int{0, 4 << 10, 512}
	w.backend = &backend{
		w: w, legacy: s.Intn(2) == 1, changed: make(chan struct{}),
		cfg:    server.Config{AllowedHosts: []string{"*"}, KeepAlive: 2 * time.Minute, Grace: w.grace(), Limits: server.Limits{InputWait: inputWait}},
		buffer: buffers[s.Intn(len(buffers))], unannounced: s.Intn(2) == 1, how: &manners[0], streams: newStreams(w),
	}
	w.backend.cfg.StreamLife = []time.Duration{0, 0, 0, 20 * time.Second}[s.Intn(4)]
	one := gateway{
		w: w, version: w.version(),
		cfg:    server.Config{PassArriving: true, KeepAlive: 2 * time.Minute, Grace: w.grace(), Limits: server.Limits{InputWait: inputWait}},
		buffer: buffers[s.Intn(len(buffers))],
	}
	one.foreign = w.isForeign()
	w.tool = "work"
	if w.whole = s.Intn(4) == 3; w.whole {
		w.tool = "b__work"
	}
	if w.guarded = s.Intn(2) == 1; w.guarded {
		one.cfg.Authenticate = who
	}
	one.cfg.StreamLife = []time.Duration{0, 0, 300 * time.Millisecond, 20 * time.Second}[s.Intn(4)]
	// The product starts processes, and those are not for a bubble.
	w.backend.piped = s.Intn(4) == 3 && !w.whole
	w.replicate(one, 1+s.Intn(2))
	for i := range 1 + s.Intn(4) {
		w.users = append(w.users, w.newUser(i))
	}
	s.Limit(1 + 4 + s.Intn(24))
	return w
}

// inputWait is how long a request waits for a client that was asked in the way of
// the modern era.
const inputWait = 2 * time.Minute

// grace is how long a server waits before it begins a stream.
func (w *world) grace() time.Duration {
	return []time.Duration{0, time.Millisecond, 100 * time.Millisecond}[w.choose.Intn(3)]
}

// version is what the gateway is told of its backend.
func (w *world) version() mcp.Version {
	switch {
	case w.choose.Intn(4) > 0:
		return "" // it finds out
	case w.backend.legacy:
		return mcp.LatestLegacy
	default:
		return mcp.LatestModern
	}
}

// isForeign reports whether our client is given a transport of net/http's, rather than
// one of the kind that it has of its own.
func (w *world) isForeign() bool { return w.choose.Intn(4) == 3 }

func (w *world) newUser(i int) user {
	token := w.tokenOf(i)
	switch w.choose.Intn(10) {
	case 0, 1, 2:
		return newLegacyClient(w, fmt.Sprintf("legacy%d", i), token)
	case 3, 4, 5:
		return newModernClient(w, fmt.Sprintf("modern%d", i), token)
	case 6:
		return newOwnClient(w, fmt.Sprintf("own%d", i), token, mcp.LatestModern, false)
	case 7:
		return newOwnClient(w, fmt.Sprintf("own%d", i), token, mcp.LatestLegacy, false)
	case 8:
		return newOwnClient(w, fmt.Sprintf("own%d", i), "", mcp.LatestModern, true)
	default:
		return newOwnClient(w, fmt.Sprintf("own%d", i), "", mcp.LatestLegacy, true)
	}
}

// play takes the steps, mends the network, and holds everybody to account.
func (w *world) play() {
	w.note("backend: legacy %v, on pipes %v; gateway: whole %v, pinned to %q, requests by net/http: %v; replicas: %d",
		w.backend.legacy, w.backend.piped, w.whole, w.gateways[0].version, w.gateways[0].foreign, len(w.gateways))
	w.backend.start()
	for _, g := range w.gateways {
		g.start()
	}
	if w.whole {
		time.Sleep(time.Second) // it gets to know its backend
	}
	for w.choose.Step() {
		w.step()
		w.tally.steps++
		w.rest()
	}
	w.heal()
	w.teardown()
	w.judge()
	w.tally.schedules++
}

// rest is the time between two steps: none at all, so that they race; until
// nothing moves; or some time.
func (w *world) rest() {
	switch w.choose.Intn(8) {
	case 0, 1, 2:
		synctest.Wait()
	case 3:
		time.Sleep(time.Millisecond)
	case 4:
		time.Sleep(50 * time.Millisecond)
	case 5:
		time.Sleep(2 * time.Second)
	}
}

// sleep lets the time of the bubble go by.
func (*world) sleep(d time.Duration) { time.Sleep(d) }

// step is one thing that happens.
func (w *world) step() {
	s := w.choose
	switch what := s.Intn(43); {
	case what < 22:
		w.users[s.Intn(64)%len(w.users)].act(s)
	case what < 34:
		w.harm()
	case what == 34:
		t := thing(s.Intn(int(things)))
		w.note("%v changes", t)
		w.changes(t)
	case what == 35:
		w.turnBackend()
	case what == 36:
		w.turnGateway()
	case what == 37:
		d := []time.Duration{time.Second, 20 * time.Second, 3 * time.Minute, 40 * time.Minute}[s.Intn(4)]
		w.note("%v go by", d)
		w.deed("jump")
		time.Sleep(d)
	case what > 39 && w.canRollBack():
		w.rollBack()
	case what > 39:
		w.refuseStreams()
	default:
		t := thing(s.Intn(int(things)))
		w.note("%v changes, twice", t)
		w.changes(t)
		w.changes(t)
	}
}

// changes has a thing change, and notes who has heard what of it before.
func (w *world) changes(t thing) {
	w.last[t] = w.heard()
	w.backend.change(t)
}

func (w *world) heard() [][]heard {
	all := make([][]heard, len(w.users))
	for i, u := range w.users {
		all[i] = u.heard()
	}
	return all
}

// harm prepares what happens to a connection: one that is open, the next one, or the one
// that brings the next large answer.
func (w *world) harm() {
	s := w.choose
	l := w.anyLine()
	f := fate{
		harm:  harm(s.Intn(int(harms))),
		write: s.Intn(2) == 1,
		after: s.Intn(6),
		bytes: []int{0, 1, 20, 300, 4000}[s.Intn(5)],
		pause: []time.Duration{0, time.Millisecond, 200 * time.Millisecond, 3 * time.Second, 15 * time.Second}[s.Intn(5)],
	}
	if f.harm == drip {
		f.pause = min(f.pause, 200*time.Millisecond)
	}
	switch s.Intn(6) {
	case 0, 1:
		w.note("the next %s connection: %s at %d", l.name, f.harm, f.after)
		l.expect(f)
		return
	case 2:
		f.write, f.past = false, 1+f.after*large/6
		w.note("the %s connection of the next large answer: %s behind %d bytes", l.name, f.harm, f.past)
		l.expectLarge(f)
		return
	}
	if c := pick(s, l.connections()); c != nil {
		w.note("%s connection %d: %s at %d", l.name, c.n, f.harm, f.after)
		c.arm(f)
		if f.harm == reset && f.after == 0 {
			c.breaks()
			c.Reset()
			w.count(reset)
		}
	}
}

// turnBackend crashes the backend, or starts it again.
func (w *world) turnBackend() {
	if w.backend.site == nil {
		w.note("the backend starts")
		w.backend.start()
		return
	}
	w.note("the backend crashes")
	w.deed("backend crash")
	w.backend.crash()
	if w.choose.Intn(2) == 0 {
		w.backend.start()
	}
}

// turnGateway crashes a gateway, ends it in order, or starts it again.
func (w *world) turnGateway() {
	g := w.anyGateway()
	switch how := w.choose.Intn(3); {
	case g.site == nil:
		w.note("the gateway %s starts", g.host)
		g.start()
		return
	case how == 0:
		w.note("the gateway %s crashes", g.host)
		w.deed("gateway crash")
		g.crash()
	default:
		w.note("the gateway %s shuts down", g.host)
		w.deed("gateway shutdown")
		g.shut++
		g.shutdown([]time.Duration{0, time.Second, time.Minute}[how])
	}
	if w.choose.Intn(2) == 0 {
		g.start()
	}
}

// patience is how long after the last harm everything has come to its end: more
// than the longest script, and than what clients and gateway wait for.
const patience = 8 * time.Minute

// heal mends everything, gives everybody the time to finish, and wants the world
// to work again: calls succeed, and changes are told.
func (w *world) heal() {
	w.note("---- nothing breaks any more")
	for _, l := range w.lines() {
		l.cure()
	}
	if w.backend.site == nil {
		w.backend.start()
	}
	for _, g := range w.gateways {
		if g.site == nil {
			g.start()
		}
	}
	time.Sleep(patience / 2)
	for _, u := range w.users {
		u.settle()
	}
	time.Sleep(patience / 2)
	w.checkLast()
	w.tellThoseWhoListen()
	w.checkRollback()
	w.note("---- each calls once more")
	var watched []func() heard
	for _, u := range w.users {
		// What had ended while nobody looked is found out by one call.
		if r, ok := w.probe(u); !ok {
			w.note("%s: once more", r.mark)
			if r, ok = w.probe(u); !ok {
				w.wrong("%s: nothing is broken, and a call has no result", r.mark)
			}
		}
		watched = append(watched, u.watch())
	}
	time.Sleep(time.Minute)
	w.tellThoseWhoWatch(watched)
}

// tellThoseWhoWatch wants each to be told of the tools and the first resource, and
// not of the second.
func (w *world) tellThoseWhoWatch(watched []func() heard) {
	w.note("---- everything changes")
	before := make([]heard, len(watched))
	for i, of := range watched {
		before[i] = of()
	}
	w.backend.change(tools, one, two)
	time.Sleep(time.Minute)
	for i, of := range watched {
		was, is := before[i], of()
		for t := range things {
			switch wanted := t != two; {
			case was.promised[t] != wanted:
				w.wrong("user %d is promised to be told of %v: %v", i, t, was.promised[t])
			case wanted && is.told[t] == was.told[t]:
				w.wrong("user %d was not told of the last change of %v", i, t)
			case !wanted && is.told[t] != was.told[t]:
				w.wrong("user %d was told of %v, which it does not want", i, t)
			}
		}
	}
}

// probe has a user call, and reports whether there is a result after a while.
func (w *world) probe(u user) (*record, bool) {
	r := u.probe()
	time.Sleep(30 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	return r, r.ended == "result"
}

// checkLast wants everybody whose stream was open when a thing changed last, and is
// open still, to have been told since, whatever has happened in between.
func (w *world) checkLast() {
	for i, all := range w.heard() {
		for t := range things {
			for k, is := range all {
				if w.last[t] == nil || k >= len(w.last[t][i]) {
					continue // it came later
				}
				w.wantTold(i, t, w.last[t][i][k], is)
			}
		}
	}
}

func (w *world) wantTold(user int, t thing, was, is heard) {
	if is.open && was.open && is.life == was.life && is.promised[t] && was.promised[t] && is.told[t] == was.told[t] {
		w.wrong("user %d has a stream open, and was not told of a change of %v", user, t)
	}
}

// tellThoseWhoListen wants a change to be told on the streams that have outlasted
// everything: nobody looks at them who would see that they are deaf.
func (w *world) tellThoseWhoListen() {
	w.note("---- everything changes, for those who listen still")
	for t := range things {
		w.last[t] = w.heard()
	}
	w.backend.change(tools, one, two)
	time.Sleep(time.Minute)
	w.checkLast()
}

// teardown ends everything, and wants nothing to be left.
func (w *world) teardown() {
	w.note("---- the end")
	w.cancel()
	w.wg.Wait()
	for _, u := range w.users {
		u.close()
	}
	for _, g := range w.gateways {
		g.shutdown(time.Minute)
	}
	w.backend.crash()
	time.Sleep(2 * time.Second) // net/http lingers on a connection that it closes
	synctest.Wait()
	for _, l := range w.lines() {
		if n := len(l.connections()); n > 0 {
			w.wrong("%d %s connections are left", n, l.name)
		}
	}
}
