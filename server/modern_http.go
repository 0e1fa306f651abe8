// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// modernPost serves a modern message. Mcp-Session-Id and Last-Event-ID have no meaning
// here and are ignored (2026-07-28, basic/transports/streamable-http, "Earlier Streamable
// HTTP Revisions").
func (s *Server) modernPost(p *response, r *http.Request, principal string, m *mcp.Message) *refusal {
	switch m.Kind {
	case mcp.KindRequest:
	case mcp.KindNotification:
		// The revision has no notifications over HTTP, and specifies that one is accepted
		// without a response. A request is cancelled by closing its response
		// (basic/patterns/cancellation).
		if m.Method == "notifications/cancelled" {
			s.observeIdleCancel(r.Context(), Event{Principal: principal, Remote: r.RemoteAddr}, m.Params.Raw(mcp.FieldRequestID))
		}
		p.writeAccepted()
		return nil
	default:
		return refuseMessage(http.StatusBadRequest, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "the body is a response; send a request"))
	}
	v := new(statelessRequest)
	ir := &v.inflightRequest
	if err := s.initModernHTTP(ir, r, m, principal); err != nil {
		return refuseMessage(refusalStatus(err), m.ID, err)
	}
	s.trackMemory(ir)
	opened, stateErr := s.readState(&ir.original)
	if stateErr != nil {
		return s.refuseState(m.ID, stateErr)
	}
	if opened.parkedID == "" && s.answerCached(r.Context(), p, m.ID, opened.req, modernEncoder{}) {
		return nil
	}
	if opened.parkedID == "" {
		if full, ok := errors.AsType[excessError](s.checkPending(principal)); ok {
			return s.refusePending(m.ID, full)
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
	ir.x.CountFor(principal, len(m.Raw))
	ir.caller = s.modernCaller(ir)
	c := attach(ir.x)
	defer c.Detach()
	if !s.start(ctx, ir) {
		return refuseDraining(m.ID)
	}
	s.answerAttempt(p, r, ir, ir.x, c)
	return nil
}

// modernRetry answers a request that resumes a parked one. It holds its share of the
// quota already.
func (s *Server) modernRetry(p *response, r *http.Request, m *mcp.Message, opened *openedRequest) *refusal {
	ir, x, no := s.resumeParked(m, opened, 0, func(ir *inflightRequest) (*session.Exchange, *refusal) {
		x := session.NewStateless(m.ID, &s.rules, ir.stop)
		x.CountFor(ir.original.Principal, len(ir.original.Params.Bytes())+len(ir.original.Params.Beside()))
		return x, nil
	})
	if no != nil {
		s.quota.release(quotaKeyOf(opened.req))
		return no
	}
	c := attach(x)
	defer c.Detach()
	s.answerAttempt(p, r, ir, x, c)
	return nil
}

// answerAttempt answers with one exchange of a request. A client that disconnects before
// it has the whole answer has cancelled the request, even if the answer is a question: no
// other client has the state to retry with.
func (s *Server) answerAttempt(p *response, r *http.Request, ir *inflightRequest, x *session.Exchange, c *session.Consumer) {
	s.answer(p, r, nil, x, c)
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

// initModernHTTP sets the request up from a modern message over HTTP, and checks the
// headers against the body. Missing fields in the body are reported first, then
// differences, then what is not served.
func (s *Server) initModernHTTP(ir *inflightRequest, r *http.Request, m *mcp.Message, principal string) *mcp.Error {
	named := r.Header.Get(versionHeader)
	switch missing := missingMeta(m); {
	case missing == "":
		if err := checkMirror(r.Header, m); err != nil {
			return err
		}
	case !m.Params.Has(mcp.MetaVersion) && named != "" && mcp.Version(named).Era() == mcp.EraUnknown:
		// The other fields of such a revision are unknown here.
		return unsupportedVersion(named)
	}
	if err := ir.initModern(m, principal); err != nil {
		return err
	}
	ir.original.ParamHeaders = paramHeaders(r.Header, s.noHeaders)
	return nil
}

// checkMirror: 2026-07-28, basic/transports/streamable-http, "Server Validation".
func checkMirror(h http.Header, m *mcp.Message) *mcp.Error {
	if !mirrors(h, versionHeader, m.Params.Raw(mcp.MetaVersion)) {
		version, _ := m.Params.Text(mcp.MetaVersion)
		if err := checkHeader(h, versionHeader, version, false); err != nil {
			return err
		}
	}
	if err := checkHeader(h, methodHeader, m.Method, false); err != nil {
		return err
	}
	field := mcp.NameField(m.Method)
	if field == mcp.FieldNone || mirrors(h, nameHeader, m.Params.Raw(field)) {
		return nil
	}
	name, ok := m.Params.Text(field)
	if !ok {
		return mcp.Errorf(mcp.CodeInvalidParams, "params.%s must be a string", field.Key())
	}
	return checkHeader(h, nameHeader, name, true)
}

// mirrors reports whether a header equals the JSON string raw byte for byte, and needs no
// decoding: the usual case. All others are left to checkHeader.
func mirrors(h http.Header, key string, raw []byte) bool {
	values := h[key]
	if len(values) != 1 || len(raw) < 2 || raw[0] != '"' {
		return false
	}
	inner := raw[1 : len(raw)-1]
	if string(inner) != values[0] || len(inner) == 0 {
		return false
	}
	for _, c := range inner {
		if !isPlain(c) {
			return false
		}
	}
	return true
}

// isPlain reports whether c represents itself both in a JSON string and in an encoded
// header, and is part of no encoding in either.
func isPlain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	default:
		return c == '-' || c == '_' || c == '.' || c == '/' || c == ':'
	}
}

// checkHeader compares one header with the value in the body.
func checkHeader(h http.Header, key, want string, encoded bool) *mcp.Error {
	values := h[key]
	switch {
	case len(values) == 0:
		return mismatch("%s header is missing; the body has %s", spelled(key), escape(want))
	case len(values) > 1:
		return mismatch("%s header appears %d times; the body has %s", spelled(key), len(values), escape(want))
	}
	got := strings.Trim(values[0], " \t")
	if encoded {
		decoded, err := mcp.DecodeHeaderValue(got)
		if err != nil {
			return mismatch("%s header %s: %v; the body has %s", spelled(key), escape(got), err, escape(want))
		}
		got = decoded
	}
	if got != want {
		return mismatch("%s header is %s; the body has %s", spelled(key), escape(got), escape(want))
	}
	return nil
}

// spelled returns a header as the specification writes it.
func spelled(key string) string {
	if key == versionHeader {
		return "MCP-Protocol-Version"
	}
	return key
}

func mismatch(format string, args ...any) *mcp.Error {
	return mcp.Errorf(mcp.CodeHeaderMismatch, format, args...)
}

// paramHeaders returns the headers that mirror tool arguments, for the Handler, which
// knows the tool. It never returns nil. Headers that the client declared for this
// connection only are left out, since a Handler forwards headers that it does not know
// (RFC 9110, section 7.6.1).
//
// If there are none, it returns the map none, which is shared and must not be changed.
func paramHeaders(h http.Header, none map[string][]string) map[string][]string {
	var found map[string][]string
	for key, values := range h {
		if !strings.HasPrefix(key, paramPrefix) {
			continue
		}
		if found == nil {
			found = make(map[string][]string)
		}
		found[key] = values
	}
	if found == nil {
		return none
	}
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(found, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return found
}

// checkRepeated compares the headers of a retry with those of the request that it
// resumes. The arguments of the two are equal, and the Handler has checked the headers of
// the first against them, so those of the retry are valid if they are equal. Headers that
// only the retry has mirror no argument.
func checkRepeated(first, retry map[string][]string) *mcp.Error {
	for _, key := range slices.Sorted(maps.Keys(first)) {
		if !slices.EqualFunc(first[key], retry[key], sameHeaderValue) {
			return mismatch("%s header is %q; the request that it retries had %q", key, retry[key], first[key])
		}
	}
	return nil
}

// sameHeaderValue reports whether two values are equal once decoded.
func sameHeaderValue(a, b string) bool {
	x, errA := mcp.DecodeHeaderValue(a)
	y, errB := mcp.DecodeHeaderValue(b)
	return errA == nil && errB == nil && x == y
}
