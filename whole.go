// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// wholeCaller is the Caller of a request with a result that the gateway reads as a whole, because it
// may change it.
type wholeCaller struct {
	mcp.Caller
	mcp.CallerExtension // of Caller

	notice func(*mcp.Notification) *mcp.Notification
}

// readWhole returns a Caller for a request with a result that is read as a whole. notice changes the
// notifications of tasks, which may have a result; nil changes none. One for which it returns nil is dropped: the
// task has the same state when the client asks for it.
func readWhole(of mcp.Caller, notice func(*mcp.Notification) *mcp.Notification) mcp.Caller {
	return &wholeCaller{of, of.Extension(), notice}
}

// Extension returns the caller itself, which changes Receive.
func (c *wholeCaller) Extension() mcp.CallerExtension { return c }

// Receive reports false.
func (*wholeCaller) Receive(context.Context, mcp.StreamedResult) (taken bool, err error) {
	return false, nil
}

// Notify forwards a notification.
func (c *wholeCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method == listen.MethodTask && c.notice != nil {
		if n = c.notice(n); n == nil {
			return nil
		}
	}
	return c.Caller.Notify(ctx, n)
}

// withBytes returns a result with other bytes, or the result itself if they are its own.
func withBytes(res *mcp.Result, raw []byte) (*mcp.Result, error) {
	if before := res.Bytes(); len(raw) == len(before) && (len(raw) == 0 || &raw[0] == &before[0]) {
		return res, nil
	}
	object, err := res.WithBytes(raw)
	if err != nil {
		return nil, err
	}
	own := *res
	own.Object = object
	return &own, nil
}

// withParams returns a notification with other parameters, or nil if they are not an object.
func withParams(n *mcp.Notification, raw []byte) *mcp.Notification {
	params, err := n.Params.WithBytes(raw)
	if err != nil {
		return nil
	}
	own := *n
	own.Params = params
	return &own
}
