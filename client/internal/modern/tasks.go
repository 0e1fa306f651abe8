// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// callTool calls a tool. A client that supports the results of the era gets the
// server's result. For any other client, a tool that the server only runs as a task is
// called as one, and the task is awaited.
func (p *Protocol) callTool(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if req.TakesInputRequired {
		res, err := p.rounds(ctx, req, caller)
		if err == nil && isUndeclaredTask(req, res) {
			return nil, p.Malformed(errUndeclaredTask)
		}
		return res, err
	}
	own, err := call.WithoutTask(req)
	if err != nil {
		return nil, err
	}
	res, err := p.rounds(ctx, own, caller)
	if e, ok := err.(*mcp.Error); ok && task.IsMissing(e) { //nolint:errorlint // only the server's own error
		own = declaringTasks(own)
		res, err = p.rounds(ctx, own, caller)
	}
	if err != nil || !isUndeclaredTask(req, res) {
		return res, err
	}
	return p.awaitTask(ctx, declaringTasks(own), res, caller)
}

var errUndeclaredTask = mcp.Errorf(mcp.CodeInternalError, "it answered with a task, which its client does not support")

// isUndeclaredTask reports whether a result is a task that the client does not support.
func isUndeclaredTask(req *mcp.Request, res *mcp.Result) bool {
	if res.Type() != mcp.ResultTask {
		return false
	}
	return req.Client == nil || !task.Declared(req.Client.Capabilities)
}

// declaringTasks returns the request with the tasks capability, which the gateway
// supports.
func declaringTasks(req *mcp.Request) *mcp.Request {
	own, client := *req, mcp.Peer{}
	if req.Client != nil {
		client = *req.Client
	}
	client.Capabilities = task.Declare(client.Capabilities)
	own.Client = &client
	return &own
}

// awaitTask waits for the end of a task for a client without task support. The task
// belongs to the call only and ends with it.
func (p *Protocol) awaitTask(ctx context.Context, req *mcp.Request, created *mcp.Result, caller mcp.Caller) (*mcp.Result, error) {
	t, err := task.Read(created.Bytes())
	if err != nil {
		return nil, p.Malformed(err)
	}
	res, err := task.Await(ctx, mcp.HandlerFunc(p.rounds), req, t.ID, &safeCaller{caller, p.Setup})
	if left, ok := errors.AsType[*task.LeftError](err); ok {
		p.cancelTask(req, t.ID)
		err = p.AfterStart(left.Err)
	}
	return res, call.Unwrap(err)
}

// cancelTask cancels, in the background, a task that no client waits for.
func (p *Protocol) cancelTask(req *mcp.Request, id string) {
	cancel := call.AboutTask(req, call.MethodTaskCancel, id)
	// Bounded by Write. The protocol's close waits for it.
	p.group.Start(func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, p.Write)
		defer stop()
		_, _ = p.rounds(ctx, cancel, call.NoCaller{}) // the error concerns no caller
	})
}

// safeCaller recovers the caller's panics, for use on goroutines that do not recover
// them.
type safeCaller struct {
	mcp.Caller
	setup *call.Setup
}

// Start forwards the request.
func (c *safeCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return c.setup.StartSafely(ctx, c.Caller, req)
}
