// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// outcome is the result of a schedule.
type outcome struct {
	breach []string
	trace  []string
	tally  tally
}

// play runs one schedule in a bubble of its own. A leak at its end is a breach like any
// other.
func play(t *testing.T, s *choice.Source) (out outcome) {
	var w *world
	defer func() {
		if p := recover(); p != nil {
			out = w.outcome()
			out.breach = append(out.breach, fmt.Sprintf("the bubble: %v", p))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s, watch(t))
		defer time.AfterFunc(longest, w.giveUp).Stop()
		w.play()
		out = w.outcome()
	})
	return out
}

// longest is more than the steps of any schedule and the checks after it take.
const longest = 48 * time.Hour

// giveUp aborts a schedule that would never end: a goroutine is blocked while a timer keeps
// the bubble alive. The stacks show where.
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
func newWorld(s *choice.Source, watch *canary.Watch) *world {
	s.Step()
	w := &world{choose: s, watch: watch, start: time.Now(), jobs: make(map[string]*job), homes: make(map[string]*gateway), deleted: make(map[string]bool), answered: make(map[string]time.Time)}
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
		cfg:    server.Config{Logger: slog.New(watch.Handler(nil)), PassArriving: true, KeepAlive: 2 * time.Minute, Grace: w.grace(), Limits: server.Limits{InputWait: inputWait}},
		buffer: buffers[s.Intn(len(buffers))],
	}
	one.foreign = w.isForeign()
	w.tool = "work"
	if w.whole = s.Intn(4) == 3; w.whole {
		w.tool = "b__work"
	}
	if w.guarded = s.Intn(2) == 1; w.guarded {
		one.cfg.Authenticate = principalOf
	}
	one.cfg.StreamLife = []time.Duration{0, 0, 300 * time.Millisecond, 20 * time.Second}[s.Intn(4)]
	// The product starts processes, which a bubble does not support.
	w.backend.piped = s.Intn(4) == 3 && !w.whole
	w.replicate(one, 1+s.Intn(2))
	for i := range 1 + s.Intn(4) {
		w.users = append(w.users, w.newUser(i))
	}
	w.idle = w.newIdleness()
	s.Limit(1 + 4 + s.Intn(24))
	return w
}

// inputWait is how long a request waits for input of a modern client.
const inputWait = 2 * time.Minute

// grace is how long a server waits before it begins a stream.
func (w *world) grace() time.Duration {
	return []time.Duration{0, time.Millisecond, 100 * time.Millisecond}[w.choose.Intn(3)]
}

// version is the configured revision of the backend.
func (w *world) version() mcp.Version {
	switch {
	case w.choose.Intn(4) > 0:
		return "" // probe
	case w.backend.legacy:
		return mcp.LatestLegacy
	default:
		return mcp.LatestModern
	}
}

// isForeign reports whether our client uses net/http's transport instead of its own.
func (w *world) isForeign() bool { return w.choose.Intn(4) == 3 }

func (w *world) newUser(i int) user {
	token := w.tokenOf(i)
	switch w.choose.Intn(10) {
	case 0, 1, 2:
		return newLegacyClient(w, fmt.Sprintf("legacy%d", i), token)
	case 3, 4, 5:
		return newModernClient(w, fmt.Sprintf("modern%d", i), token)
	case 6:
		return newLibraryClient(w, fmt.Sprintf("own%d", i), token, mcp.LatestModern, false)
	case 7:
		return newLibraryClient(w, fmt.Sprintf("own%d", i), token, mcp.LatestLegacy, false)
	case 8:
		return newLibraryClient(w, fmt.Sprintf("own%d", i), "", mcp.LatestModern, true)
	default:
		return newLibraryClient(w, fmt.Sprintf("own%d", i), "", mcp.LatestLegacy, true)
	}
}

// play performs the steps, repairs the network, and checks everything.
func (w *world) play() {
	w.note("backend: legacy %v, on pipes %v; gateway: whole %v, pinned to %q, requests by net/http: %v; replicas: %d; idle after %v, in sessions %v",
		w.backend.legacy, w.backend.piped, w.whole, w.gateways[0].version, w.gateways[0].foreign, len(w.gateways), w.idle.after, w.idle.sessions)
	w.backend.start()
	for _, g := range w.gateways {
		g.start()
	}
	if w.whole {
		time.Sleep(time.Second) // to probe its backend
	}
	for w.choose.Step() {
		w.step()
		w.tally.steps++
		w.rest()
	}
	w.heal()
	w.teardown()
	w.judge()
	for _, leak := range w.watch.Leaks() {
		w.wrong("N1: %s", leak)
	}
	w.tally.schedules++
}

// rest waits between two steps: not at all, so that they race; until everything is blocked;
// or some time.
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

// sleep advances the time of the bubble.
func (*world) sleep(d time.Duration) { time.Sleep(d) }

// step performs one random action or fault.
func (w *world) step() {
	s := w.choose
	switch what := s.Intn(43); {
	case what < 22:
		w.users[s.Intn(64)%len(w.users)].act(s)
	case what < 34:
		w.harm()
	case what == 34:
		t := topic(s.Intn(int(topics)))
		w.note("%v changes", t)
		w.changes(t)
	case what == 35:
		w.toggleBackend()
	case what == 36:
		w.toggleGateway()
	case what == 37:
		d := []time.Duration{time.Second, 20 * time.Second, 3 * time.Minute, 40 * time.Minute}[s.Intn(4)]
		w.note("%v go by", d)
		w.countAction("jump")
		time.Sleep(d)
	case what > 39 && w.canRollBack():
		w.rollBack()
	case what > 39 && w.idle.after > 0:
		w.endIdle()
	case what > 39:
		w.refuseStreams()
	default:
		t := topic(s.Intn(int(topics)))
		w.note("%v changes, twice", t)
		w.changes(t)
		w.changes(t)
	}
}

// changes changes a topic, and records the state of all streams before.
func (w *world) changes(t topic) {
	w.last[t] = w.heard()
	w.backend.change(t)
}

func (w *world) heard() [][]streamState {
	all := make([][]streamState, len(w.users))
	for i, u := range w.users {
		all[i] = u.heard()
	}
	return all
}

// harm plans the fault of a connection: of an open one, of the next one, or of the one that
// carries the next large answer.
func (w *world) harm() {
	s := w.choose
	l := w.anyLink()
	f := faultPlan{
		harm:  fault(s.Intn(int(faults))),
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
		l.plan(f)
		return
	case 2:
		f.write, f.past = false, 1+f.after*large/6
		w.note("the %s connection of the next large answer: %s behind %d bytes", l.name, f.harm, f.past)
		l.planLarge(f)
		return
	}
	if c := pick(s, l.connections()); c != nil {
		w.note("%s connection %d: %s at %d", l.name, c.n, f.harm, f.after)
		c.arm(f)
		if f.harm == reset && f.after == 0 {
			c.markBroken()
			c.Reset()
			w.count(reset)
		}
	}
}

// toggleBackend crashes the backend, or starts it again.
func (w *world) toggleBackend() {
	if w.backend.site == nil {
		w.note("the backend starts")
		w.backend.start()
		return
	}
	w.note("the backend crashes")
	w.countAction("backend crash")
	w.backend.crash()
	if w.choose.Intn(2) == 0 {
		w.backend.start()
	}
}

// toggleGateway crashes a gateway, shuts it down, or starts it again.
func (w *world) toggleGateway() {
	g := w.anyGateway()
	switch how := w.choose.Intn(3); {
	case g.site == nil:
		w.note("the gateway %s starts", g.host)
		g.start()
		return
	case how == 0:
		w.note("the gateway %s crashes", g.host)
		w.countAction("gateway crash")
		g.crash()
	default:
		w.note("the gateway %s shuts down", g.host)
		w.countAction("gateway shutdown")
		g.shut++
		g.shutdown([]time.Duration{0, time.Second, time.Minute}[how])
	}
	if w.choose.Intn(2) == 0 {
		g.start()
	}
}

// patience is how long after the last fault everything has ended: more than the longest
// script and all timeouts of clients and gateway.
const patience = 8 * time.Minute

// heal repairs everything, gives all clients the time to finish, and checks that everything
// works again: calls succeed, and changes are delivered.
func (w *world) heal() {
	w.note("---- nothing breaks any more")
	for _, l := range w.links() {
		l.repair()
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
	w.checkListeners()
	w.checkRollback()
	w.note("---- each calls once more")
	var watched []func() streamState
	for _, u := range w.users {
		// One call finds out what has ended meanwhile.
		if r, ok := w.probe(u); !ok {
			w.note("%s: once more", r.mark)
			if r, ok = w.probe(u); !ok {
				w.wrong("%s: nothing is broken, and a call has no result", r.mark)
			}
		}
		watched = append(watched, u.watch())
	}
	time.Sleep(time.Minute)
	w.checkWatchers(watched)
}

// checkWatchers checks that each user is notified of the tools and the first resource, and
// not of the second.
func (w *world) checkWatchers(watched []func() streamState) {
	w.note("---- everything changes")
	before := make([]streamState, len(watched))
	for i, of := range watched {
		before[i] = of()
	}
	w.backend.change(tools, one, two)
	time.Sleep(time.Minute)
	for i, of := range watched {
		was, is := before[i], of()
		for t := range topics {
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

// probe makes a user call, and reports whether there is a result in time.
func (w *world) probe(u user) (*record, bool) {
	r := u.probe()
	time.Sleep(30 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	return r, r.ended == "result"
}

// checkLast checks that each stream that was open at the last change of a topic, and still
// is, has been notified since, whatever has happened in between.
func (w *world) checkLast() {
	for i, all := range w.heard() {
		for t := range topics {
			for k, is := range all {
				if w.last[t] == nil || k >= len(w.last[t][i]) {
					continue // it was opened later
				}
				w.checkNotified(i, t, w.last[t][i][k], is)
			}
		}
	}
}

func (w *world) checkNotified(user int, t topic, was, is streamState) {
	if is.open && was.open && is.life == was.life && is.promised[t] && was.promised[t] && is.told[t] == was.told[t] {
		w.wrong("user %d has a stream open, and was not told of a change of %v", user, t)
	}
}

// checkListeners checks that a change is delivered on the streams that have survived
// everything: no other check would notice that they are dead.
func (w *world) checkListeners() {
	w.note("---- everything changes, for those who listen still")
	for t := range topics {
		w.last[t] = w.heard()
	}
	w.backend.change(tools, one, two)
	time.Sleep(time.Minute)
	w.checkLast()
}

// teardown ends everything, and checks that nothing is left.
func (w *world) teardown() {
	w.note("---- the end")
	w.cancel()
	w.wg.Wait()
	for _, u := range w.users {
		u.close()
	}
	w.checkIdle()
	for _, g := range w.gateways {
		g.shutdown(time.Minute)
	}
	w.backend.crash()
	time.Sleep(2 * time.Second) // net/http lingers on a connection that it closes
	synctest.Wait()
	for _, l := range w.links() {
		if n := len(l.connections()); n > 0 {
			w.wrong("%d %s connections are left", n, l.name)
		}
	}
}
