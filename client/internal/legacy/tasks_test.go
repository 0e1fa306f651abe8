// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"strconv"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/task"
)

// With as many tasks as are stored, another state of one of them drops none, and a new task
// drops one.
func TestTaskSessionsAreBounded(t *testing.T) {
	var all serverTasks
	s := idleTestSession()
	for n := range maxTaskSessions {
		all.keepSession("ann", &task.Task{ID: strconv.Itoa(n)}, s)
	}
	for _, n := range []int{0, maxTaskSessions - 1, -1} {
		all.keepSession("ann", &task.Task{ID: strconv.Itoa(n)}, s)
		if len(all.sessions) != maxTaskSessions {
			t.Errorf("%d tasks are stored after a state of task %d", len(all.sessions), n)
		}
	}
	if all.sessionOf("ann", "-1") != s {
		t.Error("the new task is not stored")
	}
}
