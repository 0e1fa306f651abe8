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
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// session is one user at one server.
type session struct {
	server *client.Client
	// self is the client information sent with each request, or in the handshake.
	self *mcp.Peer
	// scope is the lifetime of a session at a server that has sessions. Requests of such a
	// server outside of any call reach the user through it.
	scope *mcp.Scope
	user  user
	// source has the user's grants in a scenario about authorization, or is nil.
	source *grant.Source
	// given is the context of the scenario, or empty.
	given string
}

// connect returns a session in the revision, or in the server's if it is empty. Nothing is
// sent before the first request.
func connect(url string, revision mcp.Version, given string, credentials client.Credentials) *session {
	source, _ := credentials.(*grant.Source)
	elicitation := `{"form":{}}`
	if credentials != nil { // a gateway has users sign in at URLs
		elicitation = `{"form":{},"url":{}}`
	}
	return &session{
		source: source,
		server: client.NewHTTP(url, client.Config{
			Name:        "conformance",
			Version:     revision,
			Credentials: credentials,
			Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
		}),
		self: &mcp.Peer{
			Version:      mcp.LatestModern,
			Info:         []byte(`{"name":"signalbox-conformance-client","version":"1.0.0"}`),
			Capabilities: []byte(`{"elicitation":` + elicitation + `,"extensions":{"` + skillsExtension + `":{}}}`),
		},
		scope: mcp.NewScope("user", user{}),
		given: given,
	}
}

// close ends the session at the server, if there is one, and its resources.
func (s *session) close() {
	s.scope.End()
	s.server.Close()
}

// request sends a request and returns its result. Params may be anything that is encoded as
// an object, or nil.
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
	res, err := signedIn(ctx, s.source, func() (*mcp.Result, error) { return s.server.Serve(ctx, req, s.user) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return res, nil
}

// item is one tool, resource or prompt of a list.
type item struct {
	Name        string          `json:"name"`
	URI         string          `json:"uri"`         // of a resource
	InputSchema json.RawMessage `json:"inputSchema"` // of a tool, as the server sent it
}

// maxPages bounds the pages of one list: a server that sends a cursor with each page would
// otherwise be asked forever.
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
		// Any cursor is valid, including the empty text.
		next, ok := res.Text(mcp.FieldNextCursor)
		if !ok {
			return all, nil
		}
		params = map[string]string{"cursor": next}
	}
	return nil, fmt.Errorf("%s: more than %d pages", method, maxPages)
}

// tools returns the tools that can be called. A tool with invalid x-mcp-header annotations
// is left out, because its headers could not be sent (2026-07-28, server/tools,
// "x-mcp-header").
func (s *session) tools(ctx context.Context) ([]item, error) {
	all, err := s.list(ctx, "tools/list", mcp.FieldTools)
	var usable []item
	for _, tool := range all {
		if _, err := mcp.ParamHeaders(tool.InputSchema); err != nil {
			fmt.Fprintf(os.Stderr, "client: leaving out the tool %q: %v\n", tool.Name, err)
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
