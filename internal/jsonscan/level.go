// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

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
	initial, _ := foldOne(name)
	first, behind := l.fields()
	for f := first; f < behind; f++ {
		// Most names have another first letter, which needs no call.
		if key := fieldKeys[f]; initial == lower(key[0]) && foldsTo(name, key) {
			return f
		}
	}
	return FieldNone
}

// foldsTo reports whether name equals the ASCII word under Unicode simple case folding,
// where U+017F is an s and U+212A is a k.
func foldsTo(name []byte, word string) bool {
	for i := range len(word) {
		c, n := foldOne(name)
		if n == 0 || c != lower(word[i]) {
			return false
		}
		name = name[n:]
	}
	return len(name) == 0
}

func foldOne(b []byte) (folded byte, size int) {
	switch {
	case len(b) == 0:
		return 0, 0
	case b[0] < 0x80:
		return lower(b[0]), 1
	case len(b) >= 2 && b[0] == 0xC5 && b[1] == 0xBF:
		return 's', 2
	case len(b) >= 3 && b[0] == 0xE2 && b[1] == 0x84 && b[2] == 0xAA:
		return 'k', 3
	default:
		return 0, 0
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
