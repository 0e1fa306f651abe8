// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backend is a server behind the gateway. Its calls share a pipe, or each has a stream of
// its own.
//
// Connections that have ended are kept: a late answer to one of their calls must be counted
// there, and not by the successor, which uses the same ids again.
type backend struct {
	no      int
	shared  bool
	conn    *conn
	retired []*conn
}

// conn is one connection to a backend, until a crash.
type conn struct {
	name    string
	calls   *session.Calls
	shared  bool
	open    []*outCall // in the order in which they were opened
	jobs    []*outCall // that the backend has received
	given   int        // ids
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

// outCall is the model of one call to a backend.
//
// It has two queues, because a message can be lost in both: messages that the backend has
// sent and the gateway has not read (unread), and messages that were accepted and not taken
// (inbox). draining, givingUp and gaveUp record where the goroutine that waits for the call
// is between two of its waits: at each of them the call can end.
type outCall struct {
	conn   *conn
	no     int
	method string
	real   *session.Call
	r      *request

	inbox        []*item // accepted and not taken
	unread       []*item // on the call's own stream, not read yet
	broken       bool    // that stream ends after its last message
	ended        bool
	end          session.Terminal
	undispatched bool
	sent         bool // the backend has received it
	finished     bool // the backend has answered
	draining     bool // the waiting goroutine is about to take
	givingUp     bool // the waiting goroutine is about to give up
	gaveUp       bool
	asked        int // questions of the backend that were taken
	replied      int
}

// item is one message of a backend.
type item struct {
	m    *mcp.Message
	kind kind
	key  int
	end  *session.Terminal // a response
}

func (c *outCall) String() string { return fmt.Sprintf("%s/k%d", c.conn.name, c.no) }

// The limits of a call's inbox.
const (
	inboxMessages = 256
	inboxBytes    = 1 << 20
)

var errCrash = errors.New("the backend is gone")

// open opens the call of a handler.
func (t *handler) open(w *world) {
	k := w.backends[t.wants].conn
	c := &outCall{conn: k, r: t.r, method: methods[t.r.no%2], undispatched: !k.shared, draining: true}
	real, err := k.calls.Open(c.method)
	if err != nil || k.ended {
		w.fail("I3", "%s refuses to open a call: %v", k.name, err)
		t.wants, t.left = -1, 0
		return
	}
	k.given++
	c.no, c.real = k.given, real
	// Ids are never reused on a connection: a late answer to the first call of an id would
	// complete the second (M005, M012).
	if want := jsonrpc.NumberID(uint64(k.given)); real.ID() != want {
		w.fail("I4", "%s assigns a call the id %s, want %s", k.name, real.ID(), want)
	}
	if c.undispatched {
		real.Hold()
	}
	t.call = c
	k.open = append(k.open, c)
	w.calls = append(w.calls, c)
	w.spawn(&callIO{c: c})
	if w.tracing() {
		w.logf("%s is opened for %s", c, t.r)
	}
}

var methods = [...]string{"tools/call", "tools/callers"} //nolint:gochecknoglobals // it is never changed

// callIO is the goroutine that sends a call's request and reads its stream.
//
// It is a separate thread, as in the product: the end of a call must not depend on whether
// it was sent (M001), and only with two threads can the answer arrive between the opening
// and the sending.
type callIO struct {
	c    *outCall
	sent bool
	full bool
}

func (t *callIO) ready(*world) bool {
	c := t.c
	switch {
	case isClosed(c.real.Done()), !t.sent:
		return true
	case t.full:
		return len(c.real.Space()) > 0
	default:
		return len(c.unread) > 0 || c.broken
	}
}

func (t *callIO) run(w *world) bool {
	c := t.c
	// Done is checked first. Otherwise an end without a cause would hide that the call was
	// completed by another one's answer.
	over := isClosed(c.real.Done())
	if over && !c.ended {
		w.fail("I1", "%s is done without a cause", c)
	}
	switch {
	case !t.sent:
		return t.send(w)
	case len(c.unread) > 0 && (!t.full || len(c.real.Space()) > 0):
		return t.read(w)
	case over:
		c.unread = nil
		return false
	}
	end := session.Terminal{Err: errCrash}
	w.finishedLocally(c, c.real.Finish(end), end)
	return false
}

// read reads the next message from the stream. The call may have ended since it was sent.
func (t *callIO) read(w *world) bool {
	c := t.c
	if t.full {
		<-c.real.Space()
		t.full = false
	}
	it := c.unread[0]
	if it.end != nil {
		c.unread = c.unread[1:]
		w.respond(c.conn, c.real.ID(), c, *it.end)
		return true
	}
	t.full = w.offer(c, it)
	if c.ended {
		c.unread = nil
		return false
	}
	if !t.full {
		c.unread = c.unread[1:]
	}
	return true
}

// send dispatches the request, unless the call has ended.
//
// A call that was given up before it was sent must not be sent: the backend would do
// needless work, and a tool would run although its client was informed that it did not
// (M027).
func (t *callIO) send(w *world) bool {
	c := t.c
	t.sent = true
	ok := c.real.Dispatch()
	if ok == c.ended {
		w.fail("I36", "%s is sent: %v, and has ended: %v", c, ok, c.ended)
	}
	if !ok {
		return false
	}
	c.undispatched = false
	c.sent = true
	c.conn.jobs = append(c.conn.jobs, c)
	if w.tracing() {
		w.logf("%s is sent", c)
	}
	return !c.conn.shared
}

// finishedLocally records that the gateway ended a call.
func (w *world) finishedLocally(c *outCall, ok bool, end session.Terminal) {
	if ok == c.ended {
		w.fail("I1", "%s is ended: %v, and had ended before: %v", c, ok, c.ended)
	}
	if ok {
		w.callEnded(c, end)
	}
}

// callEnded records that a call has its terminal, and checks that all waiters are woken.
//
// There are three kinds of waiters: for the end, for a message, and for space. In a
// published hang the last one was forgotten, and the reader of a pipe blocked forever
// (M149).
func (w *world) callEnded(c *outCall, end session.Terminal) {
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
		w.fail("I2", "%s has ended, and not all waiters are woken", c)
	}
	if w.tracing() {
		w.logf("%s has ended: %v", c, end.Err)
	}
}

// respond delivers a response, on any stream.
//
// A response has an unknown id, is for a call that has ended, or ends a call. The model
// knows which. Only the last may have an effect, and each is counted.
func (w *world) respond(k *conn, id mcp.ID, c *outCall, end session.Terminal) {
	ok := k.calls.Respond(id, end)
	switch {
	case c == nil:
		k.unknown++
		w.fault(StrangeID)
		if ok {
			w.fail("I4", "%s: a response to the unknown id %s ends a call", k.name, id)
		}
	case c.ended:
		k.late++
		w.fault(LateResponse)
		if ok {
			w.fail("I1", "%s has ended, and accepts a response", c)
		}
	case !ok:
		w.fail("I1", "%s is open, and rejects its response", c)
	default:
		w.callEnded(c, end)
	}
}

// queued returns how much a call has queued.
func (c *outCall) queued() (count, size int) {
	for _, it := range c.inbox {
		size += len(it.m.Raw)
	}
	return len(c.inbox), size
}

// fits reports whether the message fits. The first message always fits, whatever its size:
// otherwise the call would block forever, because no Take would free space.
func (c *outCall) fits(it *item) bool {
	n, size := c.queued()
	return n == 0 || n < inboxMessages && size+len(it.m.Raw) <= inboxBytes
}

// hasChange reports whether an equal change is queued.
//
// Changes that were not taken are merged (I33). The older one keeps its place, so that the
// change does not overtake messages between the two.
func (c *outCall) hasChange(it *item) bool {
	for _, old := range c.inbox {
		if it.kind == change && old.kind == change && old.key == it.key {
			return true
		}
	}
	return false
}

// replaceStatus removes an older queued status of the same task: the newest is complete. It
// always returns true.
func (c *outCall) replaceStatus(it *item) bool {
	for i, old := range c.inbox {
		if it.kind == taskStatus && old.kind == taskStatus && old.key == it.key {
			c.inbox = slices.Delete(c.inbox, i, i+1)
			c.conn.merged++
			break
		}
	}
	return true
}

// offer offers a message to a call from its own stream. It reports whether the caller must
// wait.
//
// The model predicts the outcome first. The order of the cases matters: a merge needs no
// space, so a change that is already queued must not wait for a full inbox.
func (w *world) offer(c *outCall, it *item) (full bool) {
	want := session.Queued
	switch {
	case c.ended:
		want = session.Dropped
		c.conn.late++
	case c.hasChange(it):
		c.conn.merged++
	case c.replaceStatus(it) && !c.fits(it):
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

// push pushes a message to a call from a shared stream.
func (w *world) push(c *outCall, it *item) {
	want := session.Queued
	switch {
	case c.ended:
		want = session.Dropped
		c.conn.late++
	case c.hasChange(it):
		c.conn.merged++
	default:
		c.replaceStatus(it)
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

// shed drops the oldest progress, or else the oldest log message.
//
// Progress is dropped first, because the next report replaces it, then log messages.
// Nothing else is dropped for another message: a lost question would hang, and a lost
// change would leave a client with stale data.
func (c *outCall) shed() bool {
	for _, s := range [...]kind{progress, log} {
		for i, it := range c.inbox {
			if it.kind == s {
				c.inbox = append(c.inbox[:i:i], c.inbox[i+1:]...)
				return true
			}
		}
	}
	return false
}

// relay takes the messages of a call and forwards them to the client.
//
// It receives the wake-up before it takes, and takes until nothing is left. In the opposite
// order a message between the two would be missed. The check for lost wake-ups relies on
// this thread to sleep only if Next returned nothing.
func (t *handler) relay(w *world) bool {
	c := t.call
	if !c.draining && len(c.real.Wake()) > 0 {
		<-c.real.Wake()
		c.draining = true
	}
	if c.givingUp && !c.gaveUp {
		c.gaveUp = true
		t.giveUp(w)
		return true
	}
	m, end := c.real.Next()
	switch {
	case m != nil:
		t.relayMessage(w, m)
	case end != nil:
		return t.conclude(w, end)
	case len(c.inbox) > 0 || c.ended:
		w.fail("I10", "%s has %d messages, has ended: %v, and Next returns nothing", c, len(c.inbox), c.ended)
		c.draining = false
	case t.r.stopped && !c.givingUp:
		c.givingUp, c.draining = true, true // the call may still end before it is given up
		return true
	default:
		c.draining = false
	}
	return true
}

// giveUp ends a call that its client no longer waits for.
//
// A call that was not sent is withdrawn, and the backend never receives it. One that was
// sent is ended locally, and its answer will be late. The lock of the call decides between
// the two: an earlier decision would be wrong if the call is sent meanwhile.
func (t *handler) giveUp(w *world) {
	c := t.call
	want := c.undispatched && !c.ended
	if ok := c.real.Withdraw(session.Terminal{Err: errCancel}); ok != want {
		w.fail("I36", "%s is withdrawn: %v, want %v", c, ok, want)
	} else if ok {
		w.callEnded(c, session.Terminal{Err: errCancel})
		return
	}
	w.finishedLocally(c, c.real.Finish(session.Terminal{Err: errCancel}), session.Terminal{Err: errCancel})
}

// conclude finishes the request with the terminal of its call, which must follow everything
// that was accepted before it: a message after the terminal belongs to no request (M039,
// M044).
func (t *handler) conclude(w *world, end *session.Terminal) bool {
	c := t.call
	if len(c.inbox) > 0 {
		w.fail("I10", "%s returns its terminal before %d messages", c, len(c.inbox))
	}
	if !c.ended || end.Result != c.end.Result || !errors.Is(end.Err, c.end.Err) {
		w.fail("I1", "%s returns another terminal than it has", c)
	}
	w.finish(t.r, false)
	return false
}

// relayMessage forwards a message of the backend to the client.
func (t *handler) relayMessage(w *world, m *mcp.Message) {
	c := t.call
	if len(c.inbox) == 0 || c.inbox[0].m != m {
		w.fail("I10", "%s returns another message than the next", c)
		return
	}
	it := c.inbox[0]
	c.inbox = c.inbox[1:]
	switch {
	case it.kind == question && t.r.sess != nil:
		c.asked++
		t.ask(w, t.r.stream, c)
	// A question without a session is answered elsewhere, changes and task status go to
	// subscribers, and a stopped handler forwards nothing.
	case it.kind == question, it.kind == change, it.kind == taskStatus, t.r.stopped:
	default:
		t.send(w, entry{kind: it.kind, key: it.key, size: 1 + len(m.Raw)%64})
	}
}
