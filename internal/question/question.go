// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package question knows what a client can be asked (elicitation/create,
// sampling/createMessage, roots/list), by what it has declared, and what is an
// answer. Whoever asks looks here first: what is not declared must not be asked,
// and what is no answer must not be taken for one.
package question

import (
	"encoding/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// clientCapabilities is what of a client's capabilities decides what it can be
// asked. Pointers, because a capability is declared by being there: {} says all
// that can be said of most.
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

// capabilitiesOf reads what a client has declared, whether its revision names it or
// not. A capability of another form than an object is not declared, and costs no other.
func capabilitiesOf(raw []byte) clientCapabilities {
	var caps clientCapabilities
	for name, value := range mcp.Members(raw) {
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

// Missing returns what a client of these capabilities would have to declare besides,
// to be asked, as the JSON text of a capabilities object; "" is nothing. It reports
// false for a method that no client can be asked for (2025-11-25, basic/lifecycle,
// "Operation"; 2026-07-28, basic/patterns/mrtr, "Server Requirements").
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

// Undeclared is the error for a request that needs what Missing has returned.
func Undeclared(method, missing string) *mcp.Error {
	return &mcp.Error{
		Code:    mcp.CodeMissingCapability,
		Message: "the client did not declare what " + method + " needs: " + missing,
		Data:    json.RawMessage(`{"requiredCapabilities":` + missing + `}`),
	}
}

// missingSampling: tools in a sampling request are a capability of their own,
// and a client that does not know of them would leave them out silently
// (2025-11-25, client/sampling, "Capabilities").
func missingSampling(caps *clientCapabilities, req *mcp.Request) string {
	switch {
	// All that is missing at once, so that a client need not be told twice.
	case req.Params.Has(mcp.FieldTools) && (caps.Sampling == nil || caps.Sampling.Tools == nil):
		return `{"sampling":{"tools":{}}}`
	case caps.Sampling == nil:
		return `{"sampling":{}}`
	default:
		return ""
	}
}

// missingElicitation: an empty declaration means forms (2025-11-25,
// client/elicitation, "Capabilities").
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
