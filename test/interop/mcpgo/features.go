// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// feature is one feature to test.
type feature struct {
	name string
	run  func(context.Context) error
}

// features returns the server's features, in the order of the table.
func (s *session) features(p server) []feature {
	lists := map[string][]string{"tools": p.Tools, "resources": p.Resources, "templates": p.Templates, "prompts": p.Prompts}
	var all []feature
	for _, kind := range []string{"tools", "resources", "templates", "prompts"} {
		if lists[kind] != nil {
			all = append(all, feature{kind, s.wantListed(kind, lists[kind])})
		}
	}
	offer := func(name string, c *call, run func(*call) func(context.Context) error) {
		if c != nil {
			all = append(all, feature{name, run(c)})
		}
	}
	offer("call", p.Call, s.wantCall)
	offer("progress", p.Progress, s.tryProgress)
	offer("log", p.Log, s.tryLog)
	offer("get", p.Get, s.tryGet)
	offer("elicit", p.Elicit, s.wantCall)
	offer("sample", p.Sample, s.wantCall)
	offer("roots", p.Roots, s.wantCall)
	offer("several", p.Several, s.wantCall)
	offer("kinds", p.Kinds, s.tryKinds)
	offer("structured", p.Structured, s.tryStructured)
	if p.Complete != nil {
		all = append(all, feature{"complete", s.tryComplete(p.Complete)})
	}
	if p.Read != nil {
		all = append(all, feature{"read", s.tryRead(p.Read)})
	}
	if p.Caps != nil {
		all = append(all, feature{"caps", s.tryCaps(p.Caps)})
	}
	if p.Instruct != "" {
		all = append(all, feature{"instruct", func(context.Context) error { return includes(s.instructions, p.Instruct) }})
	}
	if p.Changes != nil {
		all = append(all, feature{"changes", s.tryChanges(p.Changes)})
	}
	return all
}

// progressAttempts is how often progress is tested. Steps may be missing by chance: of those that
// a client has not read, the newest remains.
const progressAttempts = 5

// tryProgress expects every step of a call that has a token.
func (s *session) tryProgress(c *call) func(context.Context) error {
	return func(ctx context.Context) error {
		var err error
		for attempt := range progressAttempts {
			if err = s.wantSteps(ctx, c, fmt.Sprintf("progress of %s, %d", c.Name, attempt)); !errors.Is(err, errNotHeard) {
				return err
			}
		}
		return err
	}
}

// stepsPatience is how long the steps of a call that has ended may take.
const stepsPatience = 2 * time.Second

func (s *session) wantSteps(ctx context.Context, c *call, token string) error {
	got, err := s.callText(ctx, c, token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepsPatience)
	defer cancel()
	err = s.wantHeard(ctx, "notifications/progress", c.Steps, func(params string) bool { return strings.Contains(params, token) })
	if err != nil {
		return err
	}
	return includes(got, c.Want)
}

func (s *session) tryLog(c *call) func(context.Context) error {
	return func(ctx context.Context) error {
		req := mcp.SetLevelRequest{}
		req.Params.Level = mcp.LoggingLevelDebug
		if err := s.client.SetLevel(ctx, req); err != nil {
			return err
		}
		if _, err := s.callText(ctx, c, nil); err != nil {
			return err
		}
		err := s.wantHeard(ctx, "notifications/message", 1, func(params string) bool { return strings.Contains(params, c.Want) })
		if err != nil || c.Stop == nil {
			return err
		}
		_, err = s.callText(ctx, c.Stop, nil)
		return err
	}
}

func (s *session) tryGet(c *call) func(context.Context) error {
	return func(ctx context.Context) error {
		req := mcp.GetPromptRequest{}
		req.Params.Name, req.Params.Arguments = c.Name, make(map[string]string)
		for k, v := range c.Arguments {
			req.Params.Arguments[k] = fmt.Sprint(v)
		}
		res, err := s.client.GetPrompt(ctx, req)
		if err != nil {
			return err
		}
		if len(res.Messages) == 0 {
			return errors.New("no messages")
		}
		text, ok := res.Messages[0].Content.(mcp.TextContent)
		if !ok {
			return fmt.Errorf("content is a %T", res.Messages[0].Content)
		}
		return includes(text.Text, c.Want)
	}
}

// tryKinds expects each kind of content, in order.
func (s *session) tryKinds(c *call) func(context.Context) error {
	return func(ctx context.Context) error {
		res, err := s.callTool(ctx, c, nil)
		if err != nil {
			return err
		}
		content, err := json.Marshal(res.Content)
		if err != nil {
			return err
		}
		var parts []struct{ Type string }
		if err := json.Unmarshal(content, &parts); err != nil {
			return err
		}
		var kinds []string
		for _, part := range parts {
			kinds = append(kinds, part.Type)
		}
		return includes(strings.Join(kinds, " "), c.Want)
	}
}

func (s *session) tryStructured(c *call) func(context.Context) error {
	return func(ctx context.Context) error {
		res, err := s.callTool(ctx, c, nil)
		if err != nil {
			return err
		}
		got, err := json.Marshal(res.StructuredContent)
		if err != nil {
			return err
		}
		return includes(string(got), c.Want)
	}
}

func (s *session) tryComplete(all []complete) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, c := range all {
			req := mcp.CompleteRequest{}
			req.Params.Ref = mcp.PromptReference{Type: c.Ref.Type, Name: c.Ref.Name}
			if c.Ref.URI != "" {
				req.Params.Ref = mcp.ResourceReference{Type: c.Ref.Type, URI: c.Ref.URI}
			}
			req.Params.Argument = mcp.CompleteArgument{Name: c.Argument.Name, Value: c.Argument.Value}
			res, err := s.client.Complete(ctx, req)
			if err != nil {
				return err
			}
			if err := includesAll(res.Completion.Values, []string{c.Value}); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *session) tryRead(all []read) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, r := range all {
			req := mcp.ReadResourceRequest{}
			req.Params.URI = r.URI
			res, err := s.client.ReadResource(ctx, req)
			if err != nil {
				return err
			}
			got, err := json.Marshal(res.Contents)
			if err != nil {
				return err
			}
			if err := includes(string(got), r.Text); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *session) tryCaps(want []string) func(context.Context) error {
	return func(context.Context) error {
		data, err := json.Marshal(s.client.GetServerCapabilities())
		if err != nil {
			return err
		}
		var declared map[string]any
		if err := json.Unmarshal(data, &declared); err != nil {
			return err
		}
		var names []string
		for name := range declared {
			names = append(names, name)
		}
		return includesAll(names, want)
	}
}

// tryChanges expects a notice for each change, and the change in the list that is fetched
// after a notice. Other clients of the same server cause notices, too.
func (s *session) tryChanges(c *change) func(context.Context) error {
	return func(ctx context.Context) error {
		stop, err := s.listen(ctx, c.Kind)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer stop()
		if err := s.wantChange(ctx, c, &c.Add, true); err != nil {
			return fmt.Errorf("add: %w", err)
		}
		if c.Remove == nil {
			return nil
		}
		if err := s.wantChange(ctx, c, c.Remove, false); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
		return nil
	}
}

func anything(string) bool { return true }

// listen subscribes to the changes, in the modern era, and waits for the acknowledgement.
func (s *session) listen(ctx context.Context, kind string) (stop func(), err error) {
	if s.job.Era == "legacy" {
		return func() {}, nil
	}
	stop, err = s.client.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: kind == "tools", ResourcesListChanged: kind == "resources"}, nil)
	if err != nil {
		return nil, err
	}
	if err := s.wantHeard(ctx, "notifications/subscriptions/acknowledged", 1, anything); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func (s *session) wantChange(ctx context.Context, c *change, step *call, present bool) error {
	method := "notifications/" + c.Kind + "/list_changed"
	seen := s.count(method, anything)
	if err := s.wantCall(step)(ctx); err != nil {
		return err
	}
	for {
		if err := s.wantHeard(ctx, method, seen+1, anything); err != nil {
			return err
		}
		seen = s.count(method, anything)
		list, err := s.listed(ctx, c.Kind)
		if err != nil {
			return err
		}
		if slices.Contains(list, c.Item) == present {
			break
		}
	}
	if !present || c.Use == nil {
		return nil
	}
	return s.wantCall(c.Use)(ctx)
}
