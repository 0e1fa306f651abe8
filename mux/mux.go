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

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Mux serves what was added to it. The zero value is empty and ready. Its methods may
// be called concurrently, and items come and go while it serves; its fields are set
// before that.
type Mux struct {
	// Name, Title and Version are who the server says that it is. Without a name it
	// does not say.
	Name, Title, Version string

	// Instructions are for the model, on how to use what there is.
	Instructions string

	// HasTools, HasResources and HasPrompts say of what kinds there will be something
	// later: a client learns at its beginning what kinds there are, and does not ask for
	// others. What is there by then, or was there once, needs no word.
	HasTools, HasResources, HasPrompts bool

	// Fixed says that nothing changes once the Mux serves: clients are not told to
	// listen for changes, and Add, Remove and Updated fail from then on.
	Fixed bool

	// PageSize is how many items a list has before its client is to ask for more.
	// Zero is all of them.
	PageSize int

	// TTL is how long clients may keep a list before they ask again. Zero is not at all.
	TTL time.Duration

	// TaskTTL is how long a task is there from its beginning on. One that has not
	// ended by then is cancelled. Zero is DefaultTaskTTL.
	TaskTTL time.Duration

	// StateKeys seal what a client keeps for a function that waits for input by
	// Call.Input. Each has at least 32 bytes. The first one seals and all of them
	// open; servers that share them serve each other's. None is a random one.
	StateKeys [][]byte

	// Logger is told of tasks whose function has panicked, or failed by an error that
	// nobody foresaw. It may be nil. Of calls that are no tasks, whoever serves the Mux is
	// told.
	Logger *slog.Logger

	catalog atomic.Pointer[catalog] // replaced whole, by whoever holds mu
	box     lazyBox
	ears    ears
	tasks   taskBook

	mu sync.Mutex
}

// DefaultTaskTTL is longer than a person is away from a question, and an end.
const DefaultTaskTTL = time.Hour

// New returns a Mux of items. It panics where one of them is not right, which is a
// mistake of the program.
func New(items ...Item) *Mux {
	m := new(Mux)
	m.MustAdd(items...)
	return m
}

// MustAdd is Add for items that the program itself has written: it panics where one of
// them is not right.
func (m *Mux) MustAdd(items ...Item) {
	if err := m.Add(items...); err != nil {
		panic(err) //nolint:forbidigo // a mistake of the program, as the comment says
	}
}

// Serve answers one request, and makes a Mux an [mcp.Handler]. It calls the function
// that the request is for, and no other, in this goroutine. A caller may be nil where
// the function says and asks nothing.
func (m *Mux) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	c := m.serving()
	has := m.has(c)
	switch req.Method {
	case "server/discover":
		return m.discover(c)
	case "subscriptions/listen":
		return m.listen(ctx, req, caller)
	case "tools/list", "tools/call":
		if has.tools {
			return m.serveTools(ctx, req, caller)
		}
	case "resources/list", "resources/templates/list", "resources/read":
		if has.resources {
			return m.serveResources(ctx, req, caller)
		}
	case "prompts/list", "prompts/get":
		if has.prompts {
			return m.servePrompts(ctx, req, caller)
		}
	case "completion/complete":
		if c.completes {
			return m.complete(ctx, req, caller)
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

// Close cancels what runs as a task, and returns when that has ended. Tasks that have
// ended are forgotten, and no more are begun. It may be called again.
func (m *Mux) Close() error {
	m.tasks.close()
	return nil
}

// has returns the lists that there are.
func (m *Mux) has(c *catalog) lists {
	return lists{
		tools:     c.tools.known || m.HasTools,
		resources: c.resources.known || c.templates.known || m.HasResources,
		prompts:   c.prompts.known || m.HasPrompts,
	}
}

// implementation is how the server names itself.
type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// discovered is the result of server/discover, of which the edge of older revisions
// makes that of initialize.
type discovered struct {
	Versions     []mcp.Version  `json:"supportedVersions"`
	Capabilities jsontext.Value `json:"capabilities"`
	Instructions string         `json:"instructions,omitempty"`
	Meta         *discoveredBy  `json:"_meta,omitempty"`
}

type discoveredBy struct {
	Server implementation `json:"io.modelcontextprotocol/serverInfo"`
}

func (m *Mux) discover(c *catalog) (*mcp.Result, error) {
	d := discovered{Versions: mcp.ModernVersions(), Capabilities: c.capabilities(m.has(c), m.Fixed), Instructions: m.Instructions}
	if m.Name != "" {
		d.Meta = &discoveredBy{implementation{m.Name, m.Title, m.Version}}
	}
	return result(d)
}

// result encodes v in one way only: the same request has the same bytes for an answer.
func result(v any) (*mcp.Result, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}
