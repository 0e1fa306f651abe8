// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// run reads the whole message and writes its result.
func (f *flow) run() {
	var i int
	if isSpace(f.s.at(0)) {
		i = f.skip(0)
	} else {
		i = f.s.begin()
	}
	if i >= 0 && f.s.at(i) != '{' {
		i = f.s.syntax(i, "an object")
	}
	if i >= 0 {
		i = f.object(i, 0, levelEnvelope)
	}
	if i >= 0 {
		i = f.skip(i)
	}
	if i < 0 || f.s.end(i) < 0 {
		return
	}
	for _, field := range [...]Field{fieldJSONRPC, fieldID, fieldResult} {
		if f.seen>>field&1 == 0 {
			f.s.invalid(i, `member "`+field.Key()+`" is missing`, "send it")
		}
	}
}

// object reads an object with interpreted members and omits those to be dropped. A
// member is written with the comma before it, because only then it is known whether one
// is needed. The comma is held until the member's name is known.
func (f *flow) object(i, depth int, l level) int {
	if depth >= f.s.depth {
		return f.s.tooDeep(i)
	}
	i++
	live, some := f.writing, false // some: a member has been written or will be
	if live && l == levelResult && len(f.front) > 0 {
		f.write(i)
		f.put(f.front)
		some = true
	}
	seen := names{copies: true}
	for first := true; ; first = false {
		f.holdFrom = i
		if !first {
			i++
		}
		if i = f.skip(i); i < 0 {
			return failed
		}
		if first && f.s.at(i) == '}' {
			f.holdFrom = none
			return i + 1
		}
		start, value := f.key(i)
		if value < 0 {
			return failed
		}
		field := f.s.name(start, l, &seen)
		if f.checkAllowed(start, field); f.s.err != nil {
			return failed
		}
		dropped := f.drop>>field&1 != 0
		switch {
		case !live:
			f.startBeside(l, field)
		case dropped:
			f.write(f.holdFrom)
			f.writing = false
		case first == some:
			f.write(f.holdFrom)
			f.fixComma(first)
			some = true
		default:
			some = true
		}
		f.holdFrom = none
		if i = f.member(value, depth+1, l, field); i >= 0 {
			i = f.skip(i)
		}
		if i < 0 {
			return failed
		}
		if dropped && live {
			f.writing, f.from = true, i
		}
		switch f.s.at(i) {
		case ',':
		case '}':
			return i + 1
		default:
			return f.s.syntax(i, "',' or '}' after a member")
		}
	}
}

// startBeside starts to write a member of the envelope that JSON-RPC does not define.
// Before the result there cannot be one: see scanEnvelopeHead.
func (f *flow) startBeside(l level, field Field) {
	if l == levelEnvelope && field == FieldNone && f.seen>>fieldResult&1 != 0 {
		f.writing, f.from = true, f.holdFrom
	}
}

// checkAllowed fails at a member that is not allowed here.
func (f *flow) checkAllowed(start int, field Field) {
	switch {
	case field == fieldMethod, field == fieldParams, field == fieldError:
		f.s.invalid(start, `the message has a result and the member "`+field.Key()+`"`, "send only one of them")
	case f.refuse>>field&1 != 0:
		f.s.invalid(start, `the member "`+field.Key()+`" comes too late in the result`, "send it first")
	}
	f.seen |= 1 << field
}

// fixComma corrects the comma before a member that is the first written but not the
// first read, or the other way round.
func (f *flow) fixComma(first bool) {
	if first {
		f.put([]byte{','})
		return
	}
	f.from++
}

// member reads the value of a member and, at an interpreted level, its members.
func (f *flow) member(i, depth int, l level, field Field) int {
	c := f.s.at(i)
	sub, ok := l.sub(field)
	switch {
	case l == levelEnvelope && field == FieldNone:
		if i = f.value(i, depth); i >= 0 {
			f.write(i)
			f.writing = false
		}
		return i
	case field == fieldResult && c == '{':
		f.writing, f.from = true, i
		if i = f.object(i, depth, sub); i >= 0 {
			f.write(i)
			f.writing = false
		}
		return i
	case ok && c == '{':
		return f.object(i, depth, sub)
	case field == fieldResult:
		return f.s.invalid(i, `member "result" is not an object`, "send an object")
	case f.isChecked(field, c):
		start, end := f.token(i, c)
		if end < 0 || !f.checkValue(field, start, end) {
			return failed
		}
		return end
	case field == fieldID, field == fieldJSONRPC, field == FieldResultType && f.complete:
		return f.s.invalid(i, "member "+quoted([]byte(field.Key()))+" is "+kindOf(f.data[i:]), "send a string")
	case field != FieldNone && field == f.wrap && c != '{':
		return f.wrapped(i, depth)
	default:
		return f.value(i, depth)
	}
}

// wrapping is written before a value that is wrapped in an object.
const wrapping = `{"result":`

// wrapped reads a value and writes it as the only member of an object.
func (f *flow) wrapped(i, depth int) int {
	f.write(i)
	if f.writing {
		f.put([]byte(wrapping))
	}
	if i = f.value(i, depth); i < 0 {
		return failed
	}
	f.write(i)
	if f.writing {
		f.put([]byte{'}'})
	}
	return i
}

// isChecked reports whether the value of the member, with first byte c, is checked.
func (f *flow) isChecked(field Field, c byte) bool {
	switch field {
	case fieldID, fieldJSONRPC:
		return c != '{' && c != '['
	case FieldResultType:
		return f.complete && c != '{' && c != '['
	case FieldIsError:
		return c == 't' || c == 'f'
	default:
		return false
	}
}

// checkValue checks the value of a member, from start to end, and reports whether it is
// valid.
func (f *flow) checkValue(field Field, start, end int) bool {
	value := f.data[start:end]
	switch field {
	case fieldID:
		if id := f.s.id(start, end); !f.id.IsZero() && id != f.id && f.s.err == nil {
			f.s.invalid(start, "the id is not the request's", "send the request's id")
		}
	case fieldJSONRPC:
		if !is20(value) {
			f.s.invalid(start, `member "jsonrpc" is not "2.0"`, `send "jsonrpc":"2.0"`)
		}
	case FieldResultType:
		if text, ok := decodeText(value); !ok || text != ResultComplete {
			f.s.invalid(start, `member "resultType" is not "complete"`, "send it first")
		}
	default:
		f.summary = append(append([]byte(`{"isError":`), value...), '}')
	}
	return f.s.err == nil
}
