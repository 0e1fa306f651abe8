// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// level is one of the objects whose members are interpreted. In these, and only
// in these, a member that stands twice is refused. In what lies below them (the
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
)

// field returns the field that a member's name is at this level. The switches
// compile to comparisons by length and need no copy of the name.
func (l level) field(name []byte) Field {
	switch l {
	case levelEnvelope:
		return envelopeField(name)
	case levelParams, levelResult:
		return topField(name)
	case levelError:
		return errorField(name)
	case levelRef, levelResultRef:
		return refField(name)
	default:
		return metaField(name)
	}
}

// sub returns the level of a member's value, if that is interpreted in turn.
func (l level) sub(f Field) (level, bool) {
	switch {
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
	lo, hi := FieldNone, FieldNone
	switch l {
	case levelEnvelope:
		lo, hi = fieldJSONRPC, fieldCode
	case levelParams:
		lo, hi = FieldName, FieldRefType
	case levelRef:
		lo, hi = FieldRefType, MetaProgressToken
	case levelResult, levelResultRef, levelError, levelMeta:
		return FieldNone
	}
	for f := lo; f < hi; f++ {
		if foldsTo(name, fieldKeys[f]) {
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

func envelopeField(name []byte) Field {
	switch string(name) {
	case "jsonrpc":
		return fieldJSONRPC
	case "id":
		return fieldID
	case "method":
		return fieldMethod
	case "params":
		return fieldParams
	case "result":
		return fieldResult
	case "error":
		return fieldError
	default:
		return FieldNone
	}
}

func errorField(name []byte) Field {
	switch string(name) {
	case "code":
		return fieldCode
	case "message":
		return fieldMessage
	case "data":
		return FieldData
	default:
		return FieldNone
	}
}

func refField(name []byte) Field {
	switch string(name) {
	case "type":
		return FieldRefType
	case "name":
		return FieldRefName
	case "uri":
		return FieldRefURI
	default:
		return FieldNone
	}
}

const metaPrefix = "io.modelcontextprotocol/"

func metaField(name []byte) Field {
	if string(name) == "progressToken" {
		return MetaProgressToken
	}
	if len(name) <= len(metaPrefix) || string(name[:len(metaPrefix)]) != metaPrefix {
		return FieldNone
	}
	switch string(name[len(metaPrefix):]) {
	case "protocolVersion":
		return MetaVersion
	case "clientInfo":
		return MetaClientInfo
	case "clientCapabilities":
		return MetaClientCapabilities
	case "logLevel":
		return MetaLogLevel
	case "subscriptionId":
		return MetaSubscriptionID
	case "serverInfo":
		return MetaServerInfo
	case "related-task":
		return MetaRelatedTask
	default:
		return FieldNone
	}
}

func topField(name []byte) Field {
	switch string(name) {
	case "name":
		return FieldName
	case "uri":
		return FieldURI
	case "cursor":
		return FieldCursor
	case "ref":
		return FieldRef
	case "argument":
		return FieldArgument
	case "arguments":
		return FieldArguments
	case "taskId":
		return FieldTaskID
	case "level":
		return FieldLevel
	case "requestId":
		return FieldRequestID
	case "reason":
		return FieldReason
	case "progressToken":
		return FieldProgressToken
	case "progress":
		return FieldProgress
	case "notifications":
		return FieldNotifications
	case "inputResponses":
		return FieldInputResponses
	case "requestState":
		return FieldRequestState
	case "task":
		return FieldTask
	case "protocolVersion":
		return FieldProtocolVersion
	case "capabilities":
		return FieldCapabilities
	case "clientInfo":
		return FieldClientInfo
	case "data":
		return FieldData
	case "mode":
		return FieldMode
	case "logger":
		return FieldLogger
	case "_meta":
		return FieldMeta
	default:
		return resultField(name)
	}
}

func resultField(name []byte) Field {
	switch string(name) {
	case "resultType":
		return FieldResultType
	case "ttlMs":
		return FieldTTL
	case "cacheScope":
		return FieldCacheScope
	case "nextCursor":
		return FieldNextCursor
	case "inputRequests":
		return FieldInputRequests
	case "tools":
		return FieldTools
	case "resources":
		return FieldResources
	case "resourceTemplates":
		return FieldResourceTemplates
	case "prompts":
		return FieldPrompts
	case "supportedVersions":
		return FieldSupportedVersions
	case "serverInfo":
		return FieldServerInfo
	case "instructions":
		return FieldInstructions
	case "content":
		return FieldContent
	case "structuredContent":
		return FieldStructuredContent
	case "isError":
		return FieldIsError
	default:
		return FieldNone
	}
}
