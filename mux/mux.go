// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Mux serves the items that were added to it. The zero value is empty and ready to
// use. Its methods may be called concurrently, and items may be added and removed while
// it serves. Its fields must be set before.
type Mux struct {
	// Name, Title and Version describe the server to clients. They are omitted if Name
	// is empty.
	Name, Title, Version string

	// Instructions explain to the model how to use the items.
	Instructions string

	// HasTools, HasResources and HasPrompts declare kinds of items that are added
	// later: clients learn at their start which kinds there are, and do not ask for
	// others. They are not needed for kinds that have or once had items.
	HasTools, HasResources, HasPrompts bool

	// Fixed specifies that items never change while the Mux serves: clients do not
	// listen for changes, and Add, Remove and Updated fail from the first request on.
	Fixed bool

	// PageSize is the maximal number of items in a page of a list. Zero means no limit.
	PageSize int

	// TTL is how long clients may cache a list. Zero means not at all.
	TTL time.Duration

	// TaskTTL is how long a task is kept, from its start. A task that is still running
	// is cancelled. Zero means DefaultTaskTTL.
	TaskTTL time.Duration

	// StateKeys seal the state that a client keeps for a function that waits for
	// Call.Input. Each has at least 32 bytes. The first one seals and all of them open,
	// so servers that share keys accept each other's states. Without keys a random one
	// is used.
	StateKeys [][]byte

	// Logger logs tasks that panicked or failed with an unexpected error. It may be
	// nil. Errors and panics of other calls reach the caller of Serve.
	Logger *slog.Logger

	catalog atomic.Pointer[catalog] // replaced as a whole, with mu held
	box     lazyBox
	feed    listen.Feed
	tasks   taskStore

	mu sync.Mutex
}

// DefaultTaskTTL is longer than a user usually takes to answer a question.
const DefaultTaskTTL = time.Hour

// New returns a Mux with the given items. It panics if one of them is invalid.
func New(items ...Item) *Mux {
	m := new(Mux)
	m.MustAdd(items...)
	return m
}

// MustAdd is like Add but panics if an item is invalid. It is for items that are part
// of the program.
func (m *Mux) MustAdd(items ...Item) {
	if err := m.Add(items...); err != nil {
		panic(err) //nolint:forbidigo // documented: a mistake in the program
	}
}

// Serve serves one request; it implements [mcp.Handler]. It calls the function for the
// request in the calling goroutine. The caller may be nil if the function does not send
// anything to the client.
func (m *Mux) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	c := m.serving()
	has := m.has(c)
	switch req.Method {
	case "server/discover":
		return m.discover(c)
	case "subscriptions/listen":
		return m.listen(ctx, req, caller)
	case "tools/list", "tools/call":
		if has&listen.Tools != 0 {
			return m.serveTools(ctx, c, req, caller)
		}
	case "resources/list", "resources/templates/list", "resources/read":
		if has&listen.Resources != 0 {
			return m.serveResources(ctx, c, req, caller)
		}
	case "prompts/list", "prompts/get":
		if has&listen.Prompts != 0 {
			return m.servePrompts(ctx, c, req, caller)
		}
	case "completion/complete":
		if c.completes {
			return c.complete(ctx, req)
		}
	case "tasks/get", "tasks/update", "tasks/cancel":
		if c.runsTasks {
			return m.serveTasks(req)
		}
	}
	if strings.HasPrefix(req.Method, "notifications/") {
		return nil, nil //nolint:nilnil // which is the terminal of a notification
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method %q", req.Method)
}

// Close cancels the running tasks and waits until they have ended. It forgets ended
// tasks, and no new ones can start. It may be called again.
func (m *Mux) Close() error {
	m.tasks.close()
	return nil
}

// has returns the kinds of lists that the Mux has.
func (m *Mux) has(c *catalog) listen.Lists {
	return listen.Filter{
		Tools:     c.tools.everUsed || m.HasTools,
		Resources: c.resources.everUsed || c.templates.everUsed || m.HasResources,
		Prompts:   c.prompts.everUsed || m.HasPrompts,
	}.Lists()
}

// implementation is the server's description of itself.
type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// discoverResult is the result of server/discover, from which the legacy edge makes the
// result of initialize.
type discoverResult struct {
	Versions     []mcp.Version             `json:"supportedVersions"`
	Capabilities jsontext.Value            `json:"capabilities"`
	Instructions string                    `json:"instructions,omitempty"`
	Meta         map[string]implementation `json:"_meta,omitempty"`
}

func (m *Mux) discover(c *catalog) (*mcp.Result, error) {
	d := discoverResult{Versions: mcp.ModernVersions(), Capabilities: c.capabilities(m.has(c), m.Fixed), Instructions: m.Instructions}
	if m.Name != "" {
		d.Meta = map[string]implementation{"io.modelcontextprotocol/serverInfo": {m.Name, m.Title, m.Version}}
	}
	return result(d)
}

// result encodes v deterministically: equal requests get equal bytes.
func result(v any) (*mcp.Result, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}
