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

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/serial"
	"github.com/signalbox-mcp/signalbox/internal/session"
	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyWire is the connection of one legacy session: HTTP, HTTP with SSE, or a pipe of
// its own.
type legacyWire interface {
	// callTable returns the pending calls of the session.
	callTable() *session.Calls

	// attach binds the wire to its session. It is called before anything is sent.
	attach(s *legacySession)

	// roundTrip sends a call's request and returns the call's terminal. It returns an
	// error as soon as ctx ends.
	roundTrip(ctx context.Context, f outboundCall, msg jsonrpc.Pieces) (*mcp.Result, error)

	// noteClient records the client of a request that the session sends.
	noteClient(req *mcp.Request)

	// post sends a message that has no answer, within the write deadline.
	post(ctx context.Context, msg []byte) error

	// setVersion is called when the protocol version is negotiated, before anything
	// else is sent. initialized is called after the handshake. It returns when
	// unsolicited messages of the server can be received, or when ctx ends.
	setVersion(v mcp.Version)
	initialized(ctx context.Context)

	// noListenStream returns a channel that is closed when the server has no stream for
	// messages outside of a call, or has lost it. The channel may be nil.
	noListenStream() <-chan struct{}

	// retire is called when the session serves no new request and will be closed soon.
	retire()

	// close ends the connection, and notifies the server if the transport has a message
	// for that.
	close(ctx context.Context)
}

// routing specifies which caller receives a message that did not arrive on a call's own
// stream.
type routing struct {
	// onlyCall routes the message to the call in progress if there is exactly one.
	onlyCall bool
	// shared is set if the calls are those of several clients.
	shared bool
	// private is set if the session belongs to one client.
	private bool
	// unrelated receives what no call receives. If it is nil, the message is dropped,
	// and a request is refused.
	unrelated mcp.Caller
	// scope is the scope of the client that owns the session, nil if no single client
	// does.
	scope *mcp.Scope
	// watched are the tasks for which there are listens.
	watched *watchedTasks
	// questions counts the session while a question waits for its client. It is nil if
	// the session is not counted.
	questions *questionSlot
}

// legacySession is one session with a legacy server, from its handshake to its end.
// What was negotiated does not change.
type legacySession struct {
	*setup
	wire     legacyWire
	calls    *session.Calls
	routing  routing
	group    goroutines
	requests serverRequests
	feed     listen.Feed

	subs        subscriptions
	logLevel    logLevel
	unsolicited serial.Queue[*mcp.Notification]

	// responses are short messages that no goroutine waits for: refusals, answers to
	// pings, notifications of a client. A server that sends requests faster than it
	// accepts responses does not get all of them.
	responses serial.Queue[[]byte]

	abandoned abandoned

	pending pendingAnswers // answers that calls still wait for when the server has forgotten the session

	taskOffer taskform.Offer // of the server
	taskWaits taskWaits
	retained  retained // tasks that keep a session without a scope open

	clientTasks clientTasks // that the client runs for the server

	// sends are the messages in progress, cancellations and responses, that close lets
	// finish.
	sends goroutines

	version      mcp.Version
	capabilities []byte
	info         []byte
	instructions []byte // a JSON string, or nil
	offers       serverOffers

	closing closeOnce

	// ended is closed before calls ends if the server has forgotten the session: the
	// call that received this may be sent again, and the other calls are lost.
	mu     sync.Mutex
	ended  chan struct{} // closed when the session has ended
	endErr error         // why, once ended is closed
}

// serverOffers are the server capabilities that the client uses.
type serverOffers struct {
	Logging   jsontext.Value `json:"logging"`
	Tools     listOffer      `json:"tools"`
	Prompts   listOffer      `json:"prompts"`
	Resources listOffer      `json:"resources"`
}

// listOffer is the capability of one list.
type listOffer struct {
	ListChanged bool `json:"listChanged"`
	Subscribe   bool `json:"subscribe"` // of resources
}

func newLegacySession(s *setup, wire legacyWire, route routing) *legacySession {
	ls := &legacySession{setup: s, wire: wire, calls: wire.callTable(), routing: route, ended: make(chan struct{})}
	ls.unsolicited.Max, ls.unsolicited.DropOldest = maxQueuedNotifications, true
	ls.clientTasks.out.Max, ls.clientTasks.out.DropOldest = maxQueuedNotifications, true
	ls.responses.Max, ls.responses.Workers = maxQueuedResponses, maxResponseSenders
	ls.requests.slot = route.questions
	wire.attach(ls)
	return ls
}

// initialize performs the handshake (2025-11-25, basic/lifecycle). It sends no
// notifications/cancelled when ctx ends: the session is closed instead.
func (s *legacySession) initialize(ctx context.Context, client *mcp.Peer, want mcp.Version) error {
	params := jsonscan.AppendString([]byte(`{"protocolVersion":`), string(want))
	params = append(params, `,"capabilities":`...)
	caps := s.capabilitiesOf(client, want)
	params = append(params, caps...)
	params = append(params, `,"clientInfo":`...)
	params = append(params, s.infoOf(client)...)
	params = append(params, '}')
	res, err := s.ownCall(ctx, methodInitialize, params)
	if err != nil {
		return err
	}
	if err := s.accept(res); err != nil {
		return err
	}
	s.clientTasks.setOffer(caps)
	s.wire.setVersion(s.version)
	if err := s.wire.post(ctx, jsonrpc.AppendNotification(nil, methodInitialized, nil)); err != nil {
		return err
	}
	s.wire.initialized(ctx)
	return nil
}

// accept stores the server's answer to initialize.
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
		s.offers = serverOffers{} // malformed capabilities count as undeclared
	}
	return nil
}

// ownCall makes a call that serves the session and no client's request.
func (s *legacySession) ownCall(ctx context.Context, method string, params []byte) (*mcp.Result, error) {
	call, err := s.calls.Open(method)
	if err != nil {
		return nil, err
	}
	f := outboundCall{setup: s.setup, owner: ownCalls{s}, call: call, caller: noCaller{}}
	return s.wire.roundTrip(ctx, f, jsonrpc.Pieces{jsonrpc.AppendRequest(nil, call.ID(), call.Method(), params)})
}

// ownCalls is the callOwner of the session's own calls.
type ownCalls struct{ *legacySession }

func (o ownCalls) asked(_ context.Context, _ *outboundCall, m *mcp.Message) { o.refuseRequest(m) }

// abandon sends no cancellation: the session ends, or its next message replaces this
// one.
func (o ownCalls) abandon(*session.Call) {}

// call makes a call for a client's request.
func (s *legacySession) call(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return s.callWithID(ctx, req, caller, func(mcp.ID) {})
}

// callWithID is call, and passes the id of the request to note before the request is
// sent.
func (s *legacySession) callWithID(ctx context.Context, req *mcp.Request, caller mcp.Caller, note func(mcp.ID)) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, s.givenUp(ctx, mcp.NotDispatched)
	}
	defer s.ensureLevel(ctx, req.LogLevel)()
	call, err := s.calls.Open(req.Method)
	if err != nil {
		return nil, &rejected{why: sessionGone, err: s.unavailable(err, "its session has ended")}
	}
	s.wire.noteClient(req)
	note(call.ID())
	f := outboundCall{setup: s.setup, owner: s, call: call, req: req, caller: caller, token: req.Params.Raw(mcp.MetaProgressToken), version: s.version, forwardable: isForwardable(req)}
	res, err := s.wire.roundTrip(ctx, f, legacyRequest(call, &req.Params))
	if err == nil && res.Type() != mcp.ResultComplete {
		return nil, s.malformed(errUnknownType(res))
	}
	return res, err
}

func (s *legacySession) asked(ctx context.Context, f *outboundCall, m *mcp.Message) {
	s.serveRequest(ctx, m, f.caller, s.isOwnClient(f.req))
}

// legacyRequest returns the request of a call, without the fields of params that only
// the modern era has.
func legacyRequest(call *session.Call, params *mcp.Object) jsonrpc.Pieces {
	var e mcp.Edit
	switch {
	case params.IsZero():
		return jsonrpc.Pieces{jsonrpc.AppendBeside(jsonrpc.AppendRequest(nil, call.ID(), call.Method(), nil), params.Beside())}
	case !params.Has(mcp.FieldMeta):
		return jsonrpc.EditedRequest(call.ID(), call.Method(), &e, params)
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
	return jsonrpc.EditedRequest(call.ID(), call.Method(), &e, params)
}

// abandon cancels a call in the background, because the caller does not wait any
// longer.
func (s *legacySession) abandon(call *session.Call) {
	s.abandoned.note()
	s.sends.start(func(ctx context.Context) { _ = s.send(ctx, cancelNotice(call)) }) // bounded by send
}

// send sends a message that has no answer. Most callers ignore the error: if the
// connection is broken, its next use reports that.
func (s *legacySession) send(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	err := s.wire.post(ctx, msg)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "message to backend was not delivered", slog.String("cause", err.Error()))
	}
	return err
}

// end ends the session with err and fails its calls. Only the first err is kept.
func (s *legacySession) end(err error) {
	s.markEnded(err)
	s.calls.End(s.endCause())
}

// markEnded stops the session from being used for new requests. Its calls continue.
func (s *legacySession) markEnded(err error) {
	if s.setEnded(err) && (s.routing.scope != nil || s.OneClient && s.routing.private) {
		s.Announced(s.routing.scope, true)
	}
}

// setEnded reports whether this call ended the session.
func (s *legacySession) setEnded(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endErr != nil {
		return false
	}
	s.endErr = err
	close(s.ended)
	return true
}

// isAlive reports whether the session can take a call, as far as is known.
func (s *legacySession) isAlive() bool { return s.calls.Err() == nil && s.endCause() == nil }

// endCause returns the reason for the session's end, nil while it has not ended.
func (s *legacySession) endCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr
}

// close ends the session and returns when all its goroutines have ended.
func (s *legacySession) close(ctx context.Context) {
	// The order matters. Calls have their terminals before their HTTP requests are cut.
	// Cancellations are sent while the wire is open. Goroutines that answer the
	// server's requests end after the wire.
	s.closing.once(func() {
		s.end(s.cut())
		s.group.cancel()
		s.sends.finish(noticeTime)
		s.wire.close(ctx)
		s.group.close()
	})
}

// closeNow closes the session at a point where no context is left.
//
//nolint:contextcheck,nolintlint // reported here for all callers: there is no context to pass
func (s *legacySession) closeNow() { s.close(context.Background()) }

// noticeTime is how long close waits for cancellations and responses to be sent.
const noticeTime = time.Second

// discover returns the answer to initialize in the form of a server/discover result.
func (s *legacySession) discover() (*mcp.Result, error) {
	out := jsonscan.AppendString([]byte(`{"resultType":"complete","supportedVersions":[`), string(s.version))
	out = append(out, `],"capabilities":`...)
	out = append(out, orDefault(s.declaredCapabilities(), "{}")...)
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

func orDefault(raw []byte, def string) []byte {
	if raw == nil {
		return []byte(def)
	}
	return raw
}
