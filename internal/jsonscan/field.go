// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

// Field is a member with a meaning in the protocol, and its place: in the envelope, at
// the top of params or of a result, inside their ref or their _meta, or in an error
// object. The zero value is no member. Package mcp exports those of params and results.
type Field uint8

// The members at the top of params and results. The constants are untyped, so that they
// are fields of package mcp too.
const (
	FieldNone = iota

	FieldName
	FieldURI
	FieldCursor
	FieldRef
	FieldArgument
	FieldArguments
	FieldTaskID
	FieldLevel
	FieldRequestID
	FieldReason
	FieldProgressToken // of notifications/progress; a request has it in _meta
	FieldProgress
	FieldNotifications
	FieldInputResponses
	FieldRequestState
	FieldTask
	FieldProtocolVersion // of initialize
	FieldCapabilities
	FieldClientInfo
	FieldResultType
	FieldTTL // ttlMs
	FieldCacheScope
	FieldNextCursor
	FieldInputRequests
	FieldTools
	FieldResources
	FieldResourceTemplates
	FieldPrompts
	FieldSkills
	FieldSupportedVersions
	FieldServerInfo
	FieldInstructions
	FieldContent
	FieldStructuredContent
	FieldIsError
	FieldData
	FieldMode
	FieldLogger
	FieldMeta // _meta

	// The members of params.ref.
	FieldRefType
	FieldRefName
	FieldRefURI

	// The members of _meta. All but the first have the protocol's prefix on the wire;
	// see Key.
	MetaProgressToken
	MetaVersion
	MetaClientInfo
	MetaClientCapabilities
	MetaLogLevel
	MetaSubscriptionID
	MetaServerInfo
	MetaRelatedTask

	numFields
)

// The members of the envelope and of an error object.
const (
	FieldJSONRPC = numFields + iota
	FieldID
	FieldMethod
	FieldParams
	FieldResult
	FieldError
	FieldCode
	FieldMessage
	FieldErrorData

	endFields
)

// A set of fields fits into one word.
var _ [64 - int(endFields)]struct{}

// Key returns the member's name on the wire, and "" for FieldNone.
func (f Field) Key() string {
	if f < endFields {
		return fieldKeys[f]
	}
	return ""
}

// parent returns the member that contains f, or FieldNone.
func (f Field) parent() Field {
	switch {
	case f >= FieldRefType && f <= FieldRefURI:
		return FieldRef
	case f >= MetaProgressToken && f <= MetaRelatedTask:
		return FieldMeta
	default:
		return FieldNone
	}
}

// isList reports whether f is a list of tools, prompts, resources, resource templates or
// skills.
func (f Field) isList() bool { return f >= FieldTools && f <= FieldSkills }

// fieldKeys is never written to.
//
//nolint:gochecknoglobals // a function that returned it would allocate or copy it
var fieldKeys = [endFields]string{
	FieldName:              "name",
	FieldURI:               "uri",
	FieldCursor:            "cursor",
	FieldRef:               "ref",
	FieldArgument:          "argument",
	FieldArguments:         "arguments",
	FieldTaskID:            "taskId",
	FieldLevel:             "level",
	FieldRequestID:         "requestId",
	FieldReason:            "reason",
	FieldProgressToken:     "progressToken",
	FieldProgress:          "progress",
	FieldNotifications:     "notifications",
	FieldInputResponses:    "inputResponses",
	FieldRequestState:      "requestState",
	FieldTask:              "task",
	FieldProtocolVersion:   "protocolVersion",
	FieldCapabilities:      "capabilities",
	FieldClientInfo:        "clientInfo",
	FieldResultType:        "resultType",
	FieldTTL:               "ttlMs",
	FieldCacheScope:        "cacheScope",
	FieldNextCursor:        "nextCursor",
	FieldInputRequests:     "inputRequests",
	FieldTools:             "tools",
	FieldResources:         "resources",
	FieldResourceTemplates: "resourceTemplates",
	FieldPrompts:           "prompts",
	FieldSkills:            "skills",
	FieldSupportedVersions: "supportedVersions",
	FieldServerInfo:        "serverInfo",
	FieldInstructions:      "instructions",
	FieldContent:           "content",
	FieldStructuredContent: "structuredContent",
	FieldIsError:           "isError",
	FieldData:              "data",
	FieldMode:              "mode",
	FieldLogger:            "logger",
	FieldMeta:              "_meta",
	FieldRefType:           "type",
	FieldRefName:           "name",
	FieldRefURI:            "uri",
	MetaProgressToken:      "progressToken",
	MetaVersion:            "io.modelcontextprotocol/protocolVersion",
	MetaClientInfo:         "io.modelcontextprotocol/clientInfo",
	MetaClientCapabilities: "io.modelcontextprotocol/clientCapabilities",
	MetaLogLevel:           "io.modelcontextprotocol/logLevel",
	MetaSubscriptionID:     "io.modelcontextprotocol/subscriptionId",
	MetaServerInfo:         "io.modelcontextprotocol/serverInfo",
	MetaRelatedTask:        "io.modelcontextprotocol/related-task",
	FieldJSONRPC:           "jsonrpc",
	FieldID:                "id",
	FieldMethod:            "method",
	FieldParams:            "params",
	FieldResult:            "result",
	FieldError:             "error",
	FieldCode:              "code",
	FieldMessage:           "message",
	FieldErrorData:         "data",
}
