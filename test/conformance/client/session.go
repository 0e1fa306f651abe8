// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// session is one user at one server.
type session struct {
	server *client.Client
	// self is what the server is told of us with each request, or in the handshake.
	self *mcp.Peer
	// scope is how long a server with sessions has one for us. What such a server
	// asks outside of any request reaches the user through it.
	scope *mcp.Scope
	user  user
	// given is the context of the scenario, or empty.
	given string
}

// connect returns a session in the revision, or, where none is named, in whatever the
// server speaks. Nothing is sent before the first request.
func connect(url string, revision mcp.Version, given string) *session {
	return &session{
		server: client.NewHTTP(url, client.Config{
			Name:    "conformance",
			Version: revision,
			Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
		}),
		self: &mcp.Peer{
			Version:      mcp.LatestModern,
			Info:         []byte(`{"name":"signalbox-conformance-client","version":"1.0.0"}`),
			Capabilities: []byte(`{"elicitation":{"form":{}},"extensions":{"` + skillsExtension + `":{}}}`),
		},
		scope: mcp.NewScope("user", user{}),
		given: given,
	}
}

// close ends the session at the server, if there is one, and what belongs to it.
func (s *session) close() {
	s.scope.End()
	s.server.Close()
}

// request sends a request and returns its result. Params may be anything that is
// encoded as an object, or nil.
func (s *session) request(ctx context.Context, method string, params any) (*mcp.Result, error) {
	var raw []byte
	if params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return nil, err
		}
	}
	req, err := mcp.NewRequest(method, raw)
	if err != nil {
		return nil, err
	}
	req.Client, req.Scope = s.self, s.scope
	res, err := s.server.Serve(ctx, req, s.user)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return res, nil
}

// item is one tool, resource or prompt of a list.
type item struct {
	Name        string          `json:"name"`
	URI         string          `json:"uri"`         // of a resource
	InputSchema json.RawMessage `json:"inputSchema"` // of a tool, as the server wrote it
}

// maxPages bounds the pages of one list: a server that gives a cursor with each
// would otherwise be asked for ever.
const maxPages = 100

// list returns all items of a list.
func (s *session) list(ctx context.Context, method string, f mcp.Field) ([]item, error) {
	var all []item
	var params any
	for range maxPages {
		res, err := s.request(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var page []item
		if err := json.Unmarshal(res.Raw(f), &page); err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		all = append(all, page...)
		// A cursor is whatever the server says, the empty text included.
		next, ok := res.Text(mcp.FieldNextCursor)
		if !ok {
			return all, nil
		}
		params = map[string]string{"cursor": next}
	}
	return nil, fmt.Errorf("%s: more than %d pages", method, maxPages)
}

// tools returns the tools that can be called. One whose x-mcp-header annotations
// are not valid is left out: nobody could tell the server what it asks for
// (2026-07-28, server/tools, "x-mcp-header").
func (s *session) tools(ctx context.Context) ([]item, error) {
	all, err := s.list(ctx, "tools/list", mcp.FieldTools)
	var usable []item
	for _, tool := range all {
		if _, err := mcp.ParamHeaders(tool.InputSchema); err != nil {
			fmt.Fprintf(os.Stderr, "client: the tool %q is left out: %v\n", tool.Name, err)
			continue
		}
		usable = append(usable, tool)
	}
	return usable, err
}

// errTool is a failure that a tool reports in a result.
var errTool = errors.New("the tool reported an error")

// call calls a tool.
func (s *session) call(ctx context.Context, name string, arguments any) error {
	res, err := s.request(ctx, "tools/call", map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return err
	}
	if failed, _ := res.Bool(mcp.FieldIsError); failed {
		return fmt.Errorf("%s: %w: %s", name, errTool, res.Raw(mcp.FieldContent))
	}
	return nil
}
