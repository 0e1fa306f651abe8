// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/browser"
)

// user receives the server's requests and notifications. This one accepts everything and
// changes nothing. It signs in wherever it is sent.
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

func (user) ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	if req.Method != "elicitation/create" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "cannot answer %q", req.Method)
	}
	var form struct {
		Mode   string `json:"mode"`
		URL    string `json:"url"`
		Schema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"` // sent unmodified
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(req.Params.Bytes(), &form); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "invalid form")
	}
	if form.Mode == "url" {
		return open(ctx, form.URL)
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

// open opens a URL in a browser and signs in there. The answer is to cancel if the pages end with
// an error.
func open(ctx context.Context, url string) (*mcp.Result, error) {
	action := "accept"
	page, err := browser.New("user").SignIn(ctx, url)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "client:", err)
		action = "cancel"
	case page.Status != http.StatusOK:
		fmt.Fprintf(os.Stderr, "client: %s: %d %s\n", page.URL.Redacted(), page.Status, page.Body)
		action = "cancel"
	}
	return mcp.NewResult([]byte(`{"action":"` + action + `"}`))
}
