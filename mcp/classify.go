// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// classify determines the kind of the message from its scanned envelope. start is the
// offset of the envelope, which errors about absent members point to.
//
// A member of another kind makes the message invalid, because a reader that looks for
// that member first would take the message for the other kind: a call with a result
// beside its method would be a call to one reader and an answer to the next. Members of
// no kind are forwarded: see [Object.Beside].
func (p *parser) classify(m *Message, env *jsonscan.Object, start int) {
	p.checkVersion(env, start)
	switch {
	case p.Err != nil:
	case env.Present(jsonscan.FieldMethod):
		p.classifyCall(m, env)
	case env.Present(jsonscan.FieldResult) && env.Present(jsonscan.FieldError):
		p.Invalid(env.Offset(jsonscan.FieldError), "the message has a result and an error", "send only one of them")
	case env.Present(jsonscan.FieldParams):
		p.Invalid(env.Offset(jsonscan.FieldParams), "the message has params and no method", "name the method")
	case env.Present(jsonscan.FieldResult):
		p.classifyResult(m, env, start)
	case env.Present(jsonscan.FieldError):
		p.classifyError(m, env)
	default:
		p.Invalid(start, "the message has no method, no result and no error", "send one of them")
	}
}

// checkVersion requires JSON-RPC 2.0: in 1.0 the same members have other meanings.
func (p *parser) checkVersion(env *jsonscan.Object, start int) {
	switch raw := env.Raw(jsonscan.FieldJSONRPC); {
	case jsonscan.IsVersion2(raw):
	case env.Present(jsonscan.FieldJSONRPC):
		p.Invalid(env.Offset(jsonscan.FieldJSONRPC), `member "jsonrpc" is not "2.0"`, `send "jsonrpc":"2.0"`)
	default:
		p.Invalid(start, `member "jsonrpc" is missing`, `send "jsonrpc":"2.0"`)
	}
}

// classifyCall distinguishes requests from notifications by the presence of an id. A
// null id is invalid in both.
func (p *parser) classifyCall(m *Message, env *jsonscan.Object) {
	switch {
	case env.Present(jsonscan.FieldResult):
		p.Invalid(env.Offset(jsonscan.FieldResult), "the message has a method and a result", "send only one of them")
	case env.Present(jsonscan.FieldError):
		p.Invalid(env.Offset(jsonscan.FieldError), "the message has a method and an error", "send only one of them")
	case env.Present(jsonscan.FieldID) && m.ID.IsZero():
		p.id(env) // null, which identify does not read
	case env.Present(jsonscan.FieldParams) && !env.IsObject(jsonscan.FieldParams):
		p.Invalid(env.Offset(jsonscan.FieldParams), `member "params" is `+jsonscan.KindOf(env.Raw(jsonscan.FieldParams)),
			"send an object, or leave the member out")
	case m.ID.IsZero():
		m.Kind = KindNotification
	default:
		m.Kind = KindRequest
	}
	m.Params.scanned = p.Body(env, jsonscan.FieldParams)
}

// classifyResult requires an id: a result without one answers no request.
func (p *parser) classifyResult(m *Message, env *jsonscan.Object, start int) {
	switch {
	case !env.Present(jsonscan.FieldID):
		p.Invalid(start, "the message has a result and no id", "send the id of the request")
	case m.ID.IsZero():
		p.id(env)
	case !env.IsObject(jsonscan.FieldResult):
		p.Invalid(env.Offset(jsonscan.FieldResult), `member "result" is `+jsonscan.KindOf(env.Raw(jsonscan.FieldResult)), "send an object")
	default:
		m.Kind = KindResult
		m.Result.scanned = p.Body(env, jsonscan.FieldResult)
	}
}

// classifyError accepts an absent or null id, which a peer sends if it could not read
// the id.
func (p *parser) classifyError(m *Message, env *jsonscan.Object) {
	if !env.IsObject(jsonscan.FieldError) {
		p.Invalid(env.Offset(jsonscan.FieldError), `member "error" is `+jsonscan.KindOf(env.Raw(jsonscan.FieldError)), "send an object")
		return
	}
	m.Kind = KindError
	m.Error = env.Raw(jsonscan.FieldError)
	m.beside = p.Beside()
}

// salvageID looks for the id of a rejected message by counting brackets only, so that
// the sender of an envelope that is nested too deeply, for example, gets an answer. It
// returns the zero ID if there are two candidates, and is as fast as the scan that
// failed.
func salvageID(data []byte) ID {
	var found ID
	p := parser{jsonscan.NewScanner(data, jsonscan.Limits{})}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end, _ := p.Text(i)
			if end < 0 {
				return found
			}
			id, ok := p.salvage(i, end, depth)
			if ok && !found.IsZero() {
				return ID{}
			}
			if ok {
				found = id
			}
			i = end - 1
		}
	}
	return found
}

// salvage returns the id if the string from i to end is its name.
func (p *parser) salvage(i, end, depth int) (ID, bool) {
	if depth != 1 {
		return ID{}, false
	}
	name, ok := jsonscan.DecodeText(p.Data[i:end])
	value := p.Space(end)
	if !ok || name != "id" || p.At(value) != ':' {
		return ID{}, false
	}
	value = p.Space(value + 1)
	if c := p.At(value); c != '"' && c != '-' && (c < '0' || c > '9') {
		return ID{}, false
	}
	inner := jsonscan.NewScanner(p.Data, jsonscan.Limits{})
	end = inner.Value(value, 0)
	if end < 0 {
		return ID{}, false
	}
	token := inner.ID(value, end)
	if token == nil {
		return ID{}, false
	}
	return newID(token), true
}
