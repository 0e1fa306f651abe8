// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// user receives the server's requests and notifications. This one accepts everything and
// changes nothing.
type user struct{}

// Notify drops the notification.
func (user) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask fills in a form. Modern servers ask in a result, earlier ones in a request; package
// client unifies both.
func (c user) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return c.ask(ctx, req) }, nil
}

// Extension returns one that can do nothing.
func (user) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (user) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	if req.Method != "elicitation/create" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "cannot answer %q", req.Method)
	}
	var form struct {
		Schema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"` // sent unmodified
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(req.Params.Bytes(), &form); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "invalid form")
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
