// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernPost serves a modern message. Mcp-Session-Id and Last-Event-ID have no meaning
// here and are ignored (2026-07-28, basic/transports/streamable-http, "Earlier Streamable
// HTTP Revisions").
func (s *Server) modernPost(p *response, r *http.Request, from sender, m *mcp.Message) *refusal {
	switch m.Kind {
	case mcp.KindRequest:
	case mcp.KindNotification:
		// The revision has no notifications over HTTP, and specifies that one is accepted
		// without a response. A request is cancelled by closing its response
		// (basic/patterns/cancellation).
		if m.Method == "notifications/cancelled" {
			s.observeIdleCancel(r.Context(), Event{Principal: from.principal, Remote: r.RemoteAddr}, m.Params.Raw(mcp.FieldRequestID))
		}
		p.writeAccepted()
		return nil
	default:
		return refuseMessage(http.StatusBadRequest, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "the body is a response; send a request"))
	}
	v := new(statelessRequest)
	ir := &v.inflightRequest
	if err := s.initModernHTTP(ir, r, m, from); err != nil {
		return refuseMessage(refusalStatus(err), m.ID, err)
	}
	s.trackMemory(ir)
	ir.startTimeline()
	opened, stateErr := s.readState(&ir.original)
	if stateErr != nil {
		return s.refuseState(m.ID, stateErr)
	}
	if opened.parkedID == "" {
		if s.answerCached(r.Context(), p, m.ID, opened.req, modernEncoder{}) {
			return nil
		}
		if no := s.checkPending(m.ID, from.principal); no != nil {
			return no
		}
	}
	key := quotaKeyOf(&ir.original)
	if !s.quota.acquire(key) {
		return s.quota.refuse(m.ID, key)
	}
	if opened.parkedID != "" {
		return s.modernRetry(p, r, m, &opened)
	}
	ctx := ir.begin(r.Context(), opened.req, modernEncoder{})
	ir.inQuota, ir.restarts = true, opened.restarts
	ir.x = v.exchange.Begin(m.ID, &s.rules, ir.stop)
	ir.x.ChargeTo(from.principal, len(m.Raw))
	ir.caller = s.modernCaller(ir)
	c := attach(r, ir.x)
	defer c.Detach()
	if !s.start(ctx, ir) {
		return refuseDraining(m.ID)
	}
	if ir.kind == kindListen {
		defer stopTimer(atExpiry(from.identity, func() { ir.tearDown(errExpired) }))
		// After the start: EndProfile finds the listen, or this does.
		if !s.hasProfile(from.profile) {
			ir.tearDown(errNoProfile)
		}
	}
	s.answerAttempt(p, r, ir, ir.x, c)
	return nil
}

// modernRetry answers a request that resumes a parked one. It holds its share of the
// quota already.
func (s *Server) modernRetry(p *response, r *http.Request, m *mcp.Message, opened *openedRequest) *refusal {
	ir, x, no := s.resumeParked(m, opened, 0, func(ir *inflightRequest) (*session.Exchange, *refusal) {
		x := new(session.Stateless).Begin(m.ID, &s.rules, ir.stop)
		x.ChargeTo(ir.original.Principal, len(ir.original.Params.Bytes())+len(ir.original.Params.Beside()))
		return x, nil
	})
	if no != nil {
		s.quota.release(quotaKeyOf(opened.req))
		return no
	}
	c := attach(r, x)
	defer c.Detach()
	s.answerAttempt(p, r, ir, x, c)
	return nil
}

// answerAttempt answers with one exchange of a request. A client that disconnects before
// it has the whole answer has cancelled the request, even if the answer is a question: no
// other client has the state to retry with.
func (s *Server) answerAttempt(p *response, r *http.Request, ir *inflightRequest, x *session.Exchange, c *session.Consumer) {
	s.answer(p, r, ir, nil, x, c)
	if p.aborted && !x.Cancel(errDisconnected) && ir.parked != nil {
		s.cancelIfParked(ir, x)
	}
}

// refusalStatus is the status of an error in the message itself: an unknown method is
// 404, all else is 400.
func refusalStatus(err *mcp.Error) int {
	if err.Code == mcp.CodeMethodNotFound {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// statelessRequest is a request without a session, together with its first exchange. Its
// answer is not retained.
type statelessRequest struct {
	inflightRequest

	exchange session.Stateless
}

// initModern sets the request up from a modern message. The error is the answer for the
// client (2026-07-28, basic, "_meta").
func (ir *inflightRequest) initModern(m *mcp.Message, from sender) *mcp.Error {
	// The revision is checked before the method, so that a client of another revision
	// learns which one to use, and not that a method is missing which its own revision
	// may have.
	if missing := missingMeta(m); missing != "" {
		return mcp.Errorf(mcp.CodeInvalidParams, "params._meta lacks %q; every request must have it", missing)
	}
	version, err := modernVersion(m)
	if err != nil {
		return err
	}
	level, err := modernLevel(m)
	if err != nil {
		return err
	}
	if isRemoved(m.Method) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "method %q does not exist in %s; it belongs to %s and before",
			m.Method, version, mcp.LatestLegacy)
	}
	if err := checkTasks(m); err != nil {
		return err
	}
	if err := checkProgressToken(m); err != nil {
		return err
	}
	ir.client = mcp.Peer{
		Version:      version,
		Info:         m.Params.Raw(mcp.MetaClientInfo),
		Capabilities: m.Params.Raw(mcp.MetaClientCapabilities),
	}
	ir.original = mcp.Request{
		Method:             m.Method,
		Params:             m.Params,
		Client:             &ir.client,
		LogLevel:           level,
		Principal:          from.principal,
		Identity:           from.identity,
		Profile:            from.profile,
		TakesInputRequired: true,
	}
	return nil
}

// missingMeta returns the first required key that a request lacks; a value of another
// type counts as missing.
func missingMeta(m *mcp.Message) string {
	if raw := m.Params.Raw(mcp.MetaVersion); len(raw) == 0 || raw[0] != '"' {
		return mcp.MetaVersion.Key()
	}
	if raw := m.Params.Raw(mcp.MetaClientCapabilities); len(raw) == 0 || raw[0] != '{' {
		return mcp.MetaClientCapabilities.Key()
	}
	return ""
}

// modernVersion: "it MUST respond with an UnsupportedProtocolVersionError" (2026-07-28,
// basic/versioning), with the list from which the client chooses.
func modernVersion(m *mcp.Message) (mcp.Version, *mcp.Error) {
	if string(m.Params.Raw(mcp.MetaVersion)) == `"`+string(mcp.V20260728)+`"` {
		return mcp.V20260728, nil // the usual spelling
	}
	text, _ := m.Params.Text(mcp.MetaVersion)
	if v := mcp.Version(text); slices.Contains(mcp.ModernVersions(), v) {
		return v, nil
	}
	return "", unsupportedVersion(text)
}

// unsupportedVersion is the error for a revision that is not served, or not without an
// initialize.
func unsupportedVersion(text string) *mcp.Error {
	data := append([]byte(`{"supported":`), versionsJSON()...)
	data = append(data, `,"requested":`...)
	data = append(jsonscan.AppendString(data, text), '}')
	message := "unsupported protocol version " + escape(text)
	if mcp.Version(text).Era() == mcp.EraLegacy {
		message = escape(text) + " is not served without a session; begin with initialize"
	}
	return &mcp.Error{Code: mcp.CodeUnsupportedVersion, Message: message, Data: data}
}

// versionsJSON is the list of all revisions that an endpoint serves, newest first. It is
// part of the result of server/discover, and of the error for an unsupported revision.
func versionsJSON() []byte {
	raw, err := json.Marshal(append(mcp.ModernVersions(), mcp.LegacyVersions()...))
	if err != nil {
		return []byte("[]") // strings always encode
	}
	return raw
}

// modernLevel reads the log level of one request. Without one, the client gets no
// messages at all (2026-07-28, server/utilities/logging, "Per-request log level").
func modernLevel(m *mcp.Message) (mcp.LogLevel, *mcp.Error) {
	if !m.Params.Has(mcp.MetaLogLevel) {
		return mcp.LogNone, nil
	}
	text, ok := m.Params.Text(mcp.MetaLogLevel)
	if !ok {
		return 0, mcp.Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be a string", "io.modelcontextprotocol/logLevel")
	}
	level, ok := mcp.ParseLogLevel(text)
	if !ok {
		return 0, mcp.Errorf(mcp.CodeInvalidParams, "unknown log level %s in _meta", escape(text))
	}
	return level, nil
}

// isRemoved reports whether the method existed in the legacy era only. To a modern client
// it is unknown.
func isRemoved(method string) bool {
	switch method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result", "tasks/list":
		return true
	default:
		return false
	}
}

// checkTasks refuses requests that require the tasks extension from clients that do not
// declare it (io.modelcontextprotocol/tasks, "Error Handling").
func checkTasks(m *mcp.Message) *mcp.Error {
	switch m.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
	case "subscriptions/listen":
		if !task.Watches(m.Params.Raw(mcp.FieldNotifications)) {
			return nil
		}
	default:
		return nil
	}
	if task.Declared(m.Params.Raw(mcp.MetaClientCapabilities)) {
		return nil
	}
	return task.Missing(m.Method)
}

// undeclaredTask reports whether a result is a task for a client that did not declare the
// extension, or the answer to a request that cannot become a task. Such a result must not
// be sent, even though the call has run.
func undeclaredTask(req *mcp.Request, res *mcp.Result) bool {
	return res.Type() == mcp.ResultTask && (req.Method != "tools/call" || !task.Declared(req.Client.Capabilities))
}

// modernEncoder is the encoder of 2026-07-28.
type modernEncoder struct{}

// result adds the fields that a legacy backend does not send: the type of the result, and
// that it must not be cached (2026-07-28, basic, "ResultType"; server/utilities/caching).
func (enc modernEncoder) result(buf []byte, id mcp.ID, req *mcp.Request, res *mcp.Result) session.Message {
	if !mcp.IsMethod(req.Method) {
		return passedResult(buf, id, res)
	}
	if undeclaredTask(req, res) {
		return enc.failure(id, req, task.Missing(req.Method))
	}
	// Existing fields stay: they are from a modern backend.
	var e mcp.Edit
	if res.Type() == mcp.ResultComplete {
		res = revision.Result(req.Client.Version, req.Method, res)
	}
	if !res.Has(mcp.FieldResultType) {
		e.SetText(mcp.FieldResultType, mcp.ResultComplete)
	}
	if isCacheable(req.Method) && res.Type() == mcp.ResultComplete {
		if !res.Has(mcp.FieldTTL) {
			e.Set(mcp.FieldTTL, []byte("0"))
		}
		if !res.Has(mcp.FieldCacheScope) {
			e.SetText(mcp.FieldCacheScope, "private")
		}
	}
	// These two concern this connection and this endpoint, so the values of a backend are
	// replaced.
	switch req.Method {
	case "subscriptions/listen":
		e.Set(mcp.MetaSubscriptionID, id.AppendTo(nil))
	case "server/discover":
		e.Set(mcp.FieldSupportedVersions, versionsJSON())
		caps := task.ModernOffer(res.Raw(mcp.FieldCapabilities))
		e.Set(mcp.FieldCapabilities, revision.ServerCapabilities(req.Client.Version, caps))
	}
	return resultMessage(buf, id, &e, &res.Object)
}

// passedResult is the terminal message of a request of an extension that is not known. All results have a
// type (2026-07-28, schema, "Result").
func passedResult(buf []byte, id mcp.ID, res *mcp.Result) session.Message {
	var e mcp.Edit
	if !res.Has(mcp.FieldResultType) {
		e.SetText(mcp.FieldResultType, mcp.ResultComplete)
	}
	return resultMessage(buf, id, &e, &res.Object)
}

// isCacheable lists the methods with results that carry caching hints (2026-07-28,
// server/utilities/caching, and SEP-2640).
func isCacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "skills/list", "skills/get":
		return true
	default:
		return false
	}
}

// failure translates the codes of earlier revisions, and the reserved ones, for modern
// clients (2026-07-28, basic, "Error Codes").
func (modernEncoder) failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message {
	err = revision.Error(mcp.EraModern, req, err)
	return session.Message{Head: jsonrpc.AppendError(nil, id, err), Status: modernStatus(err.Code)}
}

// modernStatus is the HTTP status of an error that precedes the first byte. Errors of a
// method itself, -32602 among them, are answers: the transport has worked.
func modernStatus(code int64) int {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return 400
	case mcp.CodeMethodNotFound:
		return 404
	default:
		return 200
	}
}

// maxCopied is the size up to which an unmodified result is copied into the message.
const maxCopied = 4 << 10

// resultMessage returns the response with the result as edited, in buf if it is small
// enough. A large result without edits is not copied.
func resultMessage(buf []byte, id mcp.ID, e *mcp.Edit, res *mcp.Object) session.Message {
	raw := res.Bytes()
	head := appendResultHead(buf, id)
	if e.IsZero() && len(raw) > maxCopied {
		at := len(head)
		head = jsonrpc.AppendBeside(append(head, '}'), res.Beside())
		return session.Message{Head: head[:at:at], Body: raw, Tail: head[at:]}
	}
	if need := len(head) + len(raw) + len("{}}") + len(res.Beside()); need > cap(head) {
		if !e.IsZero() {
			need += 256 // mostly enough for the edits
		}
		head = append(make([]byte, 0, need), head...)
	}
	return session.Message{Head: jsonrpc.AppendBeside(append(e.AppendTo(head, res), '}'), res.Beside())}
}

// appendResultHead begins a response. The id is sent with the bytes that were received
// (I4), and the result is last, so that its bytes can follow unmodified.
func appendResultHead(dst []byte, id mcp.ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendTo(dst)
	return append(dst, `,"result":`...)
}
