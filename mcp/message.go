// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "bytes"

// Kind is what a message is.
type Kind uint8

// The kinds of a message.
const (
	KindInvalid Kind = iota
	KindRequest
	KindNotification
	KindResult
	KindError
)

// String returns "request", "notification", "result", "error" or "invalid".
func (k Kind) String() string {
	switch k {
	case KindRequest:
		return "request"
	case KindNotification:
		return "notification"
	case KindResult:
		return "result"
	case KindError:
		return "error"
	default:
		return "invalid"
	}
}

// Message is one JSON-RPC message: the bytes that arrived, and where its parts
// stand in them. It is immutable.
type Message struct {
	// Raw is what arrived, unknown members of the envelope included.
	Raw  []byte
	Kind Kind

	// ID is the zero value for a notification, and for an error whose sender
	// could not read the id.
	ID     ID
	Method string // of requests and notifications
	Params Object // of requests and notifications; zero where absent
	Result Result // of results; who keeps it keeps the message
	Error  []byte // of errors: the error object's JSON text; see WireError

	beside []byte // of errors: see Object.Beside
}

// Parse reads one message. It keeps data, which must not be changed afterwards.
//
// It is strict wherever two readers could read differently: what is accepted is
// one RFC 8259 text in valid UTF-8, whose envelope is a request, a notification,
// a result or an error and nothing in between. At the levels that Signalbox
// reads (the envelope; the top of params, result and error; params.ref; _meta)
// no member stands twice, however it is escaped; and on the way to what routes a
// message (the envelope, params, params.ref) no member has a known name in
// another letter case. What lies below is not judged: it is forwarded.
//
// The error is a [*ParseError]; with it come the ID and the Method as far as
// they could be read, so that an answer can be addressed. The ID is even looked
// for behind the place of an error that leaves the text readable, and is zero if
// there are two.
func Parse(data []byte, lim Limits) (Message, error) {
	m := Message{Raw: data}
	s := newScanner(data, lim)
	s.envelope(&m)
	if s.err == nil {
		return m, nil
	}
	if s.err.Code == CodeInvalidRequest {
		m.ID = salvageID(data)
	}
	return Message{Raw: data, ID: m.ID, Method: m.Method}, s.err
}

func (s *scanner) envelope(m *Message) {
	i := s.begin()
	if i < 0 {
		return
	}
	if s.data[i] != '{' {
		if end := s.value(i, 0); s.end(end) >= 0 {
			s.invalid(i, "the message is "+kindOf(s.data[i:end]), "send one JSON object")
		}
		return
	}
	var env Object
	end := s.object(i, 0, levelEnvelope, &env, 0)
	env.raw = s.data
	if s.identify(m, &env); s.err == nil && s.end(end) >= 0 {
		s.classify(m, &env, i)
	}
}

// identify reads who is asked for what, as far as the envelope was scanned. An
// error that is known already stays the error.
func (s *scanner) identify(m *Message, env *Object) {
	if method, ok := env.find(fieldMethod); ok {
		m.Method = s.method(int(method.value), int(method.end))
	}
	if id, ok := env.find(fieldID); ok && string(env.Raw(fieldID)) != "null" {
		m.ID = s.id(int(id.value), int(id.end))
	}
}

func (s *scanner) method(i, end int) string {
	token := s.data[i:end]
	if token[0] != '"' {
		s.invalid(i, "member \"method\" is "+kindOf(token), "send a string")
		return ""
	}
	if hasHalfPair(token) {
		s.fail(CodeParseError, i, "member \"method\" has half a surrogate pair", "send both halves")
		return ""
	}
	name := token[1 : len(token)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = unescape(nil, name)
	}
	return methodName(name)
}
