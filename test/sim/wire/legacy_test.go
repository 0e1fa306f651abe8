// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// legacyClient implements 2025-11-25.
type legacyClient struct {
	raw
	opening chan struct{} // semaphore: its holder may open a session

	mu      sync.Mutex
	home    *gateway // where it opens sessions
	session string
	drops   map[*record]context.CancelFunc // of the requests in flight
	listens []*listenStream
	event   string         // the last event that it received on a call's stream
	subs    [topics]string // the session that is subscribed, as far as known
	ever    listenFilter   // everything it ever subscribed to
	told    [topics]int
	listed  string // the last session in which it listed the tools
	closed  int    // how many of the listen streams it has closed

	subscribing chan struct{} // semaphore: its holder may subscribe or unsubscribe
}

// listenStream is a stream of changes.
type listenStream struct {
	cancel   context.CancelFunc
	session  string // of a legacy stream; guarded by its client
	open     atomic.Bool
	promised [topics]atomic.Bool // of a modern stream
	told     [topics]atomic.Int64
}

func (e *listenStream) heard() streamState {
	h := streamState{open: e.open.Load()}
	for t := range topics {
		h.promised[t], h.told[t] = e.promised[t].Load(), int(e.told[t].Load())
	}
	return h
}

// promise records an acknowledgement, and reports whether it is a subset of the request.
func (e *listenStream) promise(wanted, agreed listenFilter) bool {
	for t := range topics {
		if agreed[t] && !wanted[t] {
			return false
		}
		e.promised[t].Store(agreed[t])
	}
	e.open.Store(true)
	return true
}

// receive records a change, and reports whether it was promised.
func (e *listenStream) receive(method, uri string) bool {
	t, ok := changeOf(method, uri)
	if !ok || !e.promised[t].Load() {
		return false
	}
	e.told[t].Add(1)
	return true
}

// changeOf returns the topic of a change notification.
func changeOf(method, uri string) (topic, bool) {
	switch method {
	case "notifications/tools/list_changed":
		return tools, true
	case "notifications/resources/updated":
		t := topicOf(uri)
		return t, t != tools
	default:
		return tools, false
	}
}

// streamState is what a stream of changes is for and what it has received.
type streamState struct {
	open     bool
	life     string // what outlives a stream: another one need not repeat earlier changes
	promised listenFilter
	told     [topics]int
}

func newLegacyClient(w *world, name, token string) *legacyClient {
	c := &legacyClient{
		raw: newRaw(w, name, token), drops: make(map[*record]context.CancelFunc),
		opening: make(chan struct{}, 1), subscribing: make(chan struct{}, 1), home: w.anyGateway(),
	}
	c.opening <- struct{}{}
	c.subscribing <- struct{}{}
	return c
}

// act performs one random action of a client.
func (c *legacyClient) act(s *choice.Source) {
	switch s.Intn(22) {
	default:
		c.call(c.newCall(s, mcp.EraLegacy), answerMode(s.Intn(int(answerModes))))
	case 6:
		for range 2 + s.Intn(3) {
			c.call(c.newCall(s, mcp.EraLegacy), atOnce)
		}
	case 7, 14, 15:
		if r := pick(s, c.w.openRecords(c.name)); r != nil {
			c.cancelCall(r)
		}
	case 8:
		if r := pick(s, c.w.openRecords(c.name)); r != nil {
			c.hangUp(r)
		}
	case 9:
		c.listen()
	case 10:
		c.closeListen(s)
	case 11:
		c.delete()
	case 12:
		if r := pick(s, c.w.openRecords(c.name)); r != nil {
			again := c.newCall(s, mcp.EraLegacy)
			again.id, again.again = r.id, true
			c.call(again, atOnce)
		}
	case 13:
		c.w.countAction("stray")
		stray := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, 900+s.Intn(9))
		c.spawn(func() { c.post(c.current(), stray) })
	case 16, 17:
		c.subscribe("resources/subscribe", one+topic(s.Intn(2)))
	case 18:
		c.subscribe("resources/unsubscribe", one+topic(s.Intn(2)))
	case 19:
		c.trespass(s)
	case 20:
		c.wander(s)
	case 21:
		if len(c.w.openRecords(c.name)) > 0 {
			c.delete()
		}
	}
}

// pick chooses one element, or the zero value of an empty slice.
func pick[T any](s *choice.Source, of []T) (one T) {
	n := s.Intn(1 << 10)
	if len(of) == 0 {
		return one
	}
	return of[n%len(of)]
}

// spawn runs f concurrently; the end of the schedule waits for it.
func (c *raw) spawn(f func()) { c.w.wg.Go(f) }

func (c *legacyClient) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// forget drops a session that the server does not know.
func (c *legacyClient) forget(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == session {
		c.session = ""
	}
}

// headers returns the headers of a message in a session.
func (c *legacyClient) headers(session string) http.Header {
	h := http.Header{}
	if session != "" {
		h.Set("Mcp-Session-Id", session)
		h.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	return h
}

// send sends a message to the gateway of its session, or to the one where sessions are
// opened.
func (c *legacyClient) send(ctx context.Context, on *atomic.Pointer[conn], method, body string, header http.Header) (*http.Response, error) {
	to := c.w.homeOf(header.Get("Mcp-Session-Id"))
	if to == nil {
		to = c.atHome()
	}
	return c.raw.send(ctx, to, on, method, body, header)
}

func (c *legacyClient) atHome() *gateway {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.home
}

// ensure returns the session, which it opens if necessary, or "" if that fails.
func (c *legacyClient) ensure() string {
	select {
	case <-c.opening:
	case <-c.w.ctx.Done():
		return ""
	}
	defer func() { c.opening <- struct{}{} }()
	if s := c.current(); s != "" {
		return s
	}
	ctx, cancel := context.WithTimeout(c.w.ctx, 40*time.Second)
	defer cancel()
	home := c.atHome()
	res, err := c.raw.send(ctx, home, nil, http.MethodPost, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"`+c.name+`","version":"1"}}}`, c.headers(""))
	if err != nil {
		c.w.note("%s: initialize: %v", c.name, err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	session := res.Header.Get("Mcp-Session-Id")
	if err != nil || session == "" {
		c.w.note("%s: initialize: %d %s %v", c.name, res.StatusCode, short(body), err)
		return ""
	}
	c.w.opened(session, home)
	c.insist(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	listed := c.list(session)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	if listed {
		c.listed = session
	}
	return session
}

// insist sends a message until the server accepts it, and reports whether it has.
func (c *legacyClient) insist(session, body string) bool {
	for range 8 {
		if c.post(session, body) {
			return true
		}
		if c.w.ctx.Err() != nil {
			return false
		}
		_ = pause(c.w.ctx, 2*time.Second)
	}
	return false
}

// post sends a message without an answer, and reports whether the server has accepted it or
// never will.
func (c *legacyClient) post(session, body string) bool {
	ctx, cancel := context.WithTimeout(c.w.ctx, 40*time.Second)
	defer cancel()
	res, err := c.send(ctx, nil, http.MethodPost, body, c.headers(session))
	if err != nil {
		c.w.note("%s: could not say %s: %v", c.name, body, err)
		return false
	}
	defer res.Body.Close()
	c.w.note("%s says %s: %d", c.name, body, res.StatusCode)
	_, _ = io.Copy(io.Discard, res.Body)
	if res.StatusCode == http.StatusNotFound {
		c.forget(session)
	}
	return res.StatusCode < http.StatusInternalServerError && res.StatusCode != http.StatusRequestTimeout
}

// call makes a call, in the background.
func (c *legacyClient) call(r *record, b answerMode) {
	c.w.countAction("legacy call")
	ctx, cancel := context.WithCancel(c.w.ctx)
	c.mu.Lock()
	c.drops[r] = cancel
	c.mu.Unlock()
	c.spawn(func() {
		defer cancel()
		c.run(ctx, r, b)
		c.mu.Lock()
		delete(c.drops, r)
		c.mu.Unlock()
	})
}

func (c *legacyClient) run(ctx context.Context, r *record, b answerMode) {
	session := c.ensure() //nolint:contextcheck // messages of a client outlive the response that caused them
	if session == "" {
		r.excuse("there is no session")
		return
	}
	r.begin(session)
	home := c.w.homeOf(session)
	r.attempt(home, home.front)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s,"_meta":{"progressToken":%s}}}`, r.id, r.callParams(), r.id)
	c.w.note("%s > %s", r.mark, body)
	began := time.Now()
	res, err := c.send(ctx, &r.conn, http.MethodPost, body, c.headers(session))
	if err != nil {
		r.unheard(err)
		return
	}
	if res.StatusCode != http.StatusOK {
		c.turnedAway(r, session, res)
		return
	}
	l := &legacyCall{c: c, r: r, session: session, bearing: b}
	end := c.follow(res, "", l.take("POST")) //nolint:contextcheck // messages of a client outlive the response that caused them
	c.saw(end.last)
	l.broke = r.conn.Load().harmedAt(began)
	r.mayResume(end.last != "")
	for n := 0; !r.isEnded() && end.last != "" && c.w.ctx.Err() == nil; n++ {
		end = l.resume(end, n) //nolint:contextcheck // messages of a client outlive the response that caused them
	}
	r.ranOut(end)
}

// mayResume records whether the client can resume.
func (r *record) mayResume(can bool) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.resumable = can
}

func (c *legacyClient) turnedAway(r *record, session string, res *http.Response) {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.lost(err)
		return
	}
	if res.StatusCode == http.StatusNotFound {
		c.forget(session)
	}
	r.refused(res.StatusCode, body)
}

// legacyCall is a call in flight.
type legacyCall struct {
	c       *legacyClient
	r       *record
	session string
	bearing answerMode
	broke   time.Time // when it lost its last response, even if it noticed later
}

// take returns the function for the messages of one response of the call.
func (l *legacyCall) take(carrier string) func(*mcp.Message) {
	return func(m *mcp.Message) {
		n, more := l.r.take(carrier, m)
		if n.Error != nil && strings.Contains(n.Error.Message, "limits.eventRetention") {
			l.r.wasNotKept(l.broke, m)
		}
		if more && m.Kind == mcp.KindRequest {
			l.answer(m.ID.String(), n.Params.Message)
		}
	}
}

// wasNotKept judges the answer that a result is no longer available to a client that lost
// its response at that time. The gateway itself may have resumed too late.
func (r *record) wasNotKept(broke time.Time, m *mcp.Message) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if time.Since(broke) < retention && !r.isLostBehindLocked() {
		r.wrongLocked("was not kept for its time: %s", short(m.Raw))
	}
}

// answer handles a question in the client's answer mode.
func (l *legacyCall) answer(id, question string) {
	say := func() {
		if l.c.insist(l.session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, answerTo(question))) {
			l.c.w.answers(question)
		}
	}
	switch l.bearing {
	case never:
		l.r.excuse("it is never answered")
	case later:
		l.c.spawn(func() {
			_ = pause(l.c.w.ctx, 3*time.Second)
			say()
		})
	case twice:
		l.c.spawn(say)
		l.c.spawn(say)
	case wrongly:
		l.c.spawn(func() {
			l.c.post(l.session, `{"jsonrpc":"2.0","id":"nobody","result":{}}`)
			say()
		})
	default:
		l.c.spawn(say)
	}
}

// resume resumes the stream of the call, for the n-th time.
func (l *legacyCall) resume(end ending, n int) ending {
	l.c.w.countAction("resume")
	wait := max(end.retry, min(100*time.Millisecond<<min(n, 8), 20*time.Second))
	if n == 0 {
		wait = max(wait, l.r.away)
	}
	_ = pause(l.c.w.ctx, wait)
	h := l.c.headers(l.session)
	h.Set("Last-Event-Id", end.last)
	l.c.w.note("%s > GET after %s", l.r.mark, end.last)
	began := time.Now()
	var on atomic.Pointer[conn]
	res, err := l.c.send(l.c.w.ctx, &on, http.MethodGet, "", h)
	if err != nil {
		return ending{last: end.last, retry: end.retry}
	}
	if res.StatusCode != http.StatusOK {
		return l.cannotResume(res, end)
	}
	next := l.c.follow(res, end.last, l.take("GET"))
	l.broke = on.Load().harmedAt(began)
	return next
}

// retention is how long a stream can be resumed after the end of its request.
const retention = 5 * time.Minute

// cannotResume judges the refusal of a resumption. While the session exists and the stream
// is retained, there is no reason to refuse.
func (l *legacyCall) cannotResume(res *http.Response, end ending) ending {
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	l.c.w.note("%s: resuming: %d %s", l.r.mark, res.StatusCode, short(body))
	if res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests {
		return end
	}
	r := l.r
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	kept := !r.sentTo(isAnother) && !r.stoppable && r.cancelled.IsZero() && time.Since(l.broke) < retention
	if kept && r.ended == "" {
		r.wrongLocked("cannot be resumed after %s: %d %s", end.last, res.StatusCode, short(body))
	}
	r.resumable = false
	if r.excused == "" {
		r.excused = "it cannot be resumed"
	}
	return ending{}
}

// cancelCall notifies the server that the client cancels the call.
func (c *legacyClient) cancelCall(r *record) {
	c.w.countAction("cancel")
	// A call with the same id may be cancelled as well.
	session := c.sessionOf(r)
	c.w.each(c.name, func(other *record) {
		if other.id == r.id && (other.session == session || other.session == "") {
			other.cancelled, other.excused = time.Now(), "it was cancelled"
		}
	})
	c.spawn(func() {
		if session == "" {
			session = c.ensure()
		}
		c.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, r.id))
	})
}

// sessionOf returns the session of a request, or the one that it will have.
func (c *legacyClient) sessionOf(r *record) string {
	if session := r.inSession(); session != "" {
		return session
	}
	return c.current()
}

// hangUp closes the response of a call, which is not a cancellation.
func (c *legacyClient) hangUp(r *record) {
	c.w.countAction("hang up")
	c.mu.Lock()
	drop := c.drops[r]
	c.mu.Unlock()
	if drop != nil {
		c.w.mu.Lock()
		r.hung = true
		c.w.mu.Unlock()
		drop()
	}
}

// delete ends the session.
func (c *legacyClient) delete() {
	session := c.current()
	if session == "" {
		return
	}
	c.w.countAction("DELETE")
	c.forget(session)
	c.w.each(c.name, func(r *record) { r.stoppable = true })
	c.w.withdraws(session)
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.w.ctx, 40*time.Second)
		defer cancel()
		res, err := c.send(ctx, nil, http.MethodDelete, "", c.headers(session))
		if err != nil {
			return
		}
		c.w.note("%s: DELETE: %d", c.name, res.StatusCode)
		res.Body.Close()
		if res.StatusCode/100 == 2 {
			c.w.hasEnded(session)
		}
	})
}

// listen opens a standalone stream, and resumes it whenever it breaks or the server
// requests that.
func (c *legacyClient) listen() *listenStream {
	c.w.countAction("GET")
	ctx, cancel := context.WithCancel(c.w.ctx)
	e := &listenStream{cancel: cancel}
	c.mu.Lock()
	c.listens = append(c.listens, e)
	c.mu.Unlock()
	c.spawn(func() {
		defer cancel()
		session := c.ensure() //nolint:contextcheck // messages of a client outlive the response that caused them
		c.belongs(e, session)
		end := ending{last: anywhere}
		for n := 0; session != "" && session == c.current() && ctx.Err() == nil; n++ {
			var more bool
			if end, more = c.listenOnce(ctx, e, session, end); !more {
				return
			}
			_ = pause(ctx, max(end.retry, min(100*time.Millisecond<<min(n, 8), 20*time.Second)))
		}
	})
	return e
}

// belongs records the session of a stream. A client that abandoned a session still receives
// messages there, which do not count for its current one.
func (c *legacyClient) belongs(e *listenStream, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.session = session
}

// listenOnce reads one response of the standalone stream, and reports whether the stream
// continues. A response that ends regularly without a retry time was taken over by another,
// or the stream has ended.
func (c *legacyClient) listenOnce(ctx context.Context, e *listenStream, session string, from ending) (end ending, more bool) {
	h := c.headers(session)
	if from.last != anywhere {
		h.Set("Last-Event-Id", from.last)
	}
	res, err := c.send(ctx, nil, http.MethodGet, "", h)
	if err != nil {
		return from, true
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		c.w.note("%s: GET after %q: %d %s", c.name, from.last, res.StatusCode, short(body))
		if res.StatusCode == http.StatusNotFound {
			c.forget(session)
		}
		return from, res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable
	}
	e.open.Store(true)
	defer e.open.Store(false)
	end = c.follow(res, from.last, func(m *mcp.Message) { c.receive(session, m) }) //nolint:contextcheck // messages of a client outlive the response that caused them
	return end, end.again || !end.clean
}

// receive judges a message on a standalone stream: it must not belong to a request, unless
// it may be ambiguous.
func (c *legacyClient) receive(session string, m *mcp.Message) {
	c.w.note("%s standalone < %s", c.name, short(m.Raw))
	if c.w.homeOf(session).shakesHands() && c.takeAmbiguous(session, m) {
		return
	}
	t, ok := changeOf(m.Method, textOf(m, mcp.FieldURI))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Kind == mcp.KindNotification && ok && (t == tools || c.ever[t]):
		if session == c.session {
			c.told[t]++
		}
	case m.Kind == mcp.KindNotification && strings.HasSuffix(m.Method, "/list_changed"):
		// After a gap every list may have changed, even an empty one.
	default:
		c.w.wrong("%s: its standalone stream brought %s", c.name, short(m.Raw))
	}
}

func (c *legacyClient) closeListen(s *choice.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := pick(s, c.listens); e != nil {
		c.closed++
		e.cancel()
	}
}

// settle cancels the calls that would wait forever for an answer.
func (c *legacyClient) settle() {
	var waiting []*record
	c.w.each(c.name, func(r *record) {
		if r.excused == "it is never answered" {
			waiting = append(waiting, r)
		}
	})
	for _, r := range waiting {
		c.cancelCall(r)
	}
}

func (c *legacyClient) probe() *record {
	s := new(choice.Source)
	s.Again(nil)
	r := c.newCall(s, mcp.EraLegacy)
	r.script = "p"
	c.call(r, atOnce)
	return r
}

// watch opens a standalone stream. A session has one, whichever response carries it.
func (c *legacyClient) watch() func() streamState {
	c.listen()
	c.spawn(c.listOnce)
	c.subscribe("resources/subscribe", one)
	c.subscribe("resources/unsubscribe", two)
	return func() streamState { return c.heard()[0] }
}

func (c *legacyClient) heard() []streamState {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := streamState{told: c.told, promised: listenFilter{tools: c.session != "" && c.listed == c.session}, life: fmt.Sprintf("%s %d", c.session, c.closed)}
	for _, e := range c.listens {
		h.open = h.open || e.session == c.session && e.open.Load()
	}
	for t := one; t < topics; t++ {
		h.promised[t] = c.session != "" && c.subs[t] == c.session
	}
	return []streamState{h}
}

func streamStates(ears []*listenStream) []streamState {
	all := make([]streamState, len(ears))
	for i, e := range ears {
		all[i] = e.heard()
	}
	return all
}
