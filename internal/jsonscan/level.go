// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"unicode/utf8"
)

// Level is an object with members that are interpreted. Duplicate members are
// rejected at these levels only. All objects inside a client's capabilities belong to
// them, because capabilities are checked here and passed on unmodified. Below the
// levels (the arguments of a tool, the content of a result) only the syntax is checked,
// because the text is forwarded for others to read.
type Level uint8

// The levels.
const (
	LevelEnvelope Level = iota
	LevelParams
	LevelResult
	LevelError
	LevelRef       // of params
	LevelResultRef // of a result, where the protocol does not define it
	LevelMeta
	LevelCapabilities // of a client, and the objects inside it
)

// fields returns the first field of a level and the one after its last.
func (l Level) fields() (first, behind Field) {
	switch l {
	case LevelEnvelope:
		return FieldJSONRPC, FieldCode
	case LevelParams, LevelResult:
		return FieldName, FieldRefType
	case LevelError:
		return FieldCode, endFields
	case LevelRef, LevelResultRef:
		return FieldRefType, MetaProgressToken
	case LevelCapabilities:
		return FieldNone, FieldNone
	default:
		return MetaProgressToken, numFields
	}
}

// field returns the field with the given name at this level. Comparing with each is
// fast, because hardly any others have the same length and messages have few members at
// these levels.
func (l Level) field(name []byte) Field {
	first, behind := l.fields()
	for f := first; f < behind; f++ {
		if len(fieldKeys[f]) == len(name) && fieldKeys[f] == string(name) {
			return f
		}
	}
	return FieldNone
}

// sub returns the level of a member's value, if the value is interpreted too.
func (l Level) sub(f Field) (Level, bool) {
	switch {
	case l == LevelCapabilities,
		f == FieldCapabilities && l == LevelParams,
		f == MetaClientCapabilities:
		return LevelCapabilities, true
	case f == FieldParams:
		return LevelParams, true
	case f == FieldResult:
		return LevelResult, true
	case f == FieldError:
		return LevelError, true
	case f == FieldMeta:
		return LevelMeta, true
	case f == FieldRef && l == LevelParams:
		return LevelRef, true
	case f == FieldRef:
		return LevelResultRef, true
	default:
		return 0, false
	}
}

// caseVariant returns the field with a name that differs from the given one in letter
// case only, at the levels that route a message: "Name" beside "name" would make two
// readers of one message disagree. It is called for names that are not a field's.
func (l Level) caseVariant(name []byte) Field {
	if l != LevelEnvelope && l != LevelParams && l != LevelRef {
		return FieldNone
	}
	if len(name) == 0 {
		return FieldNone
	}
	first, behind := l.fields()
	for f := first; f < behind; f++ {
		// Most names have another first letter, which needs no call.
		key := fieldKeys[f]
		if (name[0] >= utf8.RuneSelf || name[0]|0x20 == key[0]|0x20) && bytes.EqualFold(name, []byte(key)) {
			return f
		}
	}
	return FieldNone
}
