// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package confirm asks a user whether a call may be sent to its server.
//
// [Call.Question] is an elicitation/create in form mode without fields, in which all that comes
// from the server or the model is shown as it is: characters that a screen does not show, or that
// change the order of others, are spelled out, and secrets of the configuration are removed.
//
// A call with which the user has agreed may end with a request for more input, by the server or for a
// sign-in, and the client then sends it again. [Agreed] knows such calls.
package confirm
