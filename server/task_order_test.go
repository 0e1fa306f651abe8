// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

const taskRunner = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`

// stateLog is a Handler that records the states of clients' tasks. Each notification waits
// until it is released.
type stateLog struct {
	mu    sync.Mutex
	begun []string
	wait  chan struct{}
}

func (l *stateLog) Serve(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	if req.Method != "notifications/tasks/status" {
		return result(`{"capabilities":{}}`)
	}
	id, _ := req.Params.Text(mcp.FieldTaskID)
	l.mu.Lock()
	l.begun = append(l.begun, id)
	l.mu.Unlock()
	select {
	case <-l.wait:
	case <-ctx.Done():
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

func (l *stateLog) seen() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.begun, " ")
}

func taskState(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t%d","status":"working"}}`, n)
}

// Status notifications of a client about its tasks reach the Handler one after the other,
// in the order of their arrival, even if the Handler fails; and another session does not
// wait for them.
func TestTaskStatesInOrder(t *testing.T) {
	l := &stateLog{}
	const caps = `{"sampling":{},"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`
	bubble(t, l, server.Config{}, func(s *site) {
		l.wait = make(chan struct{})
		h, other := s.handshake(fmt.Sprintf(taskRunner, "2025-11-25", caps)), s.handshake(fmt.Sprintf(taskRunner, "2025-11-25", caps))
		for n := range 5 {
			s.post(taskState(n), h)
		}
		equal(t, "handed on", l.seen(), "t0")
		s.post(taskState(7), other)
		equal(t, "handed on", l.seen(), "t0 t7")
		for range 6 {
			l.wait <- struct{}{}
			synctest.Wait()
		}
		equal(t, "handed on", l.seen(), "t0 t7 t1 t2 t3 t4")
	})
}

// Status notifications of a client that declared no tasks are dropped. A revision that does
// not define tasks makes no difference.
func TestTaskStatesOfClientWithoutTasks(t *testing.T) {
	for _, tt := range []struct{ version, caps, want string }{
		{"2025-11-25", `{"sampling":{},"tasks":{"list":{}}}`, ""},
		{"2025-06-18", `{"sampling":{}}`, ""},
		{"2025-06-18", `{"sampling":{},"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`, "t1"},
	} {
		l := &stateLog{}
		bubble(t, l, server.Config{}, func(s *site) {
			s.post(taskState(1), s.handshake(fmt.Sprintf(taskRunner, tt.version, tt.caps)))
			equal(t, tt.version+" "+tt.caps, l.seen(), tt.want)
		})
	}
}
