// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/serial"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

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
	// tasks are those of the server, nil if no listen is woken by their notifications.
	tasks *serverTasks
	// questions counts the session while a question waits for its client. It is nil if
	// the session is not counted.
	questions *questionSlot
}

// clientSession is one session with a legacy server, from its handshake to its end.
// What was negotiated does not change.
type clientSession struct {
	*call.Setup
	conn     Conn
	calls    *session.Calls
	routing  routing
	group    call.Goroutines
	requests serverRequests
	feed     listen.Feed

	subs        subscriptions
	logLevel    logLevel
	unsolicited serial.Queue[*mcp.Notification]

	// responses are short messages that no goroutine waits for: refusals, answers to
	// pings, notifications of a client. A server that sends requests faster than it
	// accepts responses does not get all of them.
	responses serial.Queue[[]byte]

	abandoned call.Abandoned
	use       sessionUse

	pending pendingAnswers // answers that calls still wait for when the server has forgotten the session

	taskOffer   task.Offer   // of the server
	tasks       sessionTasks // that the server runs
	clientTasks clientTasks  // that the client runs for the server

	// sends are the messages in progress, cancellations and responses, that close lets
	// finish.
	sends call.Goroutines

	passes bool // all extensions between client and server; set by initialize

	version      mcp.Version
	capabilities []byte
	info         []byte
	instructions []byte // a JSON string, or nil
	offers       serverOffers

	// The sender that the session was last used for, without the rest of its request. Nil
	// without Credentials, which are given for it.
	sender atomic.Pointer[mcp.Request]

	closing call.CloseOnce
	opening call.Opening // set before the session is shared

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

// newClientSession returns a session on behalf of the sender of a request, which may be nil.
func newClientSession(s *call.Setup, conn Conn, route routing, of *mcp.Request) *clientSession {
	ls := &clientSession{Setup: s, conn: conn, calls: conn.callTable(), routing: route, ended: make(chan struct{})}
	ls.unsolicited.Max, ls.unsolicited.DropOldest = maxQueuedNotifications, true
	ls.clientTasks.out.Max, ls.clientTasks.out.DropOldest = maxQueuedNotifications, true
	ls.responses.Max, ls.responses.Workers = maxQueuedResponses, maxResponseSenders
	ls.subs.queue.Max, ls.subs.queue.Workers = math.MaxInt, maxSubscribeWorkers
	ls.requests.slot = route.questions
	ls.use.last.Store(time.Now().UnixNano())
	ls.noteSender(of)
	conn.attach(ls)
	return ls
}

// initialize performs the handshake (2025-11-25, basic/lifecycle). It sends no
// notifications/cancelled when ctx ends: the session is closed instead.
func (s *clientSession) initialize(ctx context.Context, client *mcp.Peer, want mcp.Version) error {
	params := jsonscan.AppendString([]byte(`{"protocolVersion":`), string(want))
	params = append(params, `,"capabilities":`...)
	s.passes = client != nil && client.PassesExtensions
	caps := s.capabilitiesOf(client, want)
	params = append(params, caps...)
	params = append(params, `,"clientInfo":`...)
	params = append(params, s.InfoOf(client)...)
	params = append(params, '}')
	res, err := s.ownCall(ctx, call.MethodInitialize, params)
	if err != nil {
		return err
	}
	if err := s.accept(res); err != nil {
		return err
	}
	s.clientTasks.offer = task.ClientOfferOf(caps)
	s.conn.setVersion(s.version)
	if err := s.conn.post(ctx, jsonrpc.AppendNotification(nil, call.MethodInitialized, nil)); err != nil {
		return err
	}
	s.conn.initialized(ctx)
	return nil
}

// accept stores the server's answer to initialize.
func (s *clientSession) accept(res *mcp.Result) error {
	v, _ := res.Text(mcp.FieldProtocolVersion)
	s.version = mcp.Version(v)
	if s.version.Era() != mcp.EraLegacy {
		return call.Because(code.TalkRevision, s.Fault(mcp.CodeBackendFailed, mcp.NotDispatched, nil, "it answered initialize with a revision that is not supported (%.40q)", v))
	}
	s.capabilities = res.Raw(mcp.FieldCapabilities)
	s.info = res.Raw(mcp.FieldServerInfo)
	if s.version >= mcp.V20251125 {
		s.taskOffer = task.OfferOf(s.capabilities)
	}
	s.instructions = res.Raw(mcp.FieldInstructions)
	if err := json.Unmarshal(s.capabilities, &s.offers); err != nil {
		s.offers = serverOffers{} // malformed capabilities count as undeclared
	}
	return nil
}

// ownCall makes a call that serves the session and no client's request.
func (s *clientSession) ownCall(ctx context.Context, method string, params []byte) (*mcp.Result, error) {
	pending, err := s.calls.Open(method)
	if err != nil {
		return nil, err
	}
	f := call.Call{Setup: s.Setup, Owner: ownCalls{s}, Call: pending, Caller: call.NoCaller{}}
	return s.conn.roundTrip(ctx, f, jsonrpc.Pieces{jsonrpc.AppendRequest(nil, pending.ID(), pending.Method(), params)})
}

// ownCalls is the Owner of the session's own calls.
type ownCalls struct{ *clientSession }

func (o ownCalls) Asked(_ context.Context, _ *call.Call, m *mcp.Message) { o.refuseRequest(m) }

// Abandon sends no cancellation: the session ends, or its next message replaces this
// one.
func (o ownCalls) Abandon(*session.Call) {}

// call makes a call for a client's request.
func (s *clientSession) call(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return s.callWithID(ctx, req, caller, func(mcp.ID) {})
}

// callWithID is call, and passes the id of the request to note before the request is
// sent.
func (s *clientSession) callWithID(ctx context.Context, req *mcp.Request, caller mcp.Caller, note func(mcp.ID)) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, s.GivenUp(ctx, mcp.NotDispatched)
	}
	defer s.ensureLevel(ctx, req.LogLevel)()
	pending, err := s.calls.Open(req.Method)
	if err != nil {
		return nil, &call.Rejected{Why: call.SessionGone, Err: s.Unavailable(err, "its session has ended")}
	}
	s.conn.noteClient(req)
	s.noteSender(req)
	s.use.begin(req)
	defer s.use.end(req)
	note(pending.ID())
	f := call.Call{Setup: s.Setup, Owner: s, Call: pending, Req: req, Caller: caller, Token: req.Params.Raw(mcp.MetaProgressToken), Version: s.version, Forwardable: call.IsForwardable(req)}
	res, err := s.conn.roundTrip(ctx, f, legacyRequest(pending, &req.Params))
	if err == nil && res.Type() != mcp.ResultComplete && !req.Passed {
		return nil, s.Malformed(call.UnknownType(res))
	}
	return res, err
}

func (s *clientSession) Asked(ctx context.Context, f *call.Call, m *mcp.Message) {
	s.serveRequest(ctx, m, f.Caller, s.isOwnClient(f.Req))
}

// legacyRequest returns the request of a call, without the fields of params that only
// the modern era has.
func legacyRequest(pending *session.Call, params *mcp.Object) jsonrpc.Pieces {
	var e mcp.Edit
	switch {
	case params.IsZero():
		return jsonrpc.Pieces{jsonrpc.AppendBeside(jsonrpc.AppendRequest(nil, pending.ID(), pending.Method(), nil), params.Beside())}
	case !params.Has(mcp.FieldMeta):
		return jsonrpc.EditedRequest(pending.ID(), pending.Method(), &e, params)
	}
	call.DropInvalidTraces(&e, params)
	for _, f := range [...]mcp.Field{mcp.MetaVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel} {
		if params.Has(f) {
			e.Delete(f)
		}
	}
	if params.Has(mcp.MetaProgressToken) {
		e.Set(mcp.MetaProgressToken, pending.ID().AppendTo(nil))
	}
	return jsonrpc.EditedRequest(pending.ID(), pending.Method(), &e, params)
}

// Abandon cancels a call in the background, because the caller does not wait any
// longer.
func (s *clientSession) Abandon(call *session.Call) {
	s.abandoned.Note()
	s.sends.Start(func(ctx context.Context) { _ = s.send(ctx, stdio.CancelNotice(call)) }) // bounded by send
}

// send sends a message that has no answer. Most callers ignore the error: if the
// connection is broken, its next use reports that.
func (s *clientSession) send(ctx context.Context, msg []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.Write)
	defer cancel()
	err := s.conn.post(ctx, msg)
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelDebug, "message to backend was not delivered", slog.String("cause", err.Error()))
	}
	return err
}

// end ends the session with err and fails its calls. Only the first err is kept.
func (s *clientSession) end(err error) {
	s.markEnded(err)
	s.calls.End(s.endCause())
}

// markEnded stops the session from being used for new requests. Its calls continue.
func (s *clientSession) markEnded(err error) {
	s.mu.Lock()
	first := s.endErr == nil
	if first {
		s.endErr = err
		close(s.ended)
	}
	s.mu.Unlock()
	if first && (s.routing.scope != nil || s.OneClient && s.routing.private) {
		s.Announced(s.routing.scope, true)
	}
}

// isAlive reports whether the session can take a call, as far as is known.
func (s *clientSession) isAlive() bool { return s.calls.Err() == nil && s.endCause() == nil }

// endCause returns the reason for the session's end, nil while it has not ended.
func (s *clientSession) endCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endErr
}

// close ends the session and returns when all its goroutines have ended.
func (s *clientSession) close(ctx context.Context) {
	// The order matters. Calls have their terminals before their HTTP requests are cut.
	// Cancellations are sent while the connection is open. Goroutines that answer the
	// server's requests end after the connection.
	s.closing.Once(func() {
		s.end(s.Cut())
		s.group.Cancel()
		s.sends.Finish(stdio.NoticeTime)
		s.conn.close(ctx)
		s.group.Close()
	})
}

// closeNow closes the session at a point where no context is left.
//
//nolint:contextcheck,nolintlint // reported here for all callers: there is no context to pass
func (s *clientSession) closeNow() { s.close(context.Background()) }

// discover returns the answer to initialize in the form of a server/discover result.
// Tools that can be called as tasks are declared as the extension.
func (s *clientSession) discover() (*mcp.Result, error) {
	caps := s.capabilities
	if s.taskOffer.Calls {
		caps = task.Declare(caps)
	}
	if caps == nil {
		caps = []byte("{}")
	}
	out := jsonscan.AppendString([]byte(`{"resultType":"complete","supportedVersions":[`), string(s.version))
	out = append(out, `],"capabilities":`...)
	out = append(out, caps...)
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
