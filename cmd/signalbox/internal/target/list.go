// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// List is one of the lists of an MCP server.
type List struct {
	method, Key string // the request, and the member of its result with the items
	Noun        string
	Name        func(Item) string // what call, read or get takes
}

// Item has the members of the items of all lists that are shown.
type Item struct {
	Name        string `json:"name"`        // of a tool or a prompt; a mere label of a resource
	URI         string `json:"uri"`         // of a resource
	URITemplate string `json:"uriTemplate"` // of a template
	Title       string `json:"title"`       // for people; shown if there is no description
	Description string `json:"description"` // written for models, and often long
}

func byName(it Item) string { return it.Name }

// ToolList returns the list of tools, which AwaitBackends uses, too.
func ToolList() List {
	return List{"tools/list", "tools", "tool", byName}
}

// PromptList returns the list of prompts.
func PromptList() List {
	return List{"prompts/list", "prompts", "prompt", byName}
}

// ResourceList returns the list of resources.
func ResourceList() List {
	return List{"resources/list", "resources", "resource", func(it Item) string { return it.URI }}
}

// TemplateList returns the list of resource templates.
func TemplateList() List {
	return List{"resources/templates/list", "resourceTemplates", "resource template", func(it Item) string { return it.URITemplate }}
}

const maxPages = 1000

// Fetch returns all items. A server that does not have the method has none.
func (l List) Fetch(ctx context.Context, t mcp.Handler) ([]jsontext.Value, error) {
	var all []jsontext.Value
	var cursor []byte
	// Repeated cursors are not detected: a server may use the same one for different
	// pages, and maxPages ends a loop.
	for range maxPages {
		page, next, err := l.page(ctx, t, cursor)
		if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if cursor = next; cursor == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("the list did not end after %d pages", maxPages)
}

// page fetches the page at a cursor, and returns the cursor of the next one, or nil.
// Cursors are JSON strings, passed unmodified.
func (l List) page(ctx context.Context, t mcp.Handler, cursor []byte) (items []jsontext.Value, next []byte, err error) {
	params := []byte("{}")
	if cursor != nil {
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	req, err := NewRequest(l.method, params)
	if err != nil {
		return nil, nil, err
	}
	res, err := t.Serve(ctx, req, NoCaller{})
	if err != nil {
		return nil, nil, err
	}
	var members map[string]jsontext.Value
	if err := control.Decode(res.Bytes(), &members); err != nil {
		return nil, nil, fmt.Errorf("cannot decode the response: %w", err)
	}
	if err := control.Decode(members[l.Key], &items); err != nil {
		return nil, nil, fmt.Errorf("member %q of the response is not a list: %w", l.Key, err)
	}
	// Only a string is a cursor. Some servers send null on the last page.
	if _, ok := res.Text(mcp.FieldNextCursor); ok {
		next = res.Raw(mcp.FieldNextCursor)
	}
	return items, next, nil
}

// summaryLength is how much of a description is shown beside the name.
const summaryLength = 100

// Summary returns the description, or else the title, for one line of a table.
func (it Item) Summary() string {
	text := it.Description
	if text == "" {
		text = it.Title
	}
	return output.Shorten(output.VisibleLine(text), summaryLength)
}

// NoCaller is the mcp.Caller of a request without notifications and questions.
type NoCaller struct{}

// Notify does nothing.
func (NoCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Start fails, so that a server that asks during a list does not wait for an answer.
func (NoCaller) Start(_ context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the command line cannot answer %s during this request", req.Method)
}

// Extension returns none.
func (NoCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// AwaitLists waits until the lists of all backends are known, or have failed.
func (t *Target) AwaitLists(ctx context.Context) error {
	for _, l := range []List{ToolList(), PromptList(), ResourceList(), TemplateList()} {
		req, err := NewRequest(l.method, []byte("{}"))
		if err != nil {
			return err
		}
		req.Client.Capabilities = nil // the lists for all clients
		if _, err := t.Serve(ctx, req, NoCaller{}); err != nil {
			return err
		}
	}
	return nil
}

// Explain explains a name once the lists of all backends are known, or have failed: the
// first page of each list waits for the backends.
func (t *Target) Explain(ctx context.Context, name string) (*signalbox.Explanation, error) {
	t.Status = nil // without warnings: the explanation has those about the name
	if err := t.AwaitLists(ctx); err != nil {
		return nil, err
	}
	return t.Gateway.Explain(name, t.Profile), nil
}
