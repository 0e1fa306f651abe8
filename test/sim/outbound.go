// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backend is a server behind the gateway. All its calls share a pipe, or each has a
// stream of its own.
//
// Those that have ended are kept: a late answer to one of their calls must be
// counted there, and not with its successor, whose ids begin anew and are the same
// numbers.
type backend struct {
	no      int
	shared  bool
	conn    *conn
	retired []*conn
}

// conn is one connection to a backend, from its beginning to a crash.
type conn struct {
	name    string
	calls   *session.Calls
	shared  bool
	open    []*ocall // in the order in which they were opened
	jobs    []*ocall // that the backend has been given
	given   int      // ids
	late    uint64
	unknown uint64
	dropped uint64
	merged  uint64
	ended   bool
}

func newBackend(no int, shared bool) *backend {
	b := &backend{no: no, shared: shared}
	b.connect()
	return b
}

func (b *backend) connect() {
	if b.conn != nil {
		b.retired = append(b.retired, b.conn)
	}
	b.conn = &conn{name: fmt.Sprintf("b%d.%d", b.no, len(b.retired)), calls: new(session.Calls), shared: b.shared}
}

// ocall is what is known of one call to a backend.
//
// It has two ends of a queue, because a message can be lost at both: what the
// backend has sent and nobody has read (flow), and what was accepted and nobody has
// taken (inbox). takes, tired and gaveUp are where the goroutine that waits for the
// call is between two of its waits: each of them is a moment at which the call can
// end under it.
type ocall struct {
	conn   *conn
	no     int
	method string
	real   *session.Call
	r      *request

	inbox    []*item // accepted and not taken
	flow     []*item // on the call's own stream, and not read yet
	broken   bool    // that stream ends behind what is on it
	ended    bool
	end      session.Terminal
	held     bool
	sent     bool // the backend has it
	finished bool // the backend has answered
	takes    bool // who waits for the call is about to take
	tired    bool // who waits for it is about to give it up
	gaveUp   bool
	asked    int // questions of the backend that were taken
	replied  int
}

// item is one message of a backend.
type item struct {
	m    *mcp.Message
	sort sort
	key  int
	end  *session.Terminal // a response
}

func (c *ocall) String() string { return fmt.Sprintf("%s/k%d", c.conn.name, c.no) }

// The bounds of what a call keeps.
const (
	inboxMessages = 256
	inboxBytes    = 1 << 20
)

var errCrash = errors.New("the backend is gone")

// open opens the call of a task.
func (t *task) open(w *world) {
	k := w.backends[t.wants].conn
	c := &ocall{conn: k, r: t.r, method: methods[t.r.no%2], held: !k.shared, takes: true}
	real, err := k.calls.Open(c.method)
	if err != nil || k.ended {
		w.fail("I3", "%s opens no call: %v", k.name, err)
		t.wants, t.left = -1, 0
		return
	}
	k.given++
	c.no, c.real = k.given, real
	// Ids are never used again on a connection: a late answer to the first user of
	// one would complete the second (M005, M012).
	if want := mcp.NumberID(uint64(k.given)); real.ID() != want {
		w.fail("I4", "%s gives a call the id %s, want %s", k.name, real.ID(), want)
	}
	if c.held {
		real.Hold()
	}
	t.call = c
	k.open = append(k.open, c)
	w.calls = append(w.calls, c)
	w.spawn(&carry{c: c})
	if w.tell() {
		w.say("%s is opened for %s", c, t.r)
	}
}

var methods = [...]string{"tools/call", "tools/callers"} //nolint:gochecknoglobals // it is never changed

// carry is the goroutine that sends a call's request and reads its stream.
//
// It is a thread of its own because the product has it so: that a call is complete
// must not depend on whether its sending is (M001), and only with two threads can
// the answer come between the opening and the sending.
type carry struct {
	c    *ocall
	sent bool
	full bool
}

func (t *carry) ready(*world) bool {
	c := t.c
	switch {
	case isClosed(c.real.Done()), !t.sent:
		return true
	case t.full:
		return len(c.real.Space()) > 0
	default:
		return len(c.flow) > 0 || c.broken
	}
}

func (t *carry) run(w *world) bool {
	c := t.c
	// It is looked at before anything else is done. A thread that is told of an end
	// that nobody has caused would hide a call that was completed by another one's
	// answer.
	over := isClosed(c.real.Done())
	if over && !c.ended {
		w.fail("I1", "%s is done, and nothing ended it", c)
	}
	switch {
	case !t.sent:
		return t.send(w)
	case len(c.flow) > 0 && (!t.full || len(c.real.Space()) > 0):
		return t.read(w)
	case over:
		c.flow = nil
		return false
	}
	end := session.Terminal{Err: errCrash}
	w.cut(c, c.real.Finish(end), end)
	return false
}

// read takes the next message from the stream. It may have been under way when the
// call ended.
func (t *carry) read(w *world) bool {
	c := t.c
	if t.full {
		<-c.real.Space()
		t.full = false
	}
	it := c.flow[0]
	if it.end != nil {
		c.flow = c.flow[1:]
		w.respond(c.conn, c.real.ID(), c, *it.end)
		return true
	}
	t.full = w.offer(c, it)
	if c.ended {
		c.flow = nil
		return false
	}
	if !t.full {
		c.flow = c.flow[1:]
	}
	return true
}

// send dispatches the request, if the call has not ended meanwhile.
//
// A call that was given up before it was sent must not be sent any more: the
// backend would work for nobody, and a tool would run of which its client believes
// that it did not (M027).
func (t *carry) send(w *world) bool {
	c := t.c
	t.sent = true
	ok := c.real.Dispatch()
	if ok == c.ended {
		w.fail("I36", "%s is sent: %v, and has ended: %v", c, ok, c.ended)
	}
	if !ok {
		return false
	}
	c.held = false
	c.sent = true
	c.conn.jobs = append(c.conn.jobs, c)
	if w.tell() {
		w.say("%s is sent", c)
	}
	return !c.conn.shared
}

// cut notes that a call was ended from our side.
func (w *world) cut(c *ocall, ok bool, end session.Terminal) {
	if ok == c.ended {
		w.fail("I1", "%s is ended: %v, and had ended before: %v", c, ok, c.ended)
	}
	if ok {
		w.callEnded(c, end)
	}
}

// callEnded notes that a call has its terminal, and that all who wait hear of it.
//
// All three kinds of waiters are looked at: whoever waits for the end, for a
// message, and for room to hand one in. A published hang is that the last of them
// was forgotten, and the reader of a pipe stood still with it (M149).
func (w *world) callEnded(c *ocall, end session.Terminal) {
	if c.ended {
		return
	}
	c.ended, c.end = true, end
	for i, o := range c.conn.open {
		if o == c {
			c.conn.open = append(c.conn.open[:i], c.conn.open[i+1:]...)
			break
		}
	}
	if !isClosed(c.real.Done()) || len(c.real.Wake()) == 0 || len(c.real.Space()) == 0 {
		w.fail("I2", "%s has ended, and not all who wait for it hear of it", c)
	}
	if w.tell() {
		w.say("%s has ended: %v", c, end.Err)
	}
}

// respond brings a response, on whatever stream.
//
// A response is one of three things, and which of them is known here without the
// machine: of nothing, of what has ended, or the end of a call. Only the last may
// have an effect, and each of the others is counted as itself.
func (w *world) respond(k *conn, id mcp.ID, c *ocall, end session.Terminal) {
	ok := k.calls.Respond(id, end)
	switch {
	case c == nil:
		k.unknown++
		w.fault(StrangeID)
		if ok {
			w.fail("I4", "%s: a response to %s, which is no call, ends one", k.name, id)
		}
	case c.ended:
		k.late++
		w.fault(LateResponse)
		if ok {
			w.fail("I1", "%s has ended, and takes a response", c)
		}
	case !ok:
		w.fail("I1", "%s is open, and does not take its response", c)
	default:
		w.callEnded(c, end)
	}
}

// weight is how much waits in a call.
func (c *ocall) weight() (count, size int) {
	for _, it := range c.inbox {
		size += len(it.m.Raw)
	}
	return len(c.inbox), size
}

// The first message always fits, however large it is: a bound that refused it would
// stop the call for good, because nothing that is taken would ever make room.
func (c *ocall) fits(it *item) bool {
	n, size := c.weight()
	return n == 0 || n < inboxMessages && size+len(it.m.Raw) <= inboxBytes
}

// says reports whether a change that says the same waits in the call.
//
// To say twice that something has changed says no more than to say it once, as long
// as nobody has heard the first (I33). The older keeps its place, so that nothing
// that was said between the two is overtaken by the change that it followed.
func (c *ocall) says(it *item) bool {
	for _, old := range c.inbox {
		if it.sort == change && old.sort == change && old.key == it.key {
			return true
		}
	}
	return false
}

// replaces takes back older news of the same task that nobody has taken: the newest
// says all. It is always true.
func (c *ocall) replaces(it *item) bool {
	for i, old := range c.inbox {
		if it.sort == news && old.sort == news && old.key == it.key {
			c.inbox = slices.Delete(c.inbox, i, i+1)
			c.conn.merged++
			break
		}
	}
	return true
}

// offer hands a message to a call from its own stream. It reports whether that has
// to wait.
//
// What the machine is to say is worked out before it is asked. The order is part of
// that: a merge needs no room, so that a full inbox must not have a change wait
// that is there already.
func (w *world) offer(c *ocall, it *item) (full bool) {
	want := session.Queued
	switch {
	case c.ended:
		want = session.Dropped
		c.conn.late++
	case c.says(it):
		c.conn.merged++
	case c.replaces(it) && !c.fits(it):
		want = session.Full
		w.fault(LimitHit)
	default:
		c.inbox = append(c.inbox, it)
	}
	if got := c.real.Offer(it.m); got != want {
		w.fail("I21", "%s is offered a message: %d, want %d", c, got, want)
	}
	return want == session.Full
}

// push hands a message to a call from a stream that others share.
func (w *world) push(c *ocall, it *item) {
	want := session.Queued
	switch {
	case c.ended:
		want = session.Dropped
		c.conn.late++
	case c.says(it):
		c.conn.merged++
	default:
		c.replaces(it)
		for !c.fits(it) && c.shed() {
			w.fault(LimitHit)
			c.conn.dropped++
		}
		if !c.fits(it) {
			want = session.Dropped
			c.conn.dropped++
			break
		}
		c.inbox = append(c.inbox, it)
	}
	if got := c.real.Push(it.m); got != want {
		w.fail("I30", "%s is pushed a message: %d, want %d", c, got, want)
	}
}

// shed gives up the oldest progress, or else the oldest log message.
//
// Progress goes first, because the next report makes up for it, and then the log.
// Nothing else is ever given up for another message: a question would hang, and a
// change would leave a client with what is stale.
func (c *ocall) shed() bool {
	for _, s := range [...]sort{progress, log} {
		for i, it := range c.inbox {
			if it.sort == s {
				c.inbox = append(c.inbox[:i:i], c.inbox[i+1:]...)
				return true
			}
		}
	}
	return false
}

// relay takes what has arrived for a call and gives it to the client.
//
// The wake-up is taken before the queue is looked at, and the queue is looked at
// until it is empty. In the other order a message that comes between the two is
// never heard of: that a lost wake-up is found depends on this thread to sleep only
// when the machine has nothing.
func (t *task) relay(w *world) bool {
	c := t.call
	if !c.takes && len(c.real.Wake()) > 0 {
		<-c.real.Wake()
		c.takes = true
	}
	if c.tired && !c.gaveUp {
		c.gaveUp = true
		t.giveUp(w)
		return true
	}
	m, end := c.real.Next()
	switch {
	case m != nil:
		t.hand(w, m)
	case end != nil:
		return t.conclude(w, end)
	case len(c.inbox) > 0 || c.ended:
		w.fail("I10", "%s has %d messages, has ended: %v, and gives nothing", c, len(c.inbox), c.ended)
		c.takes = false
	case t.r.stopped && !c.tired:
		c.tired, c.takes = true, true // the call may still end before it is given up
		return true
	default:
		c.takes = false
	}
	return true
}

// giveUp ends a call whose client does not wait any more. One that never left is
// taken back.
//
// A call that is still here is taken back, and the backend never hears of it. One
// that was sent is ended on our side, and its answer will be late. Which of the two
// it is, is decided under the lock of the call: a decision that was made before
// that would be wrong when the call is sent meanwhile.
func (t *task) giveUp(w *world) {
	c := t.call
	want := c.held && !c.ended
	if ok := c.real.Withdraw(session.Terminal{Err: errCancel}); ok != want {
		w.fail("I36", "%s is taken back: %v, want %v", c, ok, want)
	} else if ok {
		w.callEnded(c, session.Terminal{Err: errCancel})
		return
	}
	w.cut(c, c.real.Finish(session.Terminal{Err: errCancel}), session.Terminal{Err: errCancel})
}

// The terminal comes after all that was accepted before it. A result that overtakes
// the last progress is not wrong by itself, but what comes behind it then speaks
// for a request that is over (M039, M044).
func (t *task) conclude(w *world, end *session.Terminal) bool {
	c := t.call
	if len(c.inbox) > 0 {
		w.fail("I10", "%s gives its terminal before %d messages", c, len(c.inbox))
	}
	if !c.ended || end.Result != c.end.Result || !errors.Is(end.Err, c.end.Err) {
		w.fail("I1", "%s gives another terminal than it has", c)
	}
	w.finish(t.r, false)
	return false
}

// hand gives the client what the backend has said to this call.
func (t *task) hand(w *world, m *mcp.Message) {
	c := t.call
	if len(c.inbox) == 0 || c.inbox[0].m != m {
		w.fail("I10", "%s gives another message than is next", c)
		return
	}
	it := c.inbox[0]
	c.inbox = c.inbox[1:]
	switch {
	case it.sort == question && t.r.sess != nil:
		c.asked++
		t.ask(w, t.r.st, c)
	// A question without a session is answered elsewhere, changes and news go to
	// those who listen, and who has stopped relays nothing.
	case it.sort == question, it.sort == change, it.sort == news, t.r.stopped:
	default:
		t.say(w, entry{sort: it.sort, key: it.key, size: 1 + len(m.Raw)%64})
	}
}
