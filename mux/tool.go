// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Tool is a function that a model can call.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	// InputSchema describes the arguments, which are an object; empty means any object.
	// A call without a required argument does not reach Call, and the model gets an
	// error. The rest of the schema is shown to the model but not enforced: Bind checks
	// the arguments against Go types, and Call must check everything else that it
	// relies on. Arguments annotated with x-mcp-header are compared with the headers of
	// the request.
	InputSchema JSON `json:"inputSchema"`
	// OutputSchema describes Result.Structured. It is not enforced.
	OutputSchema JSON `json:"outputSchema,omitzero"`
	Annotations  JSON `json:"annotations,omitzero"` // an object, or empty
	Icons        JSON `json:"icons,omitzero"`       // an array, or empty
	Meta         JSON `json:"_meta,omitzero"`       // an object, or empty

	// Task specifies whether Call uses Call.Background.
	Task TaskSupport `json:"execution,omitzero"`

	// Call executes the tool. It is called concurrently. Its context ends when the
	// client cancels the call or is permanently gone. A nil result has no content; see
	// the package documentation for errors and panics.
	Call func(ctx context.Context, call *Call) (*Result, error) `json:"-"`

	headers  []mcp.ParamHeader
	required []string
}

// TaskSupport specifies whether a tool runs as a task.
type TaskSupport string

// The values of TaskSupport.
const (
	TaskNever    TaskSupport = ""         // never
	TaskOptional TaskSupport = "optional" // for clients that support tasks
	TaskRequired TaskSupport = "required" // clients without tasks cannot call it
)

// MarshalJSON returns the JSON of a tool's member execution.
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
	err := check(jsonField{"input schema", t.InputSchema, anObject}, jsonField{"output schema", t.OutputSchema, anObject},
		jsonField{"annotations", t.Annotations, anObject}, jsonField{"icons", t.Icons, anArray}, jsonField{"_meta", t.Meta, anObject})
	if err == nil {
		t.required, err = required(t.InputSchema)
	}
	if err == nil {
		t.headers, err = mcp.ParamHeaders([]byte(t.InputSchema))
	}
	if err != nil {
		return fmt.Errorf("mux: tool %q: %w", t.Name, err)
	}
	c.changed |= listen.Tools
	return c.tools.put("tool", t.Name, t)
}

func (t Tool) drop(c *catalog) { c.changed |= c.tools.drop(t.Name, listen.Tools) }

func (m *Mux) serveTools(ctx context.Context, c *catalog, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
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
	if t.Task == TaskRequired && !task.Declared(req.Client.Capabilities) {
		return nil, task.Missing(fmt.Sprintf("%s of %q", req.Method, name))
	}
	call := &Call{Request: req, Caller: caller, mux: m, tasks: t.Task != TaskNever}
	if err := call.checkRequired(t.required); err != nil {
		return call.toResult(nil, err)
	}
	return call.toResult(t.Call(ctx, call))
}

// toResult returns the result for the client from the results of a tool's function.
func (c *Call) toResult(res *Result, err error) (*mcp.Result, error) {
	if more, ok := errors.AsType[*inputRequired](err); ok {
		return more.result(c)
	}
	if wrong, ok := errors.AsType[*callerError](err); ok {
		res, err = wrong.asResult(), nil
	}
	if err != nil {
		return nil, err
	}
	return res.wire()
}
