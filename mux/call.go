// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Call is one request for a tool, a prompt or a resource while it is served. Its
// methods may be called concurrently until the function has returned: then its client
// has the answer, and hears no more.
type Call struct {
	// Request is what was asked, and by whom: Request.Principal, Request.Client. It must
	// not be changed.
	Request *mcp.Request
	// Caller is the way back to who asked. What a Call has no method for is said by it.
	Caller mcp.Caller

	mux   *Mux
	tasks bool // it may go on in the background
	vars  map[string]string

	reading    sync.Once // of the answers that came with the request
	given      *given
	unreadable error
}

// Arguments are what the call was made with: a JSON object, or whatever else a client
// has sent. It is {} where that is nothing.
func (c *Call) Arguments() JSON {
	if raw := c.Request.Params.Raw(mcp.FieldArguments); raw != nil {
		return JSON(raw)
	}
	return "{}"
}

// checkRequired is the complaint about an argument that is not there. What is no
// object is for whoever reads it.
func (c *Call) checkRequired(names []string) error {
	if len(names) == 0 {
		return nil
	}
	given := make(map[string]bool)
	for name := range mcp.Members(c.Request.Params.Raw(mcp.FieldArguments)) {
		given[name] = true
	}
	for _, name := range names {
		if !given[name] {
			return &complaint{err: fmt.Errorf("the argument %q is missing", name)}
		}
	}
	return nil
}

// Bind decodes the arguments into a pointer to what holds their defaults: a struct, or
// a map. The letter case of names counts, and arguments that it has no place for are
// ignored. Its error is for the function to return: it says which argument does not
// fit, to whoever wrote it.
func (c *Call) Bind(into any) error {
	if err := decode(c.Request.Params.Raw(mcp.FieldArguments), into); err != nil {
		return misfit(err)
	}
	return nil
}

// Var returns what stands for a variable of the template in the URI that is read.
func (c *Call) Var(name string) string { return c.vars[name] }

// URI returns the URI that is read.
func (c *Call) URI() string {
	uri, _ := c.Request.Params.Text(mcp.FieldURI)
	return uri
}

// Progress says how far the call is, if its client wants to know. A total of 0 is not
// known. An error says that nobody listens any more, and is for the function to return.
func (c *Call) Progress(ctx context.Context, done, total float64, message string) error {
	token := c.Request.Params.Raw(mcp.MetaProgressToken)
	if token == nil {
		return nil
	}
	params := append(append([]byte(`{"progressToken":`), token...), `,"progress":`...)
	params = strconv.AppendFloat(params, done, 'f', -1, 64)
	if total > 0 {
		params = strconv.AppendFloat(append(params, `,"total":`...), total, 'f', -1, 64)
	}
	if message != "" {
		params = mcp.AppendString(append(params, `,"message":`...), message)
	}
	return c.notify(ctx, "notifications/progress", append(params, '}'))
}

// Log tells the client something, if it wants messages of that level. The logger may
// be "". Data is anything that encodes as JSON. An error is that of Progress, or of
// the data.
func (c *Call) Log(ctx context.Context, level mcp.LogLevel, logger string, data any) error {
	if !c.Request.LogLevel.Wants(level) {
		return nil
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	params := mcp.AppendString([]byte(`{"level":`), level.String())
	if logger != "" {
		params = mcp.AppendString(append(params, `,"logger":`...), logger)
	}
	params = append(append(params, `,"data":`...), raw...)
	return c.notify(ctx, "notifications/message", append(params, '}'))
}

func (c *Call) notify(ctx context.Context, method string, params []byte) error {
	return notify(ctx, c.Caller, method, params)
}
