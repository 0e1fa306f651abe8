// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backendAct lets one of the backends act.
//
// The action is for a call that the backend has received, even one that has ended:
// published races of gateways begin with a server that continues to send after its answer
// or after a cancellation (M005, M007). It never is for a call that was not sent.
func (w *world) backendAct() bool {
	b := w.backends[w.src.Intn(len(w.backends))]
	k := b.conn
	n := w.src.Intn(20)
	if len(k.jobs) == 0 {
		return false
	}
	c := k.jobs[w.src.Intn(len(k.jobs))]
	switch {
	// Half of the actions are messages. An answer ends the call, and races need something
	// in transit at that time.
	case n < 10:
		w.backendSend(c)
	case n < 15:
		w.backendAnswer(c)
	case n < 16 && w.set.allows(StrangeID):
		// An id below the first and one beyond the last, a text that looks like the first,
		// and one too large for an array index (M018).
		id := [...]mcp.ID{jsonrpc.NumberID(0), jsonrpc.NumberID(uint64(k.given) + 1), jsonrpc.StringID("1"), jsonrpc.NumberID(1 << 62)}[w.src.Intn(4)]
		w.respond(k, id, nil, session.Terminal{Result: &mcp.Result{}})
	// More than an inbox holds: what is dropped must be counted, and what must not be
	// dropped must make its sender wait (I21, I30).
	case n < 17 && w.set.allows(Storm) && w.src.OneIn(8):
		w.fault(Storm)
		for range 300 {
			w.backendSend(c)
		}
	// Only a stream of its own can break for one call. A shared pipe breaks for all, which
	// is the crash below.
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

// backendSend sends a message that belongs to a call.
func (w *world) backendSend(c *outCall) {
	n := w.src.Intn(10)
	it := &item{key: w.src.Intn(len(keys))}
	switch {
	case n < 3:
		it.kind = plain
	case n < 5:
		it.kind, it.key = progress, 0
	case n < 7:
		it.kind = log
	case n < 9:
		it.kind = change
		if w.src.OneIn(3) {
			it.kind = taskStatus
		}
	default:
		it.kind = question
	}
	if c.finished {
		w.fault(LateResponse)
	}
	size := 10 + w.src.Intn(100)
	if w.set.large {
		size = w.src.Intn(len(w.fixtures.padding))
		// Limits are often wrong by one, and a random size rarely hits one.
		if rest := c.rest(); rest > 0 && rest < len(w.fixtures.padding) && w.src.OneIn(2) {
			size = rest + w.src.Intn(2) // it just fits, or just does not
		}
	}
	it.m = &mcp.Message{Kind: mcp.KindNotification, Method: methodOf[it.kind], Raw: w.fixtures.padding[:size]}
	switch it.kind {
	case change:
		it.m.Params = w.fixtures.uris[it.key]
	case taskStatus:
		it.m.Params = w.fixtures.tasks[it.key]
	default:
	}
	// A shared pipe has one reader for all calls, which must never wait for one of them
	// (M187): its messages are pushed and may be dropped. A call's own stream may wait.
	if c.conn.shared {
		w.push(c, it)
		return
	}
	if !c.broken && !c.ended {
		c.unread = append(c.unread, it)
	}
}

// rest returns how many bytes fit into a call after everything in transit.
func (c *outCall) rest() int {
	_, size := c.queued()
	for _, it := range c.unread {
		if it.m != nil {
			size += len(it.m.Raw)
		}
	}
	return inboxBytes - size
}

// methodOf maps kinds of messages to the methods that backends use.
var methodOf = map[kind]string{ //nolint:gochecknoglobals // it is never changed
	plain: "notifications/tasks/status", progress: "notifications/progress", log: "notifications/message",
	change: "notifications/resources/updated", question: "elicitation/create", taskStatus: "notifications/tasks",
}

// backendAnswer answers a call: on its own stream, on another, or twice.
//
// The answer may arrive on another stream than the request was sent on. A client that
// waited on one stream only hung forever (M001, M008): so the other stream overtakes the
// unread messages of the call's own stream.
func (w *world) backendAnswer(c *outCall) {
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
		c.unread = append(c.unread, &item{end: &end})
		return
	}
	w.respond(c.conn, c.real.ID(), c, end)
}

// crash ends a backend with all its calls. It restarts at once.
//
// Two checks follow: a call opened after the end would wait forever (I3), and a second end
// with another reason must not change the first.
func (w *world) crash(b *backend) {
	k := b.conn
	w.fault(BackendCrash)
	if w.tracing() {
		w.logf("%s crashes", k.name)
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

// probe queries a connection.
//
// A request on a shared pipe does not name the call that it belongs to. It is delivered to
// a call only if there is only one candidate; with two it is refused, because a guess would
// send it to an unrelated client (M055, M185). So the queries are for the only call, and
// for the only one besides those of a method. One method is a prefix of the other, to test
// that names are compared as a whole.
func (w *world) probe(k *conn) {
	var only *session.Call
	if len(k.open) == 1 {
		only = k.open[0].real
	}
	if got := k.calls.Only(""); got != only {
		w.fail("I37", "%s has %d open calls, and and Only returned one: %v", k.name, len(k.open), got != nil)
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
		w.fail("I37", "%s has %d other open calls, and Only returned one: %v", k.name, but, got != nil)
	}
	if got := k.calls.Only("tools/"); got != nil {
		w.fail("I37", "%s has only calls of tools/, and Only returned one", k.name)
	}
	w.checkStats(k)
}

// checkStats compares counters exactly. A counter that is off by one shows a path on which
// a message disappeared, which nothing else may show.
func (w *world) checkStats(k *conn) {
	got := k.calls.Stats()
	want := session.CallStats{Open: len(k.open), Late: k.late, Unknown: k.unknown, Dropped: k.dropped, Merged: k.merged}
	if got != want {
		w.fail("I2", "%s counts %+v, want %+v", k.name, got, want)
	}
}
