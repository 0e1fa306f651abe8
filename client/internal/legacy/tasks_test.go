// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"strconv"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
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

// A session that has ended is not stored any longer, whatever tasks have begun in it.
func TestEndedSessionsAreNotStored(t *testing.T) {
	l := closedLegacy(t, call.Config{Name: "b"})
	first, second := idleTestSession(), idleTestSession()
	for n, s := range []*clientSession{first, second, first} {
		l.register(s)
		l.tasks.keepSession("ann", &task.Task{ID: strconv.Itoa(n)}, s)
	}
	l.retire(first)
	if n := len(l.tasks.sessions); n != 1 || l.tasks.sessionOf("ann", "1") != second {
		t.Errorf("%d tasks are stored, want that of the other session", n)
	}
}
