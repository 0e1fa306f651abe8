// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backendActs has one of the backends do something.
//
// What a backend does is drawn for a call that it has been given, also for one that
// is over: a server that goes on talking after its answer, or after a cancellation,
// is what published races of gateways begin with (M005, M007). It never draws a
// call that was not sent, because nobody can answer what he has not heard.
func (w *world) backendActs() bool {
	b := w.backends[w.src.Intn(len(w.backends))]
	k := b.conn
	n := w.src.Intn(20)
	if len(k.jobs) == 0 {
		return false
	}
	c := k.jobs[w.src.Intn(len(k.jobs))]
	switch {
	// Half of it is talk. An answer ends the call, and what is to go wrong between
	// the two needs something that is still under way then.
	case n < 10:
		w.backendSays(c)
	case n < 15:
		w.backendAnswers(c)
	case n < 16 && w.set.allows(StrangeID):
		// An id below the first and one beyond the last, the text that looks like
		// the first, and one that does not fit where small numbers are kept (M018).
		id := [...]mcp.ID{mcp.NumberID(0), mcp.NumberID(uint64(k.given) + 1), mcp.StringID("1"), mcp.NumberID(1 << 62)}[w.src.Intn(4)]
		w.respond(k, id, nil, session.Terminal{Result: &mcp.Result{}})
	// More than an inbox holds, whatever its messages are: what is dropped must be
	// counted, and what must not be dropped must have its sender wait (I21, I30).
	case n < 17 && w.set.allows(Storm) && w.src.OneIn(8):
		w.fault(Storm)
		for range 300 {
			w.backendSays(c)
		}
	// Only a stream of its own can break for one call. A shared pipe breaks for
	// all, which is the crash below.
	case n < 18 && w.set.allows(Reset) && !k.shared:
		w.fault(Reset)
		c.broken = true
	case n < 19 && w.set.allows(BackendCrash) && w.src.OneIn(3):
		w.crash(b)
	default:
		w.probe(k)
	}
	return true
}

// backendSays sends a message that belongs to a call.
func (w *world) backendSays(c *ocall) {
	n := w.src.Intn(10)
	it := &item{key: w.src.Intn(len(keys))}
	switch {
	case n < 3:
		it.sort = plain
	case n < 5:
		it.sort, it.key = progress, 0
	case n < 7:
		it.sort = log
	case n < 9:
		it.sort = change
		if w.src.OneIn(3) {
			it.sort = news
		}
	default:
		it.sort = question
	}
	if c.finished {
		w.fault(LateResponse)
	}
	size := 10 + w.src.Intn(100)
	if w.set.large {
		size = w.src.Intn(len(w.props.padding))
		// Bounds go wrong by one, and a random size hardly ever meets one.
		if rest := c.rest(); rest > 0 && rest < len(w.props.padding) && w.src.OneIn(2) {
			size = rest + w.src.Intn(2) // it just fits, or just does not
		}
	}
	it.m = &mcp.Message{Kind: mcp.KindNotification, Method: spoken[it.sort], Raw: w.props.padding[:size]}
	switch it.sort {
	case change:
		it.m.Params = w.props.uris[it.key]
	case news:
		it.m.Params = w.props.tasks[it.key]
	default:
	}
	// A shared pipe has one reader for all calls, which must never wait for one of
	// them (M187): what it brings is pushed and may be dropped. A stream of its own
	// may wait: it is read by the call that it is for.
	if c.conn.shared {
		w.push(c, it)
		return
	}
	if !c.broken && !c.ended {
		c.flow = append(c.flow, it)
	}
}

// rest is how many bytes find room in a call when all that is on its way has come.
func (c *ocall) rest() int {
	_, size := c.weight()
	for _, it := range c.flow {
		if it.m != nil {
			size += len(it.m.Raw)
		}
	}
	return inboxBytes - size
}

// spoken are the methods of what backends say.
var spoken = map[sort]string{ //nolint:gochecknoglobals // it is never changed
	plain: "notifications/tasks/status", progress: "notifications/progress", log: "notifications/message",
	change: "notifications/resources/updated", question: "elicitation/create", news: "notifications/tasks",
}

// backendAnswers answers a call: on its own stream, on another, twice.
//
// The answer may come by another way than the question went. Where a client waited
// for it on one stream only, the call hung for ever (M001, M008): so the other
// stream overtakes here what is still unread on the call's own.
func (w *world) backendAnswers(c *ocall) {
	end := session.Terminal{Result: &mcp.Result{}}
	if c.finished {
		if !w.set.allows(DoubleResponse) {
			return
		}
		w.fault(DoubleResponse)
	}
	c.finished = true
	switch {
	case c.conn.shared:
	case w.set.allows(OtherStream) && w.src.OneIn(2):
		w.fault(OtherStream)
	case !c.broken && !c.ended:
		c.flow = append(c.flow, &item{end: &end})
		return
	}
	w.respond(c.conn, c.real.ID(), c, end)
}

// crash is the end of a backend, with all its calls. It is back at once.
//
// The connection is asked for its word at this very moment: a call that is opened
// after the end would wait for somebody who is not there (I3), and a second end
// with another reason must not change what those were told who have heard of the
// first.
func (w *world) crash(b *backend) {
	k := b.conn
	w.fault(BackendCrash)
	if w.tell() {
		w.say("%s crashes", k.name)
	}
	k.ended = true
	k.calls.End(errCrash)
	for len(k.open) > 0 {
		w.callEnded(k.open[0], session.Terminal{Err: errCrash})
	}
	if _, err := k.calls.Open("x"); err == nil {
		w.fail("I26", "%s has ended, and opens a call", k.name)
	}
	k.calls.End(errDeadline) // a second end changes nothing
	if err := k.calls.Err(); !errors.Is(err, errCrash) {
		w.fail("I26", "%s has ended for %v, want %v", k.name, err, errCrash)
	}
	b.connect()
}

// probe asks a connection for what it knows.
//
// A question on a shared pipe does not say which call it belongs to. It is given to
// a call only where there is just one that it can be of; with two it is refused,
// because a guess would put it to a client that has nothing to do with it (M055,
// M185). So what is asked here is the only call, and the only one but those of a
// method, with a method that is the beginning of the other to see that names are
// compared as a whole.
func (w *world) probe(k *conn) {
	var only *session.Call
	if len(k.open) == 1 {
		only = k.open[0].real
	}
	if got := k.calls.Only(""); got != only {
		w.fail("I37", "%s has %d open calls, and takes one for the only one: %v", k.name, len(k.open), got != nil)
	}
	but := 0
	only = nil
	for _, c := range k.open {
		if c.method != methods[0] {
			but++
			only = c.real
		}
		if k.calls.Find(c.real.ID()) != c.real {
			w.fail("I4", "%s is open, and is not found", c)
		}
	}
	if but != 1 {
		only = nil
	}
	if got := k.calls.Only(methods[0]); got != only {
		w.fail("I37", "%s has %d other open calls, and takes one for the only one: %v", k.name, but, got != nil)
	}
	if got := k.calls.Only("tools/"); got != nil {
		w.fail("I37", "%s has no calls but of tools/, and takes one for the only other one", k.name)
	}
	w.checkStats(k)
}

// Numbers are held exactly. A counter that is off by one shows a path on which a
// message went without a word, which nothing else may show.
func (w *world) checkStats(k *conn) {
	got := k.calls.Stats()
	want := session.CallStats{Open: len(k.open), Late: k.late, Unknown: k.unknown, Dropped: k.dropped, Merged: k.merged}
	if got != want {
		w.fail("I2", "%s counts %+v, want %+v", k.name, got, want)
	}
}
