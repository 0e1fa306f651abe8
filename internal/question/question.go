// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package question checks requests from the server side to a client
// (elicitation/create, sampling/createMessage, roots/list) against the client's
// declared capabilities, and checks the form of the answers. Every request to a client
// must be checked first: undeclared requests must not be sent, and invalid answers must
// not be accepted.
package question

import (
	"encoding/json"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// clientCapabilities is the part of a client's capabilities that decides which requests
// it accepts. Pointers, because a capability is declared by its presence: {} is usually
// its complete declaration.
type clientCapabilities struct {
	Roots    *struct{}
	Sampling *struct {
		Tools *struct{} `json:"tools"`
	}
	Elicitation *struct {
		Form *struct{} `json:"form"`
		URL  *struct{} `json:"url"`
	}
}

// capabilitiesOf reads a client's capabilities, whether its revision defines them or
// not. A capability that is not an object counts as undeclared, and does not affect
// others.
func capabilitiesOf(raw []byte) clientCapabilities {
	var caps clientCapabilities
	for name, value := range jsonscan.Members(raw) {
		switch name {
		case "roots":
			declare(&caps.Roots, value)
		case "sampling":
			declare(&caps.Sampling, value)
		case "elicitation":
			declare(&caps.Elicitation, value)
		}
	}
	return caps
}

func declare[T any](capability **T, value []byte) {
	if json.Unmarshal(value, capability) != nil {
		*capability = nil
	}
}

// Missing returns the capabilities that a client must declare in addition to receive
// the request, as the JSON text of a capabilities object, or "". It reports false for a
// method that is never sent to clients (2025-11-25, basic/lifecycle, "Operation";
// 2026-07-28, basic/patterns/mrtr, "Server Requirements").
func Missing(capabilities []byte, req *mcp.Request) (missing string, known bool) {
	caps := capabilitiesOf(capabilities)
	switch req.Method {
	case "roots/list":
		if caps.Roots == nil {
			missing = `{"roots":{}}`
		}
	case "sampling/createMessage":
		missing = missingSampling(&caps, req)
	case "elicitation/create":
		missing = missingElicitation(&caps, req)
	default:
		return "", false
	}
	return missing, true
}

// Undeclared returns the error for a request that needs the capabilities returned by
// Missing.
func Undeclared(method, missing string) *mcp.Error {
	return &mcp.Error{
		Code:    mcp.CodeMissingCapability,
		Message: "the client did not declare what " + method + " needs: " + missing,
		Data:    json.RawMessage(`{"requiredCapabilities":` + missing + `}`),
	}
}

// missingSampling checks sampling requests: tools need their own capability, because a
// client without it would drop them silently (2025-11-25, client/sampling,
// "Capabilities").
func missingSampling(caps *clientCapabilities, req *mcp.Request) string {
	switch {
	// All missing capabilities in one error.
	case req.Params.Has(mcp.FieldTools) && (caps.Sampling == nil || caps.Sampling.Tools == nil):
		return `{"sampling":{"tools":{}}}`
	case caps.Sampling == nil:
		return `{"sampling":{}}`
	default:
		return ""
	}
}

// missingElicitation checks elicitation requests: an empty declaration means forms
// (2025-11-25, client/elicitation, "Capabilities").
func missingElicitation(caps *clientCapabilities, req *mcp.Request) string {
	mode, _ := req.Params.Text(mcp.FieldMode)
	e := caps.Elicitation
	switch {
	case mode == "url" && (e == nil || e.URL == nil):
		return `{"elicitation":{"url":{}}}`
	case mode != "url" && (e == nil || e.Form == nil && e.URL != nil):
		return `{"elicitation":{"form":{}}}`
	default:
		return ""
	}
}
