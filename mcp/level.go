// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// level is one of the objects whose members are interpreted. In these, and only
// in these, a member that stands twice is refused. A client's capabilities are among
// them as a whole, because they are judged here and passed on as they came. In what lies below them (the
// arguments of a tool, the content of a result) nothing is judged but syntax,
// because it is forwarded and somebody else's to read.
type level uint8

const (
	levelEnvelope level = iota
	levelParams
	levelResult
	levelError
	levelRef       // of params
	levelResultRef // of a result, which has no such thing, or of who knows what
	levelMeta
	levelCapabilities // of a client, and the objects inside of it
)

// fields returns the first field of a level and the one behind its last.
func (l level) fields() (first, behind Field) {
	switch l {
	case levelEnvelope:
		return fieldJSONRPC, fieldCode
	case levelParams, levelResult:
		return FieldName, FieldRefType
	case levelError:
		return fieldCode, endFields
	case levelRef, levelResultRef:
		return FieldRefType, MetaProgressToken
	case levelCapabilities:
		return FieldNone, FieldNone
	default:
		return MetaProgressToken, numFields
	}
}

// field returns the field that a member's name is at this level. Comparing with
// each is quick, because hardly any other has the same length; and a message has
// few members at the levels that are interpreted.
func (l level) field(name []byte) Field {
	first, behind := l.fields()
	for f := first; f < behind; f++ {
		if len(fieldKeys[f]) == len(name) && fieldKeys[f] == string(name) {
			return f
		}
	}
	return FieldNone
}

// sub returns the level of a member's value, if that is interpreted in turn.
func (l level) sub(f Field) (level, bool) {
	switch {
	case l == levelCapabilities,
		f == FieldCapabilities && l == levelParams,
		f == MetaClientCapabilities:
		return levelCapabilities, true
	case f == fieldParams:
		return levelParams, true
	case f == fieldResult:
		return levelResult, true
	case f == fieldError:
		return levelError, true
	case f == FieldMeta:
		return levelMeta, true
	case f == FieldRef && l == levelParams:
		return levelRef, true
	case f == FieldRef:
		return levelResultRef, true
	default:
		return 0, false
	}
}

// variantOf returns the field whose name a member's name differs from by letter
// case alone, at the levels that route a message: there "Name" beside "name" is
// how two readers of one message are made to disagree. It is called for names
// that are no field's.
func (l level) variantOf(name []byte) Field {
	if l != levelEnvelope && l != levelParams && l != levelRef {
		return FieldNone
	}
	initial, _ := foldOne(name)
	first, behind := l.fields()
	for f := first; f < behind; f++ {
		// Most names begin with another letter, which takes no call to see.
		if key := fieldKeys[f]; initial == lower(key[0]) && foldsTo(name, key) {
			return f
		}
	}
	return FieldNone
}

// foldsTo reports whether name equals the ASCII word when letter case is
// ignored, as a reader would that compares with Unicode's simple folding: there
// U+017F is an s and U+212A is a k.
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
