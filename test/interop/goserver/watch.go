// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// watch records, for each call of the tool block, that it started and that its cancellation
// arrived. It may be used by concurrent calls.
type watch struct {
	mu    sync.Mutex
	marks map[string]chan struct{}
}

func newWatch() *watch { return &watch{marks: make(map[string]chan struct{})} }

// mark returns the channel that is closed when the block named key reaches state. Either
// side may call it first.
func (w *watch) mark(key, state string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := key + "/" + state
	if w.marks[name] == nil {
		w.marks[name] = make(chan struct{})
	}
	return w.marks[name]
}

// block waits for the end of its context. Keys are used once.
func (w *watch) block(ctx context.Context, _ *mcp.CallToolRequest, in keyArgs) (*mcp.CallToolResult, any, error) {
	close(w.mark(in.Key, "started"))
	<-ctx.Done()
	close(w.mark(in.Key, "cancelled"))
	return nil, nil, ctx.Err()
}

// witness waits for a mark. It is a tool and not an endpoint beside the protocol, so that
// it works over every transport and through a gateway.
func (w *watch) witness(ctx context.Context, _ *mcp.CallToolRequest, in witnessArgs) (*mcp.CallToolResult, any, error) {
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	select {
	case <-w.mark(in.Key, in.State):
		return text("%s %s", in.Key, in.State), nil, nil
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("%s was not %s", in.Key, in.State)
	}
}
