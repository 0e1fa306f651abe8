// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "bytes"

// run reads the whole message and writes its result.
func (f *flow) run() {
	var i int
	if isSpace(f.s.At(0)) {
		i = f.skip(0)
	} else {
		i = f.s.Begin()
	}
	if i >= 0 && f.s.At(i) != '{' {
		i = f.s.Syntax(i, "an object")
	}
	if i >= 0 {
		i = f.object(i, 0, LevelEnvelope)
	}
	if i >= 0 {
		i = f.skip(i)
	}
	if i < 0 || f.s.End(i) < 0 {
		return
	}
	for _, field := range [...]Field{FieldJSONRPC, FieldID, FieldResult} {
		if f.seen>>field&1 == 0 {
			f.s.Invalid(i, `member "`+field.Key()+`" is missing`, "send it")
		}
	}
}

// object reads an object with interpreted members and omits those to be dropped. A
// member is written with the comma before it, because only then it is known whether one
// is needed. The comma is held until the member's name is known.
func (f *flow) object(i, depth int, l Level) int {
	if depth >= f.s.Depth {
		return f.s.TooDeep(i)
	}
	i++
	live, some := f.writing, false // some: a member has been written or will be
	if live && l == LevelResult && len(f.front) > 0 {
		f.write(i)
		f.put(f.front)
		some = true
	}
	seen := Names{copies: true}
	for first := true; ; first = false {
		f.holdFrom = i
		if !first {
			i++
		}
		if i = f.skip(i); i < 0 {
			return Failed
		}
		if first && f.s.At(i) == '}' {
			f.holdFrom = none
			return i + 1
		}
		start, value := f.key(i)
		if value < 0 {
			return Failed
		}
		field := f.s.name(start, l, &seen)
		if f.checkAllowed(start, field); f.s.Err != nil {
			return Failed
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
			return Failed
		}
		if dropped && live {
			f.writing, f.from = true, i
		}
		switch f.s.At(i) {
		case ',':
		case '}':
			return i + 1
		default:
			return f.s.Syntax(i, "',' or '}' after a member")
		}
	}
}

// startBeside starts to write a member of the envelope that JSON-RPC does not define.
// Before the result there cannot be one: see scanEnvelopeHead.
func (f *flow) startBeside(l Level, field Field) {
	if l == LevelEnvelope && field == FieldNone && f.seen>>FieldResult&1 != 0 {
		f.writing, f.from = true, f.holdFrom
	}
}

// checkAllowed fails at a member that is not allowed here.
func (f *flow) checkAllowed(start int, field Field) {
	if field == FieldMethod || field == FieldParams || field == FieldError {
		f.s.Invalid(start, `the message has a result and the member "`+field.Key()+`"`, "send only one of them")
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
func (f *flow) member(i, depth int, l Level, field Field) int {
	c := f.s.At(i)
	sub, ok := l.sub(field)
	switch {
	case l == LevelEnvelope && field == FieldNone:
		if i = f.value(i, depth); i >= 0 {
			f.write(i)
			f.writing = false
		}
		return i
	case field == FieldResult && c == '{':
		f.writing, f.from = true, i
		if i = f.object(i, depth, sub); i >= 0 {
			f.write(i)
			f.writing = false
		}
		return i
	case ok && c == '{':
		return f.object(i, depth, sub)
	case field == FieldResult:
		return f.s.Invalid(i, `member "result" is not an object`, "send an object")
	case f.isChecked(field, c):
		start, end := f.token(i, c)
		if end < 0 || !f.checkValue(field, start, end) {
			return Failed
		}
		return end
	case field == FieldID, field == FieldJSONRPC, field == FieldResultType && f.complete:
		return f.s.Invalid(i, "member "+Quoted([]byte(field.Key()))+" is "+KindOf(f.data[i:]), "send a string")
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
		return Failed
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
	case FieldID, FieldJSONRPC:
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
	case FieldID:
		if id := f.s.ID(start, end); id != nil && len(f.id) > 0 && !bytes.Equal(id, f.id) {
			f.s.Invalid(start, "the id is not the request's", "send the request's id")
		}
	case FieldJSONRPC:
		if !IsVersion2(value) {
			f.s.Invalid(start, `member "jsonrpc" is not "2.0"`, `send "jsonrpc":"2.0"`)
		}
	case FieldResultType:
		if ResultType(value) != ResultComplete {
			f.s.Invalid(start, `member "resultType" is not "complete"`, "send it first")
		}
	default:
		f.isError = string(value)
	}
	return f.s.Err == nil
}
