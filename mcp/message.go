// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "bytes"

// Kind is the kind of a message.
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

// A Message is one JSON-RPC message: the bytes that arrived and the positions of its
// parts in them. It is immutable.
type Message struct {
	// Raw is the text that arrived, including unknown members of the envelope.
	Raw  []byte
	Kind Kind

	// ID is the zero value for a notification, and for an error without a readable id.
	ID     ID
	Method string // of requests and notifications
	Params Object // of requests and notifications; zero where absent
	Result Result // of results; keeping it keeps the message
	Error  []byte // of errors: the error object's JSON text; see WireError

	beside []byte // of errors: see Object.Beside
}

// Parse parses one message. It keeps data, which must not be changed afterwards.
//
// Parse is strict wherever two readers could read differently. It accepts one RFC 8259
// text in valid UTF-8 with an envelope that is exactly one of request, notification,
// result and error. At the levels that Signalbox reads (the envelope; the top of
// params, result and error; params.ref; _meta) duplicate members are rejected, however
// they are escaped. On the way to the members that route a message (the envelope,
// params, params.ref) a known name in another letter case is rejected too. Deeper
// levels are forwarded without further checks.
//
// The error is a [*ParseError]. The ID and the Method are returned with it as far as
// they could be read, so that an answer can be addressed. The ID is found even after
// the position of an error that leaves the text readable. It is zero if there are two.
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

// identify reads the method and the id, as far as the envelope was scanned. An earlier
// error is kept.
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
		s.fail(CodeParseError, i, "member \"method\" has an unpaired surrogate", "send both halves of the pair")
		return ""
	}
	name := token[1 : len(token)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = unescape(nil, name)
	}
	return methodName(name)
}
