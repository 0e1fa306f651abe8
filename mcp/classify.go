// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// classify determines the kind of the message from its scanned envelope. start is the
// offset of the envelope, which errors about absent members point to.
//
// A member of another kind makes the message invalid, because a reader that looks for
// that member first would take the message for the other kind: a call with a result
// beside its method would be a call to one reader and an answer to the next. Members of
// no kind are forwarded: see [Object.Beside].
func (s *scanner) classify(m *Message, env *Object, start int) {
	s.checkVersion(env, start)
	switch {
	case s.err != nil:
	case env.present(fieldMethod):
		s.classifyCall(m, env)
	case env.present(fieldResult) && env.present(fieldError):
		s.invalid(env.offset(fieldError), "the message has a result and an error", "send only one of them")
	case env.present(fieldParams):
		s.invalid(env.offset(fieldParams), "the message has params and no method", "name the method")
	case env.present(fieldResult):
		s.classifyResult(m, env, start)
	case env.present(fieldError):
		s.classifyError(m, env)
	default:
		s.invalid(start, "the message has no method, no result and no error", "send one of them")
	}
}

// checkVersion requires JSON-RPC 2.0: in 1.0 the same members have other meanings.
func (s *scanner) checkVersion(env *Object, start int) {
	switch raw := env.Raw(fieldJSONRPC); {
	case string(raw) == `"2.0"`, is20(raw):
	case env.present(fieldJSONRPC):
		s.invalid(env.offset(fieldJSONRPC), `member "jsonrpc" is not "2.0"`, `send "jsonrpc":"2.0"`)
	default:
		s.invalid(start, `member "jsonrpc" is missing`, `send "jsonrpc":"2.0"`)
	}
}

// is20 accepts the version with escapes too, which is unusual but valid.
func is20(raw []byte) bool {
	v, ok := decodeText(raw)
	return ok && v == "2.0"
}

// classifyCall distinguishes requests from notifications by the presence of an id. A
// null id is invalid in both.
func (s *scanner) classifyCall(m *Message, env *Object) {
	switch {
	case env.present(fieldResult):
		s.invalid(env.offset(fieldResult), "the message has a method and a result", "send only one of them")
	case env.present(fieldError):
		s.invalid(env.offset(fieldError), "the message has a method and an error", "send only one of them")
	case env.present(fieldID) && m.ID.IsZero():
		s.id(env.offset(fieldID), env.end(fieldID)) // null, which identify does not read
	case env.present(fieldParams) && !env.isObject(fieldParams):
		s.invalid(env.offset(fieldParams), `member "params" is `+kindOf(env.Raw(fieldParams)),
			"send an object, or leave the member out")
	case m.ID.IsZero():
		m.Kind = KindNotification
	default:
		m.Kind = KindRequest
	}
	if raw := env.Raw(fieldParams); raw != nil {
		m.Params = s.body
		m.Params.raw = raw
	}
	m.Params.beside = s.besidePtr()
}

// besidePtr returns the members beside the params or the result, or nil.
func (s *scanner) besidePtr() *[]byte {
	if s.beside == nil {
		return nil
	}
	beside := s.beside
	return &beside
}

// classifyResult requires an id: a result without one answers no request.
func (s *scanner) classifyResult(m *Message, env *Object, start int) {
	switch {
	case !env.present(fieldID):
		s.invalid(start, "the message has a result and no id", "send the id of the request")
	case m.ID.IsZero():
		s.id(env.offset(fieldID), env.end(fieldID))
	case !env.isObject(fieldResult):
		s.invalid(env.offset(fieldResult), `member "result" is `+kindOf(env.Raw(fieldResult)), "send an object")
	default:
		m.Kind = KindResult
		m.Result.Object = s.body
		m.Result.raw = env.Raw(fieldResult)
		m.Result.beside = s.besidePtr()
	}
}

// classifyError accepts an absent or null id, which a peer sends if it could not read
// the id.
func (s *scanner) classifyError(m *Message, env *Object) {
	if !env.isObject(fieldError) {
		s.invalid(env.offset(fieldError), `member "error" is `+kindOf(env.Raw(fieldError)), "send an object")
		return
	}
	m.Kind = KindError
	m.Error = env.Raw(fieldError)
	m.beside = s.beside
}

// present, offset, end and isObject are for members of the envelope too, unlike Has.
func (o *Object) present(f Field) bool { return o.has>>f&1 != 0 }

// offset returns the position for an error about the member.
func (o *Object) offset(f Field) int {
	m, _ := o.find(f)
	return int(m.value)
}

func (o *Object) end(f Field) int {
	m, _ := o.find(f)
	return int(m.end)
}

func (o *Object) isObject(f Field) bool {
	raw := o.Raw(f)
	return len(raw) > 0 && raw[0] == '{'
}

// salvageID looks for the id of a rejected message by counting brackets only, so that
// the sender of an envelope that is nested too deeply, for example, gets an answer. It
// returns the zero ID if there are two candidates, and is as fast as the scan that
// failed.
func salvageID(data []byte) ID {
	var found ID
	s := newScanner(data, Limits{})
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end, _ := s.text(i)
			if end < 0 {
				return found
			}
			id, ok := s.salvage(i, end, depth)
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
func (s *scanner) salvage(i, end, depth int) (ID, bool) {
	if depth != 1 {
		return ID{}, false
	}
	name, ok := decodeText(s.data[i:end])
	value := s.space(end)
	if !ok || name != "id" || s.at(value) != ':' {
		return ID{}, false
	}
	value = s.space(value + 1)
	if c := s.at(value); c != '"' && c != '-' && (c < '0' || c > '9') {
		return ID{}, false
	}
	inner := newScanner(s.data, Limits{})
	end = inner.value(value, 0)
	if end < 0 {
		return ID{}, false
	}
	id := inner.id(value, end)
	return id, !id.IsZero()
}
