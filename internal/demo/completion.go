// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// complete proposes values for the one argument that both the prompt and the
// template have. An argument that exists and has no proposals is answered with
// none; a reference to something that does not exist is an error (2026-07-28,
// server/utilities/completion, "Error Handling").
func complete(req *mcp.Request) (*mcp.Result, error) {
	if !knows(req) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "there is nothing of this reference to complete")
	}
	var arg struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	if err := decode(req.Params.Raw(mcp.FieldArgument), &arg); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "the argument does not fit: %v", err)
	}
	// Not nil: the list has to be there, also when nothing fits.
	values := []string{}
	for _, g := range greetings() {
		if arg.Name == "language" && strings.HasPrefix(g.language, strings.ToLower(arg.Value)) {
			values = append(values, g.language)
		}
	}
	return result(map[string]any{"completion": map[string]any{"values": values, "total": len(values), "hasMore": false}})
}

// knows reports whether the request refers to something of the demo's.
func knows(req *mcp.Request) bool {
	kind, _ := req.Params.Text(mcp.FieldRefType)
	name, _ := req.Params.Text(mcp.FieldRefName)
	uri, _ := req.Params.Text(mcp.FieldRefURI)
	// By the kind first: a prompt and a template may have one name.
	switch kind {
	case "ref/prompt":
		return name == greetPrompt
	case "ref/resource":
		return uri == greetingTemplate
	default:
		return false
	}
}
