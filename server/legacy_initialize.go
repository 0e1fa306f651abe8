// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacyInitialize opens a session. It responds when the session is complete, and the
// client may use the session from then on (I17). A disconnect does not cancel it, because
// an initialize cannot be cancelled (2025-11-25, basic/utilities/cancellation); a session
// that the client does not learn of ends soon, as one that was never used.
func (s *Server) legacyInitialize(p *response, r *http.Request, from sender, m *mcp.Message) *refusal {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	entry := &inflight{stop: cancel}
	if s.quiet.Load() || !s.inflight.add(entry) {
		return refuseDraining(m.ID)
	}
	defer s.inflight.remove(entry)
	key := quotaKey{principal: from.principal}
	if !s.quota.acquire(key) {
		return s.quota.refuse(m.ID, key)
	}
	defer s.quota.release(key)
	sess, answer, wireErr := s.initialize(ctx, m, from)
	if wireErr != nil {
		failed := legacyEncoder{}.failure(m.ID, nil, wireErr)
		p.writeJSON(&failed)
		return nil
	}
	sess.Address = addressOf(r.RemoteAddr)
	if err := s.addSession(sess); err != nil {
		return s.refuseSessions(m.ID, err)
	}
	p.w.Header().Set(sessionHeader, sess.ID)
	p.writeJSON(&answer)
	return nil
}

// initialize opens a session: to the Handler it is server/discover with a new scope. The
// session is complete when it is returned, and not registered yet. The message is the
// answer.
func (s *Server) initialize(ctx context.Context, m *mcp.Message, from sender) (*session.Session, session.Message, *mcp.Error) {
	peer, wireErr := legacyPeer(m)
	if wireErr != nil {
		return nil, session.Message{}, wireErr
	}
	sess := session.New(newSessionID(), from.principal, peer, &s.rules)
	sess.Profile, sess.Began = from.profile, time.Now()
	sess.Scope = mcp.NewScope(scopeKey(sess.ID), s.standalone(sess))
	// Asked for this client and not cached: the offer may depend on the principal and on
	// the client's capabilities.
	req := &mcp.Request{
		Method:    "server/discover",
		Client:    peer,
		LogLevel:  mcp.LogUnset,
		Principal: from.principal,
		Identity:  from.identity,
		Profile:   from.profile,
		Scope:     sess.Scope,
	}
	s.requests.Add(1)
	res, err := s.callHandler(ctx, s.handler, req, noCaller{})
	if err == nil && res == nil {
		err = errNoResult
	}
	var translated initializeResult
	if err == nil {
		translated = s.initResults.get(peer.Version, res, func() initializeResult { return newInitializeResult(res, peer.Version) })
		err = translated.err
	}
	if err != nil {
		s.endScope(sess.Scope)
		return nil, session.Message{}, s.wireError(ctx, req, err)
	}
	if translated.tasks {
		offerTasks(sess.Scope)
	}
	if res.PassesExtensions {
		own := *peer
		own.PassesExtensions = true
		own.Capabilities = bytes.Clone(revision.WithExtensions(own.Capabilities, m.Params.Raw(mcp.FieldCapabilities)))
		sess.Client = &own
	}
	return sess, session.Message{Head: jsonrpc.AppendResult(nil, m.ID, translated.result)}, nil
}

// addSession registers a session, and evicts others if there is no space. The state kept
// for these ends here, and so does that of the new session if it is refused.
func (s *Server) addSession(sess *session.Session) error {
	evicted, err := s.sessions.Add(sess, time.Now())
	for _, old := range evicted {
		s.endState(old)
	}
	if err != nil {
		s.endScope(sess.Scope)
		return err
	}
	// Not earlier: a session that is not registered is idle, and must not be evicted.
	sess.Scope.OnYield(func() bool { return s.evictIdle(sess) })
	s.sweepAfter(min(s.cfg.Limits.SessionUninitialized, s.cfg.Limits.SessionIdle))
	// After it was added: EndProfile finds it, or this does.
	if !s.hasProfile(sess.Profile) {
		s.end(sess, errSessionEnded())
	}
	return nil
}

// evictIdle ends a session, unless it is in use, for a Handler that has no space left for
// its state. The client of the session gets a 404 with its next request, and opens another
// (2025-11-25, basic/transports, "Session Management").
func (s *Server) evictIdle(sess *session.Session) bool {
	if !sess.EndIdle() {
		return false
	}
	s.sessions.Remove(sess)
	s.endState(sess)
	return true
}

// addressOf returns the part of an address that distinguishes anonymous clients. It is
// the same for all addresses of the loopback network, and for the 2^64 of an IPv6 network,
// because one host can use all of them.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return "loopback"
	case ip.Is4():
		return ip.String()
	default:
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
}

// refuseSessions is the refusal if no session can be evicted for a new one. It reports
// when one may be.
func (s *Server) refuseSessions(id mcp.ID, err error) *refusal {
	full, ok := errors.AsType[*session.FullError](err)
	if !ok {
		return refuseSession(id) // Add has no other error
	}
	no := refuseTooMany(id, s.cfg.Limits.Sessions, "sessions", "sessions")
	if full.PerPrincipal {
		no = refuseTooMany(id, s.cfg.Limits.SessionsPerPrincipal, "sessions of one principal", "sessionsPerPrincipal")
	}
	return no.withHeader("Retry-After", seconds(full.Wait))
}

// scopeKey identifies a session in logs: the beginning of the SHA-256 of its id. With an
// id its log lines can be found, and the lines reveal no part of the id.
func scopeKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// initializeResult is a result of server/discover as translated for a revision.
type initializeResult struct {
	result []byte // of initialize
	tasks  bool   // whether clients may run calls as tasks
	err    error  // set if there is no result
}

// newInitializeResult translates a result of server/discover. Tasks are an extension to the
// Handler, and were a capability in one revision.
func newInitializeResult(res *mcp.Result, v mcp.Version) initializeResult {
	caps := res.Raw(mcp.FieldCapabilities)
	if len(caps) > 0 && caps[0] != '{' {
		return initializeResult{err: errors.New("capabilities of the handler: not an object")}
	}
	info := res.Raw(mcp.MetaServerInfo)
	if info == nil {
		// A legacy client requires it (2025-11-25, schema, "InitializeResult"); the
		// modern revision does not.
		info = []byte(`{"name":"signalbox","version":"0"}`)
	}
	out := jsonscan.AppendString([]byte(`{"protocolVersion":`), string(v))
	own := revision.ServerCapabilities(v, task.WithLegacyOffer(caps))
	if res.PassesExtensions {
		own = revision.WithExtensions(own, caps)
	}
	out = append(append(out, `,"capabilities":`...), own...)
	out = append(append(out, `,"serverInfo":`...), info...)
	if text := res.Raw(mcp.FieldInstructions); text != nil {
		out = append(append(out, `,"instructions":`...), text...)
	}
	return initializeResult{result: append(out, '}'), tasks: v >= mcp.V20251125 && task.OfferOf(caps).Any()}
}

// noCaller is the Caller of requests that have no stream before their answer: initialize,
// and those that are answered from a cache.
type noCaller struct{}

// Notify drops n: the client has no session yet that it could belong to (I34).
func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Start fails: "The server SHOULD NOT send requests other than pings and logging before
// receiving the initialized notification" (2025-11-25, basic/lifecycle,
// "Initialization").
func (noCaller) Start(_ context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s cannot be asked during initialize", req.Method)
}

// Extension returns one that can do nothing.
func (noCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// maxIdentity bounds what a session keeps of the client's description of itself.
const maxIdentity = 64 << 10

// legacyPeer reads the client's description of itself. It copies the fields, because the
// session must not retain the whole message.
func legacyPeer(m *mcp.Message) (*mcp.Peer, *mcp.Error) {
	requested, ok := m.Params.Text(mcp.FieldProtocolVersion)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.protocolVersion must be a string")
	}
	info, caps := m.Params.Raw(mcp.FieldClientInfo), m.Params.Raw(mcp.FieldCapabilities)
	if len(info)+len(caps) > maxIdentity {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "clientInfo and capabilities exceed %s", bytesText(maxIdentity))
	}
	version := negotiate(mcp.Version(requested))
	return &mcp.Peer{
		Version:      version,
		Info:         bytes.Clone(info),
		Capabilities: bytes.Clone(revision.ClientCapabilities(version, version, caps)),
	}, nil
}

// negotiate returns the revision of the session: 2025-11-25, basic/lifecycle, "Version
// Negotiation". A handshake never results in a modern revision.
func negotiate(requested mcp.Version) mcp.Version {
	if requested.Era() == mcp.EraLegacy {
		for _, v := range mcp.LegacyVersions() {
			if v == requested {
				return v // the constant, not a part of the message
			}
		}
	}
	return mcp.LatestLegacy
}
