// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// only restricts the target to a profile of its gateway, unless the name is empty.
func (t *Target) only(name string) {
	if name == "" {
		return
	}
	t.Profile = name
	if status := t.Status; status != nil {
		t.Status = func(ctx context.Context) (*signalbox.Status, error) {
			s, err := status(ctx)
			if err != nil {
				return nil, err
			}
			return s, profiles.Narrow(s, name)
		}
	}
}

// profiled sends requests to a profile of a gateway in this process.
type profiled struct {
	mcp.Handler

	name string
}

// Serve passes on the request with the profile.
func (p profiled) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	own := *req
	own.Profile = p.name
	return p.Handler.Serve(ctx, &own, caller)
}
