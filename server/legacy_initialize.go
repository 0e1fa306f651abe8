// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// initialize opens a session: on the inside it is server/discover with a fresh
// scope. The session is complete when it is returned, and nobody knows of it
// yet. The message is the answer.
func (s *Server) initialize(ctx context.Context, m *mcp.Message, principal string) (*session.Session, session.Message, *mcp.Error) {
	peer, wireErr := legacyPeer(m)
	if wireErr != nil {
		return nil, session.Message{}, wireErr
	}
	sess := session.New(newSessionID(), principal, peer, &s.rules)
	sess.Scope = mcp.NewScope(scopeKey(sess.ID), s.standalone(sess))
	// Asked for this client, and not from a memory of the last: what is offered may
	// differ by principal and by what the client can do.
	req := &mcp.Request{
		Method:    "server/discover",
		Client:    peer,
		LogLevel:  mcp.LogUnset,
		Principal: principal,
		Scope:     sess.Scope,
	}
	s.requests.Add(1)
	result, err := s.discover(ctx, req)
	if err != nil {
		s.endScope(sess.Scope)
		return nil, session.Message{}, s.wireError(ctx, req, err)
	}
	return sess, session.Message{Head: mcp.AppendResult(nil, m.ID, result)}, nil
}

// scopeKey is what tells sessions apart in logs: the beginning of the id's SHA-256.
// Whoever has an id finds its lines, and nobody finds a piece of an id in them.
func scopeKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// discover asks the Handler what it is and says it as the revision of the client
// does.
func (s *Server) discover(ctx context.Context, req *mcp.Request) ([]byte, error) {
	res, err := s.serve(ctx, req, noCaller{})
	if err != nil {
		return nil, err
	}
	if res == nil {
		return nil, errNoResult
	}
	v := req.Client.Version
	g := s.initResults.get(v, res, func() initializeResult { return newInitializeResult(res, v) })
	noteTasks(req.Scope, g.tasks)
	return g.result, g.err
}

// greeting is what a result of server/discover is to the clients of a revision.
type initializeResult struct {
	result []byte // of initialize
	tasks  bool   // that they may have calls run as
	err    error  // there is no result
}

func newInitializeResult(res *mcp.Result, v mcp.Version) initializeResult {
	g := initializeResult{tasks: v >= mcp.V20251125 && tasks.OfferOf(res.Raw(mcp.FieldCapabilities)).Any()}
	g.result, g.err = encodeInitialize(res, v)
	return g
}

// silent is the Caller of an initialize: nothing can be said before its answer.
type noCaller struct{}

// Notify drops: the client does not know of a session yet that this could belong
// to (I34).
func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask fails: "The server SHOULD NOT send requests other than pings and logging
// before receiving the initialized notification" (2025-11-25, basic/lifecycle,
// "Initialization").
func (noCaller) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInvalidRequest, "%s cannot be asked during initialize", req.Method)
}

// legacyPeer reads what the client says of itself. It is copied: the session
// must not keep the whole message.
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

// negotiate: 2025-11-25, basic/lifecycle, "Version Negotiation". A modern
// revision is never the outcome of a handshake.
func negotiate(requested mcp.Version) mcp.Version {
	if requested.Era() == mcp.EraLegacy {
		for _, v := range mcp.LegacyVersions() {
			if v == requested {
				return v // the constant, not a piece of the message
			}
		}
	}
	return mcp.LatestLegacy
}

// initialized is the result of initialize.
type initializeJSON struct {
	ProtocolVersion mcp.Version     `json:"protocolVersion"`
	Capabilities    json.RawMessage `json:"capabilities"`
	ServerInfo      json.RawMessage `json:"serverInfo"`
	Instructions    json.RawMessage `json:"instructions,omitempty"`
}

// initializeResult translates the result of server/discover.
func encodeInitialize(res *mcp.Result, version mcp.Version) ([]byte, error) {
	caps, err := legacyCapabilities(res.Raw(mcp.FieldCapabilities), version)
	if err != nil {
		return nil, fmt.Errorf("capabilities of the handler: %w", err)
	}
	info := res.Raw(mcp.MetaServerInfo)
	if info == nil {
		// A legacy client cannot do without (2025-11-25, schema,
		// "InitializeResult"); the modern revision can.
		info = []byte(`{"name":"signalbox","version":"0"}`)
	}
	return encodeJSON(initializeJSON{
		ProtocolVersion: version,
		Capabilities:    caps,
		ServerInfo:      info,
		Instructions:    res.Raw(mcp.FieldInstructions),
	})
}

// legacyCapabilities says what a Handler is capable of as the revision does. Tasks are
// an extension on the inside, and were a capability in one revision.
func legacyCapabilities(raw []byte, version mcp.Version) (json.RawMessage, error) {
	if len(raw) > 0 && raw[0] != '{' {
		return nil, errors.New("no object")
	}
	return revision.ServerCapabilities(version, tasks.WithLegacyOffer(raw)), nil
}

// encodeJSON is json.Marshal without the escapes for HTML, which would change
// texts that are passed on.
func encodeJSON(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
