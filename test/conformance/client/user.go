// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// user is who the server's questions reach, and its notifications. This one agrees
// with everything and changes nothing.
type user struct{}

// Notify drops the notification.
func (user) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask fills in a form. A modern server has asked in a result and an earlier one in
// a request of its own: package client makes one of both.
func (user) Ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	if req.Method != "elicitation/create" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "nobody answers %q", req.Method)
	}
	var form struct {
		Schema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"` // sent as it was written
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(req.Params.Bytes(), &form); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "the form cannot be read")
	}
	// "Clients that support defaults SHOULD pre-populate form fields with these
	// values." (2025-11-25, client/elicitation, "Default Values")
	content := make(map[string]json.RawMessage)
	for name, field := range form.Schema.Properties {
		if field.Default != nil {
			content[name] = field.Default
		}
	}
	answer, err := json.Marshal(map[string]any{"action": "accept", "content": content})
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(answer)
}
