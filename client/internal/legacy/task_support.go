// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The values of execution.taskSupport that are used here.
const (
	taskRequired = "required"
	taskOptional = "optional"
)

// taskSupport stores which tools of a legacy server may, or must, be called as tasks.
// It learns that from the lists of tools that pass through. The zero value is empty.
type taskSupport struct {
	mu    sync.Mutex
	tools map[string]string // taskSupport by name of the tool, "" if unset
}

// maxSupportTools bounds the tools that are stored. For other tools the server is asked
// again.
const maxSupportTools = 4096

func (t *taskSupport) of(tool string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tools[tool]
}

// knows reports whether the tool was in a list.
func (t *taskSupport) knows(tool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.tools[tool]
	return ok
}

// learn stores the tools of one page of a list. A malformed list is ignored.
func (t *taskSupport) learn(res *mcp.Result) {
	if res == nil || !bytes.Contains(res.Bytes(), []byte("taskSupport")) && t.isEmpty() {
		return
	}
	var tools []struct {
		Name      string `json:"name"`
		Execution struct {
			Support string `json:"taskSupport"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(res.Raw(mcp.FieldTools), &tools); err != nil {
		return
	}
	learned := make(map[string]string, len(tools))
	for _, tool := range tools {
		learned[tool.Name] = tool.Execution.Support
	}
	t.merge(learned)
}

func (t *taskSupport) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tools) == 0
}

func (t *taskSupport) merge(learned map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tools == nil || len(t.tools)+len(learned) > maxSupportTools {
		t.tools = make(map[string]string, len(learned))
	}
	maps.Copy(t.tools, learned)
}

// ask lists the tools in a session, up to as many pages as are read for headers.
func (t *taskSupport) ask(ctx context.Context, s *clientSession) {
	var params []byte
	for range call.MaxToolPages {
		res, err := s.ownCall(ctx, call.MethodToolsList, params)
		if err != nil {
			return
		}
		t.learn(res)
		cursor := res.Raw(mcp.FieldNextCursor)
		if cursor == nil || string(cursor) == "null" {
			return
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}
