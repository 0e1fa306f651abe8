// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// pollInterval is the interval of checks for notifications, and of retries with a server
// that does not report when it is ready.
const pollInterval = 50 * time.Millisecond

// session is a session of this SDK, with the notifications that it has received.
type session struct {
	job    job
	client *client.Client
	// instructions are the instructions of the server.
	instructions string

	mu    sync.Mutex
	heard []mcp.JSONRPCNotification
}

func newSession(j job) (*session, error) {
	s := &session{job: j}
	link, err := s.transport()
	if err != nil {
		return nil, err
	}
	options := []client.ClientOption{
		client.WithElicitationHandler(s), client.WithSamplingHandler(s), client.WithRootsHandler(s),
	}
	if j.Era == "legacy" {
		options = append(options, client.WithLegacyProtocolOnly()) //nolint:staticcheck // the test is about the legacy era
	}
	s.client = client.NewClient(link, options...)
	return s, nil
}

func (s *session) transport() (transport.Interface, error) {
	t := s.job.Target
	if t.URL == "" {
		return transport.NewStdioWithOptions(t.Command, nil, t.Args, transport.WithCommandStderrWriter(io.Discard)), nil
	}
	// In the legacy era, unrelated messages of the server arrive on a GET stream.
	var options []transport.StreamableHTTPCOption
	if s.job.Era == "legacy" {
		options = append(options, transport.WithContinuousListening()) //nolint:staticcheck // as above
	}
	if t.Token != "" {
		options = append(options, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + t.Token}))
	}
	return transport.NewStreamableHTTP(t.URL, options...)
}

func (s *session) connect(ctx context.Context) error {
	s.client.OnNotification(func(n mcp.JSONRPCNotification) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard = append(s.heard, n)
	})
	if err := s.client.Start(ctx); err != nil {
		return err
	}
	req := mcp.InitializeRequest{}
	req.Params.ProtocolVersion = s.job.Version
	req.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1.0.0"}
	said, err := s.client.Initialize(ctx, req)
	if err != nil {
		return err
	}
	s.instructions = said.Instructions
	if got := s.client.ProtocolVersion(); got != s.job.Version {
		return fmt.Errorf("negotiated %s, want %s", got, s.job.Version)
	}
	// Some servers answer server/discover, and nothing else of the modern era.
	_, err = s.client.ListToolsByPage(ctx, mcp.ListToolsRequest{})
	return err
}

// Elicit implements [client.ElicitationHandler].
func (s *session) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": s.job.Answers.Name},
	}}, nil
}

// CreateMessage implements [client.SamplingHandler].
func (s *session) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{Model: "none", SamplingMessage: mcp.SamplingMessage{
		Role: mcp.RoleAssistant, Content: mcp.NewTextContent(s.job.Answers.Sample),
	}}, nil
}

// ListRoots implements [client.RootsHandler].
func (s *session) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: s.job.Answers.Root, Name: "root"}}}, nil
}

// listed returns the whole list of a kind: the SDK follows the cursors.
func (s *session) listed(ctx context.Context, kind string) (names []string, err error) {
	switch kind {
	case "tools":
		res, err := s.client.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return nil, err
		}
		for _, t := range res.Tools {
			names = append(names, t.Name)
		}
	case "resources":
		res, err := s.client.ListResources(ctx, mcp.ListResourcesRequest{})
		if err != nil {
			return nil, err
		}
		for _, r := range res.Resources {
			names = append(names, r.URI)
		}
	case "templates":
		res, err := s.client.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
		if err != nil {
			return nil, err
		}
		for _, t := range res.ResourceTemplates {
			names = append(names, t.URITemplate.Raw())
		}
	case "prompts":
		res, err := s.client.ListPrompts(ctx, mcp.ListPromptsRequest{})
		if err != nil {
			return nil, err
		}
		for _, p := range res.Prompts {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

func (s *session) wantListed(kind string, want []string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := s.listed(ctx, kind)
		if err != nil {
			return err
		}
		return includesAll(got, want)
	}
}

// callTool calls a tool, and requests progress if a token is given.
func (s *session) callTool(ctx context.Context, c *call, token any) (*mcp.CallToolResult, error) {
	req := mcp.CallToolRequest{}
	req.Params.Name = c.Name
	if c.Arguments != nil {
		req.Params.Arguments = c.Arguments
	}
	if token != nil {
		req.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	return s.client.CallTool(ctx, req)
}

// callText returns the text of a tool's result.
func (s *session) callText(ctx context.Context, c *call, token any) (string, error) {
	res, err := s.callTool(ctx, c, token)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, part := range res.Content {
		if t, ok := part.(mcp.TextContent); ok {
			text.WriteString(t.Text + "\n")
		}
	}
	if res.IsError {
		return "", fmt.Errorf("tool error: %s", text.String())
	}
	return text.String(), nil
}

func (s *session) wantCall(c *call) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.until(ctx, c.Eventually, func() error {
			got, err := s.callText(ctx, c, nil)
			if err != nil {
				return err
			}
			return includes(got, c.Want)
		})
	}
}

// until retries a failing try until ctx ends, if again is set.
func (s *session) until(ctx context.Context, again bool, try func() error) error {
	for {
		err := try()
		if err == nil || !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollInterval):
		}
	}
}

var errNotHeard = errors.New("no such notification")

// wantHeard waits for n notifications of a method that match.
func (s *session) wantHeard(ctx context.Context, method string, n int, matches func(params string) bool) error {
	return s.until(ctx, true, func() error {
		if s.count(method, matches) < n {
			return fmt.Errorf("%w: %s", errNotHeard, method)
		}
		return nil
	})
}

func (s *session) count(method string, matches func(params string) bool) int {
	s.mu.Lock()
	heard := slices.Clone(s.heard)
	s.mu.Unlock()
	n := 0
	for _, h := range heard {
		params, err := json.Marshal(h.Params)
		if h.Method == method && err == nil && matches(string(params)) {
			n++
		}
	}
	return n
}
