// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toolServer is a small MCP server in memory: a list of tools that can be changed,
// notifications of the changes, and ways to fail.
type toolServer struct {
	announces bool
	pageSize  int

	mu      sync.Mutex
	tools   []string
	broken  error                             // every request fails with it
	onList  func()                            // runs after the response was computed, before it is returned
	onCall  func(context.Context, mcp.Caller) // runs inside tools/call
	lists   int                               // number of tools/list that were answered
	listens map[chan string]struct{}
	drop    chan struct{} // closed: the listens end
}

func newToolServer(announces bool, tools ...string) *toolServer {
	return &toolServer{announces: announces, tools: tools, listens: map[chan string]struct{}{}, drop: make(chan struct{})}
}

func (s *toolServer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	switch req.Method {
	case "server/discover":
		return mcp.NewResult(fmt.Appendf(nil, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":%t}},"instructions":"a shelf"}`, s.announces))
	case "tools/list":
		return s.list(req)
	case "tools/call":
		s.mu.Lock()
		onCall := s.onCall
		s.mu.Unlock()
		onCall(ctx, caller)
		return nil, ctx.Err()
	case "subscriptions/listen":
		return s.listen(ctx, caller)
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	}
}

func (s *toolServer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *toolServer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	close(s.drop)
	s.drop = make(chan struct{})
}

// failAll makes every request fail, and leaves the listens open.
func (s *toolServer) failAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

func (s *toolServer) list(req *mcp.Request) (*mcp.Result, error) {
	raw, hook, err := s.page(req)
	if err != nil {
		return nil, err
	}
	if hook != nil {
		hook()
	}
	return mcp.NewResult(raw)
}

func (s *toolServer) page(req *mcp.Request) ([]byte, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	start := 0
	if cursor, ok := req.Params.Text(mcp.FieldCursor); ok {
		var err error
		if start, err = strconv.Atoi(cursor); err != nil {
			return nil, nil, mcp.Errorf(mcp.CodeInvalidParams, "cursor")
		}
	}
	end := len(s.tools)
	if s.pageSize > 0 {
		end = min(end, start+s.pageSize)
	}
	raw := []byte(`{"tools":[`)
	for i, name := range s.tools[start:end] {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = fmt.Appendf(raw, `{"name":%q,"inputSchema":{"type":"object"}}`, name)
	}
	raw = append(raw, ']')
	if end < len(s.tools) {
		raw = fmt.Appendf(raw, `,"nextCursor":"%d"`, end)
	}
	hook := s.onList
	return append(raw, '}'), hook, nil
}

// set changes the tools and notifies the listens.
func (s *toolServer) set(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	for listener := range s.listens {
		listener <- "notifications/tools/list_changed"
	}
}

func (s *toolServer) listen(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
	listener := make(chan string, 100)
	drop := s.join(listener)
	defer s.leave(listener)
	if err := caller.Notify(ctx, &mcp.Notification{Method: "notifications/subscriptions/acknowledged"}); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-drop:
			return nil, errors.New("the stream broke")
		case method := <-listener:
			if err := caller.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
				return nil, err
			}
		}
	}
}

func (s *toolServer) join(listener chan string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listens[listener] = struct{}{}
	return s.drop
}

func (s *toolServer) leave(listener chan string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, listener)
}

func (s *toolServer) fetched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *toolServer) hook(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onList = f
}

// names returns the names of the tools of an offer.
func names(t *testing.T, o *Offer) []string {
	t.Helper()
	var out []string
	for _, item := range o.Lists[catalog.Tools].Items {
		obj, err := mcp.ParseObject(item)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := obj.Text(mcp.FieldName)
		out = append(out, name)
	}
	return out
}
