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

	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of what a session keeps of results that came at once where a task was
// asked for. The oldest goes first.
const (
	maxImmediateTasks = 64
	maxImmediateBytes = 8 << 20 // bytes

	defaultTaskTTL   = 10 * time.Minute // where the client does not say for how long
	maxTaskTTL       = time.Hour
	taskPollInterval = 100 // milliseconds: it has ended
)

// keptTasks is what the edge knows of tasks in one session: whether the client was
// told of any, and those that the edge has made itself. It ends with the session,
// and so do they.
type sessionTasks struct {
	offered bool
	prefix  string // how the ids of its tasks begin, and nobody else's
	watched watchedTasks

	mu     sync.Mutex
	client *mcp.Peer // the session's, with the extension declared
	tasks  []*immediateTask
	size   int
}

// keptTask is a result that was there at once, as a task.
type immediateTask struct {
	id      string
	created time.Time
	ttl     time.Duration
	result  *mcp.Result
}

type sessionTasksKey struct{}

// noteTasks keeps that the client of a session is told of tasks, where that is so.
func noteTasks(scope *mcp.Scope, offered bool) {
	if !offered {
		return
	}
	own := &sessionTasks{offered: true, prefix: rand.Text()}
	if kept, ok := scope.Value(sessionTasksKey{}, func() any { return own }); ok && kept == own && !scope.OnEnd(own.watched.end) {
		own.watched.end()
	}
}

// keptTasksOf returns nil where nothing was noted, or the session has ended.
func sessionTasksOf(scope *mcp.Scope) *sessionTasks {
	v, ok := scope.Value(sessionTasksKey{}, func() any { return &sessionTasks{} })
	k, isKept := v.(*sessionTasks)
	if !ok || !isKept {
		return nil
	}
	return k
}

// declaring returns the client as one that takes the tasks of the extension.
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

// keep makes a task of a result and returns what its client is told. It is said to
// be at work, as every task begins ("Task Status Lifecycle").
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

// expireLocked forgets what is older than was agreed. Nothing but time makes it
// grow, and nobody but this session pays for it: no timer is worth it.
func (k *sessionTasks) expireLocked(now time.Time) {
	k.tasks = slices.DeleteFunc(k.tasks, func(t *immediateTask) bool {
		gone := now.Sub(t.created) >= t.ttl
		if gone {
			k.size -= len(t.result.Bytes())
		}
		return gone
	})
}

// isOurs reports whether an id is of a task that the edge has made in this session,
// be it forgotten by now.
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

// all returns what there is, as 2025-11-25 lists it.
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

// describe returns the task in the given state; a result that says that the tool
// has failed is one that has ("Task Execution Errors").
func (t *immediateTask) encode(status tasks.Status) []byte {
	if failed, _ := t.result.Bool(mcp.FieldIsError); failed && status == tasks.Completed {
		status = tasks.Failed
	}
	at := t.created.UTC().Format(time.RFC3339)
	b := mcp.AppendString([]byte(`{"taskId":`), t.id)
	b = mcp.AppendString(append(b, `,"status":`...), string(status))
	b = mcp.AppendString(append(b, `,"createdAt":`...), at)
	b = mcp.AppendString(append(b, `,"lastUpdatedAt":`...), at)
	b = strconv.AppendInt(append(b, `,"ttl":`...), t.ttl.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"pollInterval":`...), taskPollInterval, 10)
	return append(b, '}')
}
