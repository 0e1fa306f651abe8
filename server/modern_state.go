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

	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// stateKind is what a requestState that begins with it is, to us. A state that
// begins with none of them is a backend's own.
//
// What begins like one of ours is ours, or it is nothing: it is opened or refused,
// and never handed on. A stale state of a parked request would otherwise have a
// legacy backend do once more what it has done. Where a backend is a gateway like
// this one, its states begin like that, too: they are marked on their way out, and
// the mark is taken off on their way back.
type stateKind string

const (
	stateParked  stateKind = "sbp1." // of a request that is parked here
	stateSealed  stateKind = "sbs1." // of a backend, for one principal and one request
	stateRestart stateKind = "sba1." // of a request that is to be begun again
	stateMarked  stateKind = "sbm1." // of a backend, as it is, behind the mark
)

// stateLife is how long a backend's own state is taken back in its seal. What a
// backend thinks of its age is its own affair: this only bounds for how long a
// stolen one may be tried.
const stateTTL = 24 * time.Hour

// kindOf returns the kind that a text begins with, "" where that is none.
func stateKindOf(text string) stateKind {
	for _, kind := range []stateKind{stateParked, stateSealed, stateRestart, stateMarked} {
		if strings.HasPrefix(text, string(kind)) {
			return kind
		}
	}
	return ""
}

// newBox returns what seals the states.
func newBox(keys [][]byte) *seal.Box {
	box, err := seal.New(keys...)
	if err != nil {
		panic("server: Config.StateKeys: " + err.Error()) //nolint:forbidigo // see New
	}
	return box
}

// sealsStates reports whether the states of backends go out sealed. Where clients
// are told apart, backends are called for all of them with one credential, so that
// nobody but us can tell whose state it is. Where there are keys, nobody but us can tell
// to which request, and so to which backend, it belongs, and all who have them can serve
// the retry. Without either a state passes as it is, and any replica can.
func (s *Server) sealsStates() bool { return s.cfg.Authenticate != nil || len(s.cfg.StateKeys) > 0 }

// ticket is what stands in a sealed state, besides what it is for: until when it
// holds, and of which principal and request. Its form is fixed: 8 bytes, two
// hashes, and the rest.
type sealedState struct {
	until     time.Time
	principal [sha256.Size]byte
	request   [sha256.Size]byte
	body      []byte
}

func (t *sealedState) bytes() []byte {
	out := make([]byte, 0, 8+2*sha256.Size+len(t.body))
	out = binary.BigEndian.AppendUint64(out, uint64(t.until.Unix()))
	out = append(append(out, t.principal[:]...), t.request[:]...)
	return append(out, t.body...)
}

func parseSealedState(raw []byte) (t sealedState, ok bool) {
	if len(raw) < 8+2*sha256.Size {
		return sealedState{}, false
	}
	t.until = time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)
	rest := raw[8:]
	rest = rest[copy(t.principal[:], rest):]
	t.body = rest[copy(t.request[:], rest):]
	return t, true
}

// sealState returns a state that opens for the principal and the request alone.
func (s *Server) sealState(kind stateKind, req *mcp.Request, until time.Time, body []byte) string {
	// Whole seconds: nobody may come back a moment too late for what still says that
	// it holds.
	t := sealedState{until: until.Add(time.Second), principal: sha256.Sum256([]byte(req.Principal)), request: digest(req), body: body}
	return string(kind) + s.box.Seal(string(kind), t.bytes())
}

// openState returns what was sealed. The error is session.ErrUnknown, or
// session.ErrForeign where the principal is another; to the client these are one.
func (s *Server) openState(kind stateKind, text string, req *mcp.Request) ([]byte, error) {
	raw, err := s.box.Open(string(kind), strings.TrimPrefix(text, string(kind)))
	if err != nil {
		return nil, session.ErrUnknown
	}
	t, ok := parseSealedState(raw)
	switch {
	case !ok:
		return nil, session.ErrUnknown
	case t.principal != sha256.Sum256([]byte(req.Principal)):
		return nil, session.ErrForeign
	case t.request != digest(req), !time.Now().Before(t.until):
		return nil, session.ErrUnknown
	default:
		return t.body, nil
	}
}

// digest is what a request and its retry have in common: the method, and the
// parameters without what differs between the two. Two texts of the same
// parameters have one digest, because a client may write its retry anew; but a
// number is the text that it is, because whose precision it is nobody knows.
func digest(req *mcp.Request) [sha256.Size]byte {
	var e mcp.Edit
	for _, f := range []mcp.Field{mcp.FieldInputResponses, mcp.FieldRequestState, mcp.FieldMeta} {
		if req.Params.Has(f) {
			e.Delete(f)
		}
	}
	params := jsontext.Value(e.AppendTo(nil, &req.Params))
	// What has a name twice stays as it is written, and is compared like that.
	_ = params.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(req.Method), params} {
		_, _ = sum.Write(binary.AppendUvarint(nil, uint64(len(part)))) // a hash takes everything
		_, _ = sum.Write(part)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// ownerOf returns whom a request belongs to while it is parked.
func (s *Server) parkedOwner(req *mcp.Request, place uint64) session.Owner {
	sum := digest(req)
	return session.Owner{Place: place, Principal: req.Principal, Method: req.Method, Digest: string(sum[:])}
}

// returned is a request whose state has been looked at.
type openedRequest struct {
	req      *mcp.Request // as the Handler gets it
	parkedID string       // the id of the request that it goes on with, or ""
	restarts int          // how often it was begun again
}

// readState looks at the state that a request brings. The error is that of
// openState, or a wire error.
func (s *Server) readState(req *mcp.Request) (openedRequest, error) {
	if !req.Params.Has(mcp.FieldRequestState) {
		return openedRequest{req: req}, nil
	}
	text, _ := req.Params.Text(mcp.FieldRequestState)
	kind := stateKindOf(text)
	if s.sealsStates() && (kind == "" || kind == stateMarked) {
		return openedRequest{}, session.ErrUnknown // no state that goes out here is like that
	}
	switch kind {
	case stateParked:
		id, err := s.openState(kind, text, req)
		return openedRequest{req: req, parkedID: string(id)}, err
	case stateRestart:
		count, err := s.openState(kind, text, req)
		if err != nil {
			return openedRequest{}, err
		}
		return restartRequest(req, count)
	case stateSealed:
		state, err := s.openState(kind, text, req)
		if err != nil {
			return openedRequest{}, err
		}
		return withState(req, state)
	case stateMarked:
		return withState(req, unmarkState(req.Params.Raw(mcp.FieldRequestState), text))
	default:
		return openedRequest{req: req}, nil
	}
}

// withState returns the request with the state that its backend has given.
func withState(req *mcp.Request, state []byte) (openedRequest, error) {
	var e mcp.Edit
	e.Set(mcp.FieldRequestState, state)
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

// mark returns the JSON text of a state with the mark before what it says; unmarked
// takes it off. What stands behind it keeps its bytes, unless a client has written
// the mark itself in another way.
func markState(raw []byte) []byte {
	return append(append([]byte{'"'}, stateMarked...), raw[1:]...)
}

func unmarkState(raw []byte, text string) []byte {
	if rest, ok := bytes.CutPrefix(raw, append([]byte{'"'}, stateMarked...)); ok {
		return append([]byte{'"'}, rest...)
	}
	return mcp.AppendString(nil, strings.TrimPrefix(text, string(stateMarked)))
}

// refuseState refuses a request for the state that it brings. Whether that is
// another's, of another request, expired, used, or no state at all is for the
// operator to know: the answer is the same, and nothing has been done.
func (s *Server) refuseState(id mcp.ID, err error) *refusal {
	if wire, ok := asWire(err); ok {
		return refuseMessage(http.StatusOK, id, wire)
	}
	if s.inflight.isDraining() {
		return refuseLost(id) // that a request is not parked here says nothing any more
	}
	kind := UnknownState
	if errors.Is(err, session.ErrForeign) {
		kind = ForeignState
	}
	return refuseMessage(http.StatusOK, id, mcp.Errorf(mcp.CodeInvalidParams,
		"requestState is unknown, used or expired, or it belongs to another request")).withEvent(kind, "")
}

// takeOver has a retry go on with the request that is parked. begin opens the
// exchange of the retry, which is returned also where the retry is refused.
func (s *Server) resumeParked(m *mcp.Message, r *openedRequest, place uint64, begin func(*inflightRequest) (*session.Exchange, *refusal)) (*inflightRequest, *session.Exchange, *refusal) {
	owner, now := s.parkedOwner(r.req, place), time.Now()
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
	case found.Over:
		s.releaseQuota(ir)
		s.finishParked(ir, next)
	case found.Open:
		s.parkSoon(ir)
	}
	return ir, x, nil
}
