// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// stateKind is the prefix of a requestState that was created here. A state with no such
// prefix belongs to a backend.
//
// A state with one of the prefixes is opened or refused, and never forwarded: with a
// stale state of a parked request, a legacy backend would do its work a second time. The
// states of a backend that is a gateway like this one have such prefixes, too; they are
// marked when they are sent to the client, and the mark is removed when they return.
type stateKind string

const (
	stateParked  stateKind = "sbp1." // of a request that is parked here
	stateSealed  stateKind = "sbs1." // of a backend, for one sender and one request
	stateRestart stateKind = "sba1." // of a request to restart
	stateMarked  stateKind = "sbm1." // of a backend, unmodified after the mark
	stateResume  stateKind = "sbi1." // of the Handler of this server
)

// stateTTL is how long a sealed state of a backend is accepted. The backend checks the
// age of its states itself; this only bounds how long a stolen one can be tried.
const stateTTL = 24 * time.Hour

// stateKindOf returns the prefix of a text, or "" if it has none.
func stateKindOf(text string) stateKind {
	for _, kind := range []stateKind{stateParked, stateSealed, stateRestart, stateMarked, stateResume} {
		if strings.HasPrefix(text, string(kind)) {
			return kind
		}
	}
	return ""
}

// sealsStates reports whether the states of backends are sealed for clients. With
// authentication, backends are called for all clients with one credential, so only the
// gateway can check which client a state belongs to. With keys, only the gateway can
// check the request and so the backend that a state belongs to, and every replica with
// the keys can serve the retry. A profile is checked like a principal. With none of these,
// a state is forwarded unmodified, and any replica can serve the retry.
func (s *Server) sealsStates(req *mcp.Request) bool {
	return s.cfg.Authenticate != nil || len(s.cfg.StateKeys) > 0 || req.Profile != ""
}

// sealState returns a state that opens for this sender and request only. Its content is
// the expiry in 8 bytes, the hashes of the sender and of the request, and the state itself.
func (s *Server) sealState(kind stateKind, req *mcp.Request, until time.Time, body []byte) string {
	from, request := sha256.Sum256([]byte(req.Owner())), digest(req)
	// Times are stored in whole seconds; one more, so that a state never expires early.
	raw := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()+1))
	raw = append(append(append(raw, from[:]...), request[:]...), body...)
	return string(kind) + s.box.Seal(string(kind), raw)
}

// openState returns the content of a sealed state. The error is session.ErrForeign if the
// state belongs to another sender, and session.ErrUnknown otherwise; the client cannot
// distinguish them.
func (s *Server) openState(kind stateKind, text string, req *mcp.Request) ([]byte, error) {
	raw, err := s.box.Open(string(kind), strings.TrimPrefix(text, string(kind)))
	if err != nil || len(raw) < 8+2*sha256.Size {
		return nil, session.ErrUnknown
	}
	until, rest := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0), raw[8:]
	from, request, body := rest[:sha256.Size], rest[sha256.Size:2*sha256.Size], rest[2*sha256.Size:]
	switch {
	case [sha256.Size]byte(from) != sha256.Sum256([]byte(req.Owner())):
		return nil, session.ErrForeign
	case [sha256.Size]byte(request) != digest(req), !time.Now().Before(until):
		return nil, session.ErrUnknown
	default:
		return body, nil
	}
}

// digest identifies a request and its retries: it covers the method, and the parameters
// without those that a retry changes. Equal parameters have one digest, because a client
// may encode its retry anew; but numbers are compared as text, because their precision is
// unknown.
func digest(req *mcp.Request) [sha256.Size]byte {
	var e mcp.Edit
	for _, f := range []mcp.Field{mcp.FieldInputResponses, mcp.FieldRequestState, mcp.FieldMeta} {
		if req.Params.Has(f) {
			e.Delete(f)
		}
	}
	params := jsontext.Value(e.AppendTo(nil, &req.Params))
	// Parameters with duplicate names are compared as they are written.
	_ = params.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(req.Method), params} {
		_, _ = sum.Write(binary.AppendUvarint(nil, uint64(len(part)))) // a hash returns no error
		_, _ = sum.Write(part)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// parkedOwner returns the owner of a request while it is parked.
func (s *Server) parkedOwner(req *mcp.Request, connID uint64) session.Owner {
	sum := digest(req)
	return session.Owner{Place: connID, Principal: req.Principal, Profile: req.Profile, Method: req.Method, Digest: string(sum[:])}
}

// openedRequest is a request after its requestState has been opened.
type openedRequest struct {
	req      *mcp.Request // as passed to the Handler
	parkedID string       // the id of the parked request that it resumes, or ""
	restarts int          // how often it was restarted
}

// readState opens the requestState of a request. The error is that of openState, or a
// wire error.
func (s *Server) readState(req *mcp.Request) (openedRequest, error) {
	if !req.Params.Has(mcp.FieldRequestState) || !mcp.IsMethod(req.Method) {
		return openedRequest{req: req}, nil
	}
	text, _ := req.Params.Text(mcp.FieldRequestState)
	kind := stateKindOf(text)
	if s.sealsStates(req) && (kind == "" || kind == stateMarked) {
		return openedRequest{}, session.ErrUnknown // no such state is ever sent to a client
	}
	if kind == "" {
		return openedRequest{req: req}, nil
	}
	if kind == stateMarked {
		return withState(req, unmarkState(req.Params.Raw(mcp.FieldRequestState), text))
	}
	body, err := s.openState(kind, text, req)
	if err != nil {
		return openedRequest{}, err
	}
	switch kind {
	case stateParked:
		return openedRequest{req: req, parkedID: string(body)}, nil
	case stateRestart:
		return restartRequest(req, body)
	case stateResume:
		return resumedRequest(req, body)
	default:
		return withState(req, body)
	}
}

// withState returns the request with the state of its backend.
func withState(req *mcp.Request, state []byte) (openedRequest, error) {
	var e mcp.Edit
	e.Set(mcp.FieldRequestState, state)
	return withEdit(req, &e)
}

// withoutInput returns the request as it was before its client was asked.
func withoutInput(req *mcp.Request) (openedRequest, error) {
	var e mcp.Edit
	e.Delete(mcp.FieldInputResponses)
	e.Delete(mcp.FieldRequestState)
	return withEdit(req, &e)
}

func withEdit(req *mcp.Request, e *mcp.Edit) (openedRequest, error) {
	params, err := e.Apply(&req.Params)
	if err != nil {
		return openedRequest{}, session.ErrUnknown // a state that we have sealed is JSON
	}
	next := *req
	next.Params = params
	return openedRequest{req: &next}, nil
}

// markState returns the JSON string of a state with the mark in front; unmarkState
// removes it. The bytes after the mark stay, unless a client has encoded the mark itself
// differently.
func markState(raw []byte) []byte {
	return append(append([]byte{'"'}, stateMarked...), raw[1:]...)
}

func unmarkState(raw []byte, text string) []byte {
	if rest, ok := bytes.CutPrefix(raw, append([]byte{'"'}, stateMarked...)); ok {
		return append([]byte{'"'}, rest...)
	}
	return jsonscan.AppendString(nil, strings.TrimPrefix(text, string(stateMarked)))
}

// refuseState refuses a request because of its state. Whether the state belongs to
// another sender or request, has expired or was used, or is no state at all, is
// reported to the operator only: the response is the same, and nothing has run.
func (s *Server) refuseState(id mcp.ID, err error) *refusal {
	if wire, ok := asWire(err); ok {
		return refuseMessage(http.StatusOK, id, wire)
	}
	if s.inflight.isDraining() {
		return refuseLost(id) // an unknown parked request is no longer significant
	}
	kind := UnknownState
	if errors.Is(err, session.ErrForeign) {
		kind = ForeignState
	}
	return refuseMessage(http.StatusOK, id, mcp.Errorf(mcp.CodeInvalidParams,
		"requestState is unknown, used or expired, or it belongs to another request")).withEvent(kind, "")
}

// resumeParked continues the parked request that a retry names. begin opens the exchange
// of the retry, which is returned also if the retry is refused.
func (s *Server) resumeParked(m *mcp.Message, r *openedRequest, connID uint64, begin func(*inflightRequest) (*session.Exchange, *refusal)) (*inflightRequest, *session.Exchange, *refusal) {
	owner, now := s.parkedOwner(r.req, connID), time.Now()
	p, questions, err := s.parked.Lookup(r.parkedID, owner, now)
	if err != nil {
		return nil, nil, s.refuseState(m.ID, err)
	}
	answers, err := readAnswers(questions, &r.req.Params)
	if err != nil {
		return nil, nil, s.refuseState(m.ID, err)
	}
	ir := p.Value()
	if err := checkRepeated(ir.req.ParamHeaders, r.req.ParamHeaders); err != nil {
		return nil, nil, refuseMessage(http.StatusBadRequest, m.ID, err)
	}
	x, no := begin(ir)
	if no != nil {
		return nil, nil, no
	}
	caller := newRequestCaller(s, ir, x, r.req, new(timer))
	next := &caller
	found, err := s.parked.Resume(r.parkedID, owner, next, answers, now)
	switch {
	case err != nil:
		return nil, x, s.refuseState(m.ID, err) // another retry was first
	case found.Ended:
		s.finish(ir, x)
		next.progressTimer.stop()
	case found.Open:
		s.parkSoon(ir)
	}
	return ir, x, nil
}
