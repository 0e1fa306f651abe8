// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/session"
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyWire carries the messages of one legacy session: over HTTP, or over a
// pipe of its own.
type legacyWire interface {
	// table is where the calls of the session wait.
	table() *session.Calls

	// attach names the session that the wire carries, before anything is sent.
	attach(s *legacySession)

	// carry sends a call's request and returns the call's terminal, or an error as
	// soon as ctx ends.
	carry(ctx context.Context, f outboundCall, msg mcp.Pieces) (*mcp.Result, error)

	// serves notes for whom the session makes a call.
	serves(req *mcp.Request)

	// post sends a message that has no answer, within the write deadline.
	post(ctx context.Context, msg []byte) error

	// ready is called when the revision is agreed on, before anything else is
	// sent; opened is called when the handshake is done, and returns when what the
	// server says of itself can be heard, or ctx ends.
	ready(v mcp.Version)
	opened(ctx context.Context)

	// noListenReason is closed when the server has no way, or none any more, to say what
	// belongs to no call. It may be nil.
	noListenStream() <-chan struct{}

	// leave is called when the session is used for nothing new and will be closed
	// soon.
	leave()

	// close ends the connection. Where the server is to be told, it is.
	close(ctx context.Context)
}

// routing says to whom a message belongs that came on no call's stream.
type routing struct {
	// onlyCall: to the call in outboundCall, if there is exactly one.
	onlyCall bool
	// shared: the calls are those of several clients.
	shared bool
	// private: the session is one client's.
	private bool
	// unrelated: otherwise to this one. nil: to nobody.
	unrelated mcp.Caller
	// scope is the client's whose session it is, nil where it is nobody's alone.
	scope *mcp.Scope
	// watched are the tasks whose states are listened for.
	watched *watchedTasks
	// asking is where the session counts while a question waits for its client, nil where
	// it does not count.
	asking *questionPlace
}

// legacySession is one session with a legacy server, from the finished handshake
// to its end. What was negotiated does not change.
type legacySession struct {
	*setup
	wire  legacyWire
	calls *session.Calls
	addr  routing
	tasks goroutines
	asks  serverRequests
	feed  changeFeed

	subs   subscriptions
	levels logLevel
	stray  notificationQueue

	// responseQueue are the answers that need nobody's thought.
	replies responseQueue

	abandoned abandoned

	due pendingAnswers // once the server has forgotten the session

	taskOffer taskform.Offer // of the server
	taskWaits taskWaits
	pins      retained // what keeps a session without a scope open

	theirs clientTasks // that the client runs for the server

	// notices are the cancellations on their way, which the session's end lets
	// arrive.
	notices goroutines

	version      mcp.Version
	capabilities []byte
	info         []byte
	instructions []byte // a JSON string, or nil
	offers       serverOffers

	ending closeOnce

	// gone is closed before calls ends where the server has forgotten the session:
	// the call that found out is to be made again, and the others are lost.
	mu    sync.Mutex
	gone  chan struct{} // closed when the session has ended
	cause error         // why, once gone is closed
}

// serverOffers is the part of a server's capabilities that the client looks at.
type serverOffers struct {
	Logging   jsontext.Value `json:"logging"`
	Tools     listOffer      `json:"tools"`
	Prompts   listOffer      `json:"prompts"`
	Resources listOffer      `json:"resources"`
}

// listOffer is what a server says of one of its lists.
type listOffer struct {
	ListChanged bool `json:"listChanged"`
	Subscribe   bool `json:"subscribe"` // of resources
}

func newLegacySession(s *setup, wire legacyWire, addr routing) *legacySession {
	ls := &legacySession{setup: s, wire: wire, calls: wire.table(), addr: addr, gone: make(chan struct{})}
	ls.asks.of = addr.asking
	wire.attach(ls)
	return ls
}

// initialize shakes hands (2025-11-25, basic/lifecycle). It is never cancelled on
// the wire: the session that would be left is closed.
func (s *legacySession) initialize(ctx context.Context, client *mcp.Peer, want mcp.Version) error {
	params := mcp.AppendString([]byte(`{"protocolVersion":`), string(want))
	params = append(params, `,"capabilities":`...)
	caps := s.capabilitiesOf(client, want)
	params = append(params, caps...)
	params = append(params, `,"clientInfo":`...)
	params = append(params, s.infoOf(client)...)
	params = append(params, '}')
	res, err := s.roundTrip(ctx, methodInitialize, params)
	if err != nil {
		return err
	}
	if err := s.accept(res); err != nil {
		return err
	}
	s.theirs.agree(caps)
	s.wire.ready(s.version)
	if err := s.wire.post(ctx, mcp.AppendNotification(nil, methodInitialized, nil)); err != nil {
		return err
	}
	s.wire.opened(ctx)
	return nil
}

// accept keeps what the server said of itself.
func (s *legacySession) accept(res *mcp.Result) error {
	v, _ := res.Text(mcp.FieldProtocolVersion)
	s.version = mcp.Version(v)
	if s.version.Era() != mcp.EraLegacy {
		return s.fault(mcp.CodeBackendFailed, mcp.NotDispatched, nil, "it answered initialize with a revision that is not supported (%.40q)", v)
	}
	s.capabilities = res.Raw(mcp.FieldCapabilities)
	s.info = res.Raw(mcp.FieldServerInfo)
	if s.version >= mcp.V20251125 {
		s.taskOffer = taskform.OfferOf(s.capabilities)
	}
	s.instructions = res.Raw(mcp.FieldInstructions)
	if err := json.Unmarshal(s.capabilities, &s.offers); err != nil {
		s.offers = serverOffers{} // oddly declared is not declared
	}
	return nil
}

// roundTrip makes a call of the session's own.
func (s *legacySession) roundTrip(ctx context.Context, method string, params []byte) (*mcp.Result, error) {
	call, err := s.calls.Open(method)
	if err != nil {
		return nil, err
	}
	f := outboundCall{setup: s.setup, owner: ownCalls{s}, call: call, caller: noCaller{}}
	return s.wire.carry(ctx, f, mcp.Pieces{mcp.AppendRequest(nil, call.ID(), call.Method(), params)})
}

// ownCalls is a session as the maker of a call of its own.
type ownCalls struct{ *legacySession }

func (o ownCalls) asked(_ context.Context, _ *outboundCall, m *mcp.Message) { o.refuseAsk(m) }

// abandon tells nobody: the session ends, or its next word replaces this one.
func (o ownCalls) abandon(*session.Call) {}

// call makes a call for a client.
func (s *legacySession) call(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return s.callNoting(ctx, req, caller, func(mcp.ID) {})
}

// callNoting is call, and says under which id the request goes out, before it does.
func (s *legacySession) callNoting(ctx context.Context, req *mcp.Request, caller mcp.Caller, note func(mcp.ID)) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, s.givenUp(ctx, mcp.NotDispatched)
	}
	defer s.ensureLevel(ctx, req.LogLevel)()
	call, err := s.calls.Open(req.Method)
	if err != nil {
		return nil, &rejected{why: sessionGone, err: s.unavailable(err, "its session has ended")}
	}
	s.wire.serves(req)
	note(call.ID())
	f := outboundCall{setup: s.setup, owner: s, call: call, req: req, caller: caller, token: req.Params.Raw(mcp.MetaProgressToken), version: s.version, forwardable: isForwardable(req)}
	res, err := s.wire.carry(ctx, f, legacyRequest(call, &req.Params))
	if err == nil && res.Type() != mcp.ResultComplete {
		return nil, s.malformed(errUnknownType(res))
	}
	return res, err
}

func (s *legacySession) asked(ctx context.Context, f *outboundCall, m *mcp.Message) {
	s.askThem(ctx, m, f.caller, s.isAtHome(f.req))
}

// legacyRequest returns the request of a call, without what only the modern era says in
// its parameters.
func legacyRequest(call *session.Call, params *mcp.Object) mcp.Pieces {
	var e mcp.Edit
	switch {
	case params.IsZero():
		return mcp.Pieces{mcp.AppendBeside(mcp.AppendRequest(nil, call.ID(), call.Method(), nil), params.Beside())}
	case !params.Has(mcp.FieldMeta):
		return mcp.EditedRequest(call.ID(), call.Method(), &e, params)
	}
	dropInvalidTraces(&e, params)
	for _, f := range [...]mcp.Field{mcp.MetaVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel} {
		if params.Has(f) {
			e.Delete(f)
		}
	}
	if params.Has(mcp.MetaProgressToken) {
		e.Set(mcp.MetaProgressToken, call.ID().AppendTo(nil))
	}
	return mcp.EditedRequest(call.ID(), call.Method(), &e, params)
}

// abandon takes a call back, in the background: the caller has gone on.
func (s *legacySession) abandon(call *session.Call) {
	s.abandoned.note()
	s.notices.start(func(ctx context.Context) { _ = s.send(ctx, cancelNotice(call)) }) // bounded by send
}

// send sends a message that has no answer. The error is for who can do something
// about it: that a message did not arrive is the connection's trouble, and is found
// out there.
func (s *legacySession) send(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	err := s.wire.post(ctx, msg)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "message to backend was not delivered", slog.String("cause", err.Error()))
	}
	return err
}

// lose ends the session because its server has. The first reason stands.
func (s *legacySession) lose(err error) {
	s.markGone(err)
	s.calls.End(s.lossCause())
}

// markGone has the session used for nothing new.
func (s *legacySession) markGone(err error) {
	if s.noteGone(err) && (s.addr.scope != nil || s.OneClient && s.addr.private) {
		s.Announced(s.addr.scope, true)
	}
}

// noteGone reports whether it is the first that says so.
func (s *legacySession) noteGone(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return false
	}
	s.cause = err
	close(s.gone)
	return true
}

// isAlive reports whether the session can take a call, as far as is known.
func (s *legacySession) isAlive() bool { return s.calls.Err() == nil && s.lossCause() == nil }

// lossCause returns why the session has ended, nil while it has not.
func (s *legacySession) lossCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// close ends the session and returns when nothing of it is left.
func (s *legacySession) close(ctx context.Context) {
	// In this order, so that each step finds what it needs: calls have their
	// reason before their carriers are cut, cancellations have a wire to leave
	// by, and what still answers asks ends with the wire it answers on.
	s.ending.once(func() {
		s.lose(s.cut())
		s.tasks.cancel()
		s.notices.finish(noticeTime)
		s.wire.close(ctx)
		s.tasks.close()
	})
}

// lastClose closes the session when there is no more context to do it in.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: there is none
func (s *legacySession) lastClose() { s.close(context.Background()) }

// noticeTime is how long the end of a session waits for a cancellation to
// arrive.
const noticeTime = time.Second

// discover is what the handshake said, as the modern era would say it.
func (s *legacySession) discover() (*mcp.Result, error) {
	out := mcp.AppendString([]byte(`{"resultType":"complete","supportedVersions":[`), string(s.version))
	out = append(out, `],"capabilities":`...)
	out = append(out, orText(s.discovered(), "{}")...)
	if s.info != nil {
		out = append(out, `,"_meta":{"io.modelcontextprotocol/serverInfo":`...)
		out = append(out, s.info...)
		out = append(out, '}')
	}
	if s.instructions != nil {
		out = append(out, `,"instructions":`...)
		out = append(out, s.instructions...)
	}
	return mcp.NewResult(append(out, '}'))
}

func orText(raw []byte, def string) []byte {
	if raw == nil {
		return []byte(def)
	}
	return raw
}
