// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

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
	p := parser{jsonscan.NewScanner(data, jsonscan.Limits(lim))}
	p.envelope(&m)
	if p.Err == nil {
		return m, nil
	}
	if !p.Err.Malformed {
		m.ID = salvageID(data)
	}
	return Message{Raw: data, ID: m.ID, Method: m.Method}, parseError(p.Err)
}

// parser reads one message.
type parser struct{ jsonscan.Scanner }

func (p *parser) envelope(m *Message) {
	i := p.Begin()
	if i < 0 {
		return
	}
	if p.Data[i] != '{' {
		if end := p.Value(i, 0); p.End(end) >= 0 {
			p.Invalid(i, "the message is "+jsonscan.KindOf(p.Data[i:end]), "send one JSON object")
		}
		return
	}
	var env jsonscan.Object
	end := p.Envelope(i, &env)
	if p.identify(m, &env); p.Err == nil && p.End(end) >= 0 {
		p.classify(m, &env, i)
	}
}

// identify reads the method and the id, as far as the envelope was scanned. An earlier
// error is kept.
func (p *parser) identify(m *Message, env *jsonscan.Object) {
	if env.Present(jsonscan.FieldMethod) {
		m.Method = p.method(env.Offset(jsonscan.FieldMethod), env.End(jsonscan.FieldMethod))
	}
	if env.Present(jsonscan.FieldID) && string(env.Raw(jsonscan.FieldID)) != "null" {
		m.ID = p.id(env)
	}
}

// id reads the id. It returns the zero ID for an invalid one, which is an error.
func (p *parser) id(env *jsonscan.Object) ID {
	if token := p.ID(env.Offset(jsonscan.FieldID), env.End(jsonscan.FieldID)); token != nil {
		return newID(token)
	}
	return ID{}
}

func (p *parser) method(i, end int) string {
	token := p.Data[i:end]
	if token[0] != '"' {
		p.Invalid(i, "member \"method\" is "+jsonscan.KindOf(token), "send a string")
		return ""
	}
	if jsonscan.HasHalfPair(token) {
		p.Malformed(i, "member \"method\" has an unpaired surrogate", "send both halves of the pair")
		return ""
	}
	name := token[1 : len(token)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsonscan.Unescape(nil, name)
	}
	return methodName(name)
}
