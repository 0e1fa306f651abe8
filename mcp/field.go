// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// Field names a member of params or of a result that has a meaning in the protocol, and
// its place: at the top of the object, inside its ref, or inside its _meta. The zero
// value names nothing.
type Field uint8

// The members at the top of params and results.
const (
	FieldNone Field = jsonscan.FieldNone

	FieldName              Field = jsonscan.FieldName
	FieldURI               Field = jsonscan.FieldURI
	FieldCursor            Field = jsonscan.FieldCursor
	FieldRef               Field = jsonscan.FieldRef
	FieldArgument          Field = jsonscan.FieldArgument
	FieldArguments         Field = jsonscan.FieldArguments
	FieldTaskID            Field = jsonscan.FieldTaskID
	FieldLevel             Field = jsonscan.FieldLevel
	FieldRequestID         Field = jsonscan.FieldRequestID
	FieldReason            Field = jsonscan.FieldReason
	FieldProgressToken     Field = jsonscan.FieldProgressToken // of notifications/progress; a request has it in _meta
	FieldProgress          Field = jsonscan.FieldProgress
	FieldNotifications     Field = jsonscan.FieldNotifications
	FieldInputResponses    Field = jsonscan.FieldInputResponses
	FieldRequestState      Field = jsonscan.FieldRequestState
	FieldTask              Field = jsonscan.FieldTask
	FieldProtocolVersion   Field = jsonscan.FieldProtocolVersion // of initialize
	FieldCapabilities      Field = jsonscan.FieldCapabilities
	FieldClientInfo        Field = jsonscan.FieldClientInfo
	FieldResultType        Field = jsonscan.FieldResultType
	FieldTTL               Field = jsonscan.FieldTTL // ttlMs
	FieldCacheScope        Field = jsonscan.FieldCacheScope
	FieldNextCursor        Field = jsonscan.FieldNextCursor
	FieldInputRequests     Field = jsonscan.FieldInputRequests
	FieldTools             Field = jsonscan.FieldTools
	FieldResources         Field = jsonscan.FieldResources
	FieldResourceTemplates Field = jsonscan.FieldResourceTemplates
	FieldPrompts           Field = jsonscan.FieldPrompts
	FieldSkills            Field = jsonscan.FieldSkills
	FieldSupportedVersions Field = jsonscan.FieldSupportedVersions
	FieldServerInfo        Field = jsonscan.FieldServerInfo
	FieldInstructions      Field = jsonscan.FieldInstructions
	FieldContent           Field = jsonscan.FieldContent
	FieldStructuredContent Field = jsonscan.FieldStructuredContent
	FieldIsError           Field = jsonscan.FieldIsError
	FieldData              Field = jsonscan.FieldData
	FieldMode              Field = jsonscan.FieldMode
	FieldLogger            Field = jsonscan.FieldLogger
	FieldMeta              Field = jsonscan.FieldMeta // _meta

	// The members of params.ref.
	FieldRefType Field = jsonscan.FieldRefType
	FieldRefName Field = jsonscan.FieldRefName
	FieldRefURI  Field = jsonscan.FieldRefURI

	// The members of _meta. All but the first have the protocol's prefix on the wire;
	// see Key.
	MetaProgressToken      Field = jsonscan.MetaProgressToken
	MetaVersion            Field = jsonscan.MetaVersion
	MetaClientInfo         Field = jsonscan.MetaClientInfo
	MetaClientCapabilities Field = jsonscan.MetaClientCapabilities
	MetaLogLevel           Field = jsonscan.MetaLogLevel
	MetaSubscriptionID     Field = jsonscan.MetaSubscriptionID
	MetaServerInfo         Field = jsonscan.MetaServerInfo
	MetaRelatedTask        Field = jsonscan.MetaRelatedTask
)

// Key returns the member's name on the wire, and "" for FieldNone.
func (f Field) Key() string { return jsonscan.Field(f).Key() }
