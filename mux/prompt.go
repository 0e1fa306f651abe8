// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Prompt is a text for a model that a user picks and fills in.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
	Icons       JSON       `json:"icons,omitzero"` // an array, or empty
	Meta        JSON       `json:"_meta,omitzero"` // an object, or empty

	// Get returns the messages of the prompt. It is called concurrently, with all
	// required arguments present.
	Get func(ctx context.Context, call *Call) ([]Message, error) `json:"-"`
}

// An Argument is one that the user fills in.
type Argument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitzero"`

	// Complete may be nil.
	Complete Completer `json:"-"`
}

// Message is one message of a prompt.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// User returns a message with the role user.
func User(c Content) Message { return Message{"user", c} }

// Assistant returns a message with the role assistant.
func Assistant(c Content) Message { return Message{"assistant", c} }

func (p Prompt) put(c *catalog) error {
	if p.Get == nil {
		return fmt.Errorf("mux: prompt %q has no Get", p.Name)
	}
	if err := check(jsonField{"icons", p.Icons, anArray}, jsonField{"_meta", p.Meta, anObject}); err != nil {
		return fmt.Errorf("mux: prompt %q: %w", p.Name, err)
	}
	c.changed |= listen.Prompts
	return c.prompts.put("prompt", p.Name, p)
}

func (p Prompt) drop(c *catalog) { c.changed |= c.prompts.drop(p.Name, listen.Prompts) }

func (m *Mux) servePrompts(ctx context.Context, c *catalog, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if req.Method == "prompts/list" {
		return page(m, req, "prompts", &c.prompts)
	}
	name, _ := req.Params.Text(mcp.FieldName)
	p, ok := c.prompts.get(name)
	if !ok {
		return nil, invalid("unknown prompt: %q", name)
	}
	call := &Call{Request: req, Caller: caller, mux: m}
	messages, err := p.fill(ctx, call)
	if err != nil {
		return call.fail("prompt "+name, err)
	}
	return result(struct {
		Messages []Message `json:"messages"`
	}{messages})
}

// fill calls Get after checking the arguments: "Missing required arguments" are an
// invalid parameter (2026-07-28, server/prompts, "Error Handling").
func (p *Prompt) fill(ctx context.Context, call *Call) ([]Message, error) {
	if err := call.Bind(&map[string]string{}); err != nil {
		return nil, err // the arguments of a prompt are strings
	}
	var needed []string
	for _, a := range p.Arguments {
		if a.Required {
			needed = append(needed, a.Name)
		}
	}
	if err := call.checkRequired(needed); err != nil {
		return nil, err
	}
	return p.Get(ctx, call)
}
