// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Tool is something that a model can have done.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	// InputSchema describes the arguments, which are an object; none is one of
	// anything. A call without an argument that it requires does not reach Call, whose
	// model is told. The rest of it is shown and not enforced: Bind holds the arguments
	// against the types of Go, and Call checks what it relies on beyond that. Arguments
	// that it annotates by x-mcp-header are held against the headers of the request.
	InputSchema JSON `json:"inputSchema"`
	// OutputSchema describes Result.Structured. It is for Call to keep to it.
	OutputSchema JSON `json:"outputSchema,omitzero"`
	Annotations  JSON `json:"annotations,omitzero"` // an object, or nothing
	Icons        JSON `json:"icons,omitzero"`       // an array, or nothing
	Meta         JSON `json:"_meta,omitzero"`       // an object, or nothing

	// Task says whether Call goes on in the background, by Call.Background.
	Task TaskSupport `json:"execution,omitzero"`

	// Call does it. It is called concurrently. Its context ends when the client takes
	// the call back or has gone for good. Result nil is one without content; see the
	// package documentation for errors, and for a panic.
	Call func(ctx context.Context, call *Call) (*Result, error) `json:"-"`

	headers  []mcp.ParamHeader
	required []string
}

// TaskSupport says whether a tool runs as a task.
type TaskSupport string

// What a tool says of tasks.
const (
	TaskNever    TaskSupport = ""         // never
	TaskOptional TaskSupport = "optional" // for clients that take tasks
	TaskRequired TaskSupport = "required" // and clients that do not cannot call it
)

// MarshalJSON returns it as a tool is listed.
func (t TaskSupport) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"taskSupport": string(t)})
}

func (t Tool) put(c *catalog) error {
	if t.Call == nil {
		return fmt.Errorf("mux: tool %q has no Call", t.Name)
	}
	if t.InputSchema == "" {
		t.InputSchema = `{"type":"object"}`
	}
	if err := t.read(); err != nil {
		return fmt.Errorf("mux: tool %q: %w", t.Name, err)
	}
	c.changed.tools = true
	return c.tools.put("tool", t.Name, t)
}

// read checks what the tool shows, and keeps what is enforced of it.
func (t *Tool) read() error {
	err := check(must{"input schema", t.InputSchema, anObject}, must{"output schema", t.OutputSchema, anObject},
		must{"annotations", t.Annotations, anObject}, must{"icons", t.Icons, anArray}, must{"_meta", t.Meta, anObject})
	if err != nil {
		return err
	}
	if t.required, err = required(t.InputSchema); err != nil {
		return err
	}
	t.headers, err = mcp.ParamHeaders([]byte(t.InputSchema))
	return err
}

func (t Tool) drop(c *catalog) {
	c.changed.tools = c.tools.drop(t.Name) || c.changed.tools
}

func (m *Mux) serveTools(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	c := m.current()
	if req.Method == "tools/list" {
		return page(m, req, "tools", &c.tools)
	}
	name, _ := req.Params.Text(mcp.FieldName)
	t, ok := c.tools.get(name)
	if !ok {
		return nil, invalid("unknown tool: %q", name)
	}
	if err := mcp.CheckParamHeaders(t.headers, req.ParamHeaders, req.Params.Raw(mcp.FieldArguments)); err != nil {
		return nil, err
	}
	if t.Task == TaskRequired && !tasks.Declared(req.Client.Capabilities) {
		return nil, tasks.Missing(fmt.Sprintf("%s of %q", req.Method, name))
	}
	call := &Call{Request: req, Caller: caller, mux: m, tasks: t.Task != TaskNever}
	if err := call.checkRequired(t.required); err != nil {
		return call.conclude(nil, err)
	}
	return call.conclude(t.Call(ctx, call))
}

// conclude makes what a client is told of what a tool has answered.
func (c *Call) conclude(res *Result, err error) (*mcp.Result, error) {
	if more, ok := errors.AsType[*inputRequired](err); ok {
		return more.result(c)
	}
	if wrong, ok := errors.AsType[*complaint](err); ok {
		res, err = wrong.asResult(), nil
	}
	if err != nil {
		return nil, err
	}
	return res.wire()
}
