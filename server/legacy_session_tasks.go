// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of the results that a session keeps as tasks, for calls that asked for a
// task and were answered at once. The oldest is dropped first.
const (
	maxImmediateTasks = 64
	maxImmediateBytes = 8 << 20 // bytes

	defaultTaskTTL   = 10 * time.Minute // if the client asks for no ttl
	maxTaskTTL       = time.Hour
	taskPollInterval = 100 // milliseconds: the task has ended
)

// sessionTasks are the tasks of one session as the edge sees them: whether the client was
// offered tasks, and those that the edge itself has created. They end with the session.
type sessionTasks struct {
	offered bool
	prefix  string // of the ids of its tasks, and no others
	watched watchedTasks

	mu     sync.Mutex
	client *mcp.Peer // of the session, with the extension declared
	tasks  []*immediateTask
	size   int
}

// immediateTask is a result that was available at once, shown as a task.
type immediateTask struct {
	id      string
	created time.Time
	ttl     time.Duration
	result  *mcp.Result
}

type sessionTasksKey struct{}

// noteTasks records on the scope that the client was offered tasks.
func noteTasks(scope *mcp.Scope, offered bool) {
	if !offered {
		return
	}
	own := &sessionTasks{offered: true, prefix: rand.Text()}
	if kept, ok := scope.Value(sessionTasksKey{}, func() any { return own }); ok && kept == own && !scope.OnEnd(own.watched.end) {
		own.watched.end()
	}
}

// sessionTasksOf returns nil if no tasks were offered, or the session has ended.
func sessionTasksOf(scope *mcp.Scope) *sessionTasks {
	v, ok := scope.Value(sessionTasksKey{}, func() any { return &sessionTasks{} })
	k, isKept := v.(*sessionTasks)
	if !ok || !isKept {
		return nil
	}
	return k
}

// declareTasks returns the client with the tasks extension declared.
func (k *sessionTasks) declareTasks(p *mcp.Peer) *mcp.Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		client := *p
		client.Capabilities = tasks.Declare(p.Capabilities)
		k.client = &client
	}
	return k.client
}

// store keeps a result as a task and returns the answer for the client. The task is
// reported as working, the state in which every task begins ("Task Status Lifecycle").
func (k *sessionTasks) store(req *mcp.Request, res *mcp.Result, now time.Time) (*mcp.Result, error) {
	t := &immediateTask{id: k.prefix + rand.Text(), created: now, ttl: taskTTL(req), result: res}
	k.add(t)
	created := append([]byte(`{"task":`), t.encode(tasks.Working)...)
	return mcp.NewResult(append(created, '}'))
}

func taskTTL(req *mcp.Request) time.Duration {
	if asked := tasks.TTL(req.Params.Raw(mcp.FieldTask)); asked > 0 {
		return min(asked, maxTaskTTL)
	}
	return defaultTaskTTL
}

func (k *sessionTasks) add(t *immediateTask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(t.created)
	k.tasks = append(k.tasks, t)
	k.size += len(t.result.Bytes())
	for len(k.tasks) > maxImmediateTasks || k.size > maxImmediateBytes && len(k.tasks) > 1 {
		k.size -= len(k.tasks[0].result.Bytes())
		k.tasks = slices.Delete(k.tasks, 0, 1)
	}
}

// expireLocked drops the tasks that are past their ttl. It runs on each access instead of
// on a timer: the memory is bounded, and only this session pays for it.
func (k *sessionTasks) expireLocked(now time.Time) {
	k.tasks = slices.DeleteFunc(k.tasks, func(t *immediateTask) bool {
		gone := now.Sub(t.created) >= t.ttl
		if gone {
			k.size -= len(t.result.Bytes())
		}
		return gone
	})
}

// isOurs reports whether an id is of a task that the edge has created in this session,
// even if it has been dropped.
func (k *sessionTasks) isOurs(id string) bool {
	return k.prefix != "" && strings.HasPrefix(id, k.prefix)
}

func (k *sessionTasks) find(id string, now time.Time) *immediateTask {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(now)
	for _, t := range k.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

// all returns the tasks in the form of 2025-11-25.
func (k *sessionTasks) all(now time.Time) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(now)
	listed := make([][]byte, 0, len(k.tasks))
	for _, t := range k.tasks {
		listed = append(listed, t.encode(tasks.Completed))
	}
	return listed
}

// encode returns the task in the given state; a result with isError is a failed task
// ("Task Execution Errors").
func (t *immediateTask) encode(status tasks.Status) []byte {
	if failed, _ := t.result.Bool(mcp.FieldIsError); failed && status == tasks.Completed {
		status = tasks.Failed
	}
	at := t.created.UTC().Format(time.RFC3339)
	b := jsonscan.AppendString([]byte(`{"taskId":`), t.id)
	b = jsonscan.AppendString(append(b, `,"status":`...), string(status))
	b = jsonscan.AppendString(append(b, `,"createdAt":`...), at)
	b = jsonscan.AppendString(append(b, `,"lastUpdatedAt":`...), at)
	b = strconv.AppendInt(append(b, `,"ttl":`...), t.ttl.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"pollInterval":`...), taskPollInterval, 10)
	return append(b, '}')
}
