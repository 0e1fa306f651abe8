// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Conn is a connection to a gateway.
type Conn interface {
	io.ReadWriteCloser

	// CloseWrite ends what the gateway reads.
	CloseWrite() error
}

// Config configures a Relay.
type Config struct {
	// Connect returns a connection to the gateway, which it starts if none runs. The
	// text of its error is sent to the client. If it is an [mcp.Fault], that is what is
	// sent.
	Connect func(context.Context) (Conn, error)

	// Join returns a connection to a gateway that runs already, or nil.
	Join func(context.Context) Conn

	// IsGone reports whether the client that has closed its end is gone, and reads nothing
	// any more. If it is nil, no client is.
	IsGone func() bool

	// Report reports what the user should know. It may be called concurrently.
	Report func(text string)
}

const (
	// joinInterval is the time between two looks for another gateway, for a client with a
	// session that sends nothing.
	joinInterval = time.Second

	// openTimeout bounds how long a gateway may take to open a session, for which it waits for
	// its servers.
	openTimeout = time.Minute

	// restoreTimeout bounds how long the client's requests wait for the repetition of what
	// its session had.
	restoreTimeout = 10 * time.Second

	// finishTimeout bounds how long the gateway may take to answer after the client has
	// closed its end.
	finishTimeout = 5 * time.Second

	// writeTimeout bounds how long a write to a client that has closed its end may take.
	writeTimeout = time.Second

	// sendAttempts bounds how often a line is sent that no gateway has received.
	sendAttempts = 3
)

// Relay passes the lines of one client.
type Relay struct {
	cfg Config
	out clientWriter

	connecting sync.Mutex // held while a connection is made
	running    sync.WaitGroup

	mu       sync.Mutex
	link     *link // nil without a gateway
	closing  bool  // the client has closed its end
	inFlight map[mcp.ID]*request
	asks     asks
	session  *session // of the legacy era; nil without one
	joining  bool     // a goroutine looks for a gateway

	initialized bool // the client has sent notifications/initialized
	handshakes  int  // how often handshakes have been lost since one was answered
	kept        int  // the bytes of the lines in inFlight
}

// request is a request of the client that is not answered.
type request struct {
	id      mcp.ID
	method  string
	params  []byte // of the methods that change a session
	line    []byte // what may be sent again, or nil: see keepLocked
	link    *link  // nil while the request is held
	sending bool   // the line is being written: whether it was sent is not yet known
}

// New returns a Relay.
func New(cfg Config) *Relay {
	return &Relay{cfg: cfg, inFlight: make(map[mcp.ID]*request), asks: asks{open: make(map[mcp.ID]ask)}}
}

// Run relays until the client closes in, until nothing can be written to out, or until ctx
// ends. A pending read from in, or a write that blocks, is left behind; on the standard
// streams of a process it lasts until the process exits.
func (r *Relay) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer r.wait()
	defer cancel(nil)
	r.out = clientWriter{to: out, failed: cancel}
	read := make(chan error, 1)
	go func() { read <- r.readClient(ctx, in) }() // ends with in
	select {
	case err := <-read:
		switch {
		case !errors.Is(err, io.EOF):
			r.abandon()
			return err
		case r.cfg.IsGone != nil && r.cfg.IsGone():
			r.abandon()
		default:
			r.finish(ctx)
		}
		return nil
	case <-ctx.Done():
		r.abandon()
		return context.Cause(ctx)
	}
}

// wait waits for the goroutines, unless a write to the client blocks.
func (r *Relay) wait() {
	ended := make(chan struct{})
	go func() { // ends with the last write to the client
		defer close(ended)
		r.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(writeTimeout):
	}
}

// finish lets the gateway answer what it still answers after the client has closed its
// end.
func (r *Relay) finish(ctx context.Context) {
	l := r.beginClosing()
	if l == nil {
		return // nothing is in flight
	}
	defer l.conn.Close()
	_ = l.conn.CloseWrite() // fails only if the gateway is gone
	late := time.NewTimer(finishTimeout)
	defer late.Stop()
	select {
	case <-l.gone:
	case <-late.C:
	case <-ctx.Done():
	}
}

func (r *Relay) abandon() {
	if l := r.beginClosing(); l != nil {
		_ = l.conn.Close()
	}
}

func (r *Relay) beginClosing() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	return r.link
}

// readClient passes on what the client sends. It returns the error that ends the input.
func (r *Relay) readClient(ctx context.Context, in io.Reader) error {
	lines := newParts(in)
	var long longLine
	for {
		p, err := lines.next()
		switch {
		case p.isWhole():
			r.sendLine(ctx, p.data, p.messages)
		case len(p.data) > 0:
			r.sendPart(ctx, &long, &p)
		}
		if err != nil {
			return err
		}
	}
}

// sendLine sends a line of the client to the gateway. Requests find or start one; all
// else is meant for the gateway before, and is dropped without one.
func (r *Relay) sendLine(ctx context.Context, line []byte, messages []message) {
	r.noteInitialized(messages)
	needed := slices.ContainsFunc(messages, func(m message) bool { return m.isRequest() })
	for range sendAttempts {
		l, err := r.acquire(ctx, needed)
		switch {
		case err != nil:
			r.answer(messages, unreachable(err))
			return
		case l == nil:
			return
		}
		text := r.begin(l, line, messages)
		if text == nil {
			return // the answer to a request of a gateway that is gone
		}
		if r.sent(ctx, l, messages, l.write(text)) {
			return
		}
		_ = l.conn.Close()
		<-l.gone
	}
	r.answer(messages, unreachable(errEnds))
}

var errEnds = errors.New("the gateway ends as soon as it is connected")

// noteInitialized records that the client uses its session from now on. It is called
// before the line is sent: if there is no gateway, the next one is notified.
func (r *Relay) noteInitialized(messages []message) {
	if slices.ContainsFunc(messages, func(m message) bool { return m.method == initialized }) {
		r.mu.Lock()
		r.initialized = true
		r.mu.Unlock()
	}
}

// longLine is a line of the client that is sent in parts.
type longLine struct {
	link  *link    // nil if the line can no longer be sent
	err   error    // the reason then
	begun []mcp.ID // the requests that were recorded with the first part
	done  []mcp.ID // those that were answered before their line could no longer be sent
}

// beginLong returns the state for a line with a first part. A response must have its id in
// that part to be recognized as one. A request that has its id and its method in it may be
// answered before the gateway has read the line to its end.
func (r *Relay) beginLong(ctx context.Context, p *part) longLine {
	response := len(p.messages) == 1 && p.messages[0].isResponse()
	l, err := r.acquire(ctx, !response)
	long := longLine{link: l, err: cmp.Or(err, errGone)}
	if l == nil {
		return long
	}
	if response {
		if p.data = r.begin(l, p.data, p.messages); p.data == nil {
			long.link = nil
			return long
		}
	} else {
		r.begin(l, nil, p.messages)
		for i := range p.messages {
			if p.messages[i].isRequest() {
				long.begun = append(long.begun, p.messages[i].id)
			}
		}
	}
	l.writing.Lock() // until the end of the line
	return long
}

// sendPart sends a part of a long line.
func (r *Relay) sendPart(ctx context.Context, long *longLine, p *part) {
	if p.first {
		*long = r.beginLong(ctx, p)
	}
	l := long.link
	if l == nil {
		if p.last {
			r.answer(without(p.messages, long.done), unreachable(long.err))
		}
		return
	}
	if p.last {
		r.begin(l, nil, without(p.messages, long.begun))
	}
	n, _ := l.conn.Write(p.data) // the end of the link handles the error
	if n == len(p.data) && !p.last {
		return
	}
	l.writing.Unlock()
	if n == len(p.data) {
		r.sent(ctx, l, p.messages, true)
		return
	}
	long.link, long.err = nil, errGone
	long.done = r.answered(l, long.begun)
	r.sent(ctx, l, p.messages, false)
	if p.last {
		r.answer(without(p.messages, long.done), unreachable(errGone))
	}
}

// answered returns those of the requests that were begun on a link and are answered.
func (r *Relay) answered(l *link, begun []mcp.ID) []mcp.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(begun), func(id mcp.ID) bool {
		q := r.inFlight[id]
		return q != nil && q.link == l
	})
}

// without returns the messages that have none of the ids.
func without(messages []message, ids []mcp.ID) []message {
	return slices.DeleteFunc(slices.Clone(messages), func(m message) bool { return slices.Contains(ids, m.id) })
}

var errGone = errors.New("the gateway ended")

// begin records what a line starts, before it is sent, and returns what to send: the
// line, possibly with the gateway's own id of a request that is answered, or nil for a
// line that has no receiver any more.
func (r *Relay) begin(l *link, line []byte, messages []message) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var renamed []byte // the line up to done, with the gateway's ids
	done := 0
	for i := range messages {
		m := &messages[i]
		switch {
		case m.isRequest():
			if m.method == initialize {
				r.initialized = false
			}
			r.forgetLocked(m.id)
			q := &request{id: m.id, method: m.method, params: sessionParams(m.method, line), link: l, sending: true}
			if len(messages) == 1 {
				r.keepLocked(q, line)
			}
			r.inFlight[m.id] = q
		case m.isResponse():
			own, known := r.asks.answered(m.id, l)
			if !known && len(messages) == 1 {
				return nil
			}
			if known && own != m.id && line != nil {
				renamed = append(append(renamed, line[done:m.idStart]...), own.String()...)
				done = m.idEnd
			}
		case m.method == "notifications/cancelled":
			if id, ok := cancelled(line); ok {
				r.cancelLocked(id)
			}
		}
	}
	if renamed != nil {
		return append(renamed, line[done:]...)
	}
	return line
}

// cancelLocked forgets a request that the client has cancelled: it expects no answer.
func (r *Relay) cancelLocked(id mcp.ID) {
	if q := r.inFlight[id]; q != nil && q.method != initialize {
		r.forgetLocked(id)
	}
}

// sent records whether a line was written to its end. It reports false if the gateway has
// not received the line. If the gateway has gone meanwhile, the requests are answered.
func (r *Relay) sent(ctx context.Context, l *link, messages []message, whole bool) bool {
	var lost []*request
	r.mu.Lock()
	for i := range messages {
		id := messages[i].id
		q := r.inFlight[id]
		if q == nil || q.link != l || !messages[i].isRequest() {
			continue
		}
		q.sending = false
		switch {
		case !whole:
			r.forgetLocked(id)
		case l.isGone:
			r.forgetLocked(id)
			lost = append(lost, q)
		}
	}
	r.mu.Unlock()
	r.answerLost(ctx, lost)
	return whole
}

// answer answers the requests of a line with an error.
func (r *Relay) answer(messages []message, fault *mcp.Fault) {
	for i := range messages {
		if m := &messages[i]; m.isRequest() {
			r.out.line(jsonrpc.AppendError(nil, m.id, fault.Wire()))
		}
	}
}

// unreachable returns the error for a request that was not sent.
func unreachable(err error) *mcp.Fault {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		return f
	}
	return &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Message: err.Error(), Cause: err}
}

// answerLost answers requests that were in flight when their gateway ended: it is unknown
// whether they ran. A listen has not failed, and has to be opened again. A handshake runs
// nothing, and is sent to another gateway.
func (r *Relay) answerLost(ctx context.Context, lost []*request) {
	fault := &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: "the gateway ended during the request"}
	for _, q := range lost {
		if isHandshake(q.method) && q.line != nil && r.repeatHandshake(ctx, q) {
			continue
		}
		if q.method != "subscriptions/listen" {
			r.out.line(jsonrpc.AppendError(nil, q.id, fault.Wire()))
			continue
		}
		// Both ways in which a server ends a subscription on a pipe (2026-07-28,
		// basic/patterns/subscriptions and basic/patterns/cancellation).
		r.out.line(jsonrpc.AppendResult(nil, q.id, []byte(`{"resultType":"complete"}`)))
		r.out.line(cancelNotice(q.id, ""))
	}
}

// repeatHandshake begins to send a handshake again, unless too many have been lost.
func (r *Relay) repeatHandshake(ctx context.Context, q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handshakes++
	if r.closing || r.handshakes >= sendAttempts {
		r.handshakes = 0
		return false
	}
	r.running.Go(func() { r.sendAgain(ctx, q) }) // ends with ctx, or when the line is sent
	return true
}

// sendAgain sends the line of a request that was kept.
func (r *Relay) sendAgain(ctx context.Context, q *request) {
	r.sendLine(ctx, q.line, []message{{id: q.id, method: q.method}})
}

// acquire returns the link to the gateway. If there is none, it makes one if that is
// wanted, and otherwise returns nil. A link that is being made is waited for.
func (r *Relay) acquire(ctx context.Context, wanted bool) (*link, error) {
	r.connecting.Lock()
	defer r.connecting.Unlock()
	l, closing := r.current()
	switch {
	case l != nil || !wanted:
		return l, nil
	case closing:
		return nil, errClosing
	}
	var err error
	for range sendAttempts {
		var conn Conn
		if conn, err = r.cfg.Connect(ctx); err != nil {
			r.cfg.Report(err.Error())
			return nil, err
		}
		var l *link
		if l, err = r.use(ctx, conn); !errors.Is(err, errGone) {
			return l, err
		}
	}
	return nil, err
}

// join uses a gateway that runs already, if there is none in use. It reports whether
// there is one then.
func (r *Relay) join(ctx context.Context) bool {
	r.connecting.Lock()
	defer r.connecting.Unlock()
	if l, closing := r.current(); l != nil || closing {
		return true
	}
	conn := r.cfg.Join(ctx)
	if conn == nil {
		return false
	}
	_, err := r.use(ctx, conn)
	return err == nil
}

func (r *Relay) current() (l *link, closing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link, r.closing
}

var errClosing = errors.New("the client has closed its end")

// use begins to relay on a connection, and restores the session on it.
func (r *Relay) use(ctx context.Context, conn Conn) (*link, error) {
	l := &link{conn: conn, gone: make(chan struct{}), replies: make(map[mcp.ID]chan reply)}
	if !r.read(ctx, l) {
		_ = conn.Close()
		return nil, errClosing
	}
	changes, err := r.restore(ctx, l)
	if err != nil {
		_ = conn.Close()
		<-l.gone
		return nil, err
	}
	if !r.publish(l) {
		_ = conn.Close()
		return nil, errClosing
	}
	for _, notice := range changes {
		r.out.line(notice)
	}
	return l, nil
}

// read begins to read from a link, unless the Relay is ending.
func (r *Relay) read(ctx context.Context, l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closing {
		r.running.Go(func() { r.readGateway(ctx, l) }) // ends with the connection
	}
	return !r.closing
}

// publish makes a link the current one, unless the Relay is ending.
func (r *Relay) publish(l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return false
	}
	if !l.isGone {
		r.link = l
	}
	return true
}

// lose ends a link: it answers what was in flight on it, and forgets what the gateway has
// asked.
func (r *Relay) lose(ctx context.Context, l *link) {
	r.mu.Lock()
	l.isGone = true
	if r.link == l {
		r.link = nil
	}
	var lost []*request
	for _, q := range r.inFlight {
		if q.link == l && !q.sending {
			lost = append(lost, q)
		}
	}
	for _, q := range lost {
		r.forgetLocked(q.id)
	}
	asked := r.asks.forget(l)
	closing := r.closing
	if !closing && r.session != nil && !r.joining {
		r.joining = true
		r.running.Go(func() { r.keepJoining(ctx) }) // ends with ctx, or when there is a gateway
	}
	r.mu.Unlock()
	if !closing {
		r.answerLost(ctx, lost)
		for _, id := range asked {
			r.out.line(cancelNotice(id, "the gateway ended"))
		}
	}
	close(l.gone)
}

// keepJoining looks for another gateway until there is one, so that a client that only
// listens is notified of changes again.
func (r *Relay) keepJoining(ctx context.Context) {
	tick := time.NewTicker(joinInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if !r.join(ctx) {
				continue
			}
		}
		if r.endJoining(ctx) {
			return
		}
	}
}

// endJoining reports whether there is nothing to look for any more.
func (r *Relay) endJoining(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joining = r.link == nil && !r.closing && ctx.Err() == nil
	return !r.joining
}

// clientWriter writes lines to the client.
type clientWriter struct {
	to     io.Writer
	failed func(error)
	mu     sync.Mutex // held for a whole line
}

func (w *clientWriter) line(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(append(text, '\n'))
}

// write writes a part of a line. The lock must be held.
func (w *clientWriter) write(text []byte) {
	if _, err := w.to.Write(text); err != nil {
		w.failed(err)
	}
}

func cancelNotice(id mcp.ID, reason string) []byte {
	params := append([]byte(`{"requestId":`), id.String()...)
	if reason != "" {
		params = append(append(append(params, `,"reason":"`...), reason...), '"')
	}
	return jsonrpc.AppendNotification(nil, "notifications/cancelled", append(params, '}'))
}

// asks are the requests of gateways to the client that are not answered. The client may still
// answer one of a gateway that is gone, with an id that another gateway uses as well. So only the
// first gateway that asks keeps its ids.
type asks struct {
	open  map[mcp.ID]ask // by the id that the client knows
	first *link
	last  uint64
}

type ask struct {
	own  mcp.ID // the gateway's id
	link *link
}

// add records a request, and returns the id for the client.
func (a *asks) add(id mcp.ID, l *link) mcp.ID {
	shown := id
	if a.first == nil {
		a.first = l
	}
	if l != a.first {
		a.last++
		shown = ownID(a.last, "ask")
	}
	a.open[shown] = ask{id, l}
	return shown
}

// shown returns the id that the client knows.
func (a *asks) shown(own mcp.ID, l *link) mcp.ID {
	for id, open := range a.open {
		if open == (ask{own, l}) {
			return id
		}
	}
	return own
}

// answered returns the gateway's id of a request that the client has answered. It reports
// false for one of a gateway that is gone. An unknown id is the gateway's to judge.
func (a *asks) answered(shown mcp.ID, l *link) (own mcp.ID, known bool) {
	if open, ok := a.open[shown]; ok {
		delete(a.open, shown)
		return open.own, open.link == l
	}
	return shown, a.first == nil || a.first == l
}

// forget removes the requests of a gateway, and returns their ids for the client.
func (a *asks) forget(l *link) []mcp.ID {
	var ids []mcp.ID
	for id, open := range a.open {
		if open.link == l {
			ids = append(ids, id)
			delete(a.open, id)
		}
	}
	return ids
}
