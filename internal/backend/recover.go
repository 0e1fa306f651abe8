// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// recoverPanics is a Handler that turns a panic into an error of the request. A backend
// in this process is foreign code that runs on goroutines of the gateway.
type recoverPanics struct {
	mcp.Handler

	name string
	log  *slog.Logger
}

// Serve calls Serve of the Handler.
func (g *recoverPanics) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	defer g.recover(ctx, req, &res, &err)
	return g.Handler.Serve(ctx, req, caller)
}

// recover must be deferred. It sets the result and the error after a panic.
func (g *recoverPanics) recover(ctx context.Context, req *mcp.Request, res **mcp.Result, err *error) {
	v := recover()
	if v == nil {
		return
	}
	g.log.LogAttrs(ctx, slog.LevelError, "panic in a backend", slog.String("method", req.Method),
		slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	*res, *err = nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Backend: g.name, Message: "it panicked"}
}
