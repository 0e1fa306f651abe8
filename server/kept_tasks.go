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
	maxKept     = 64
	maxKeptSize = 8 << 20 // bytes

	keptFor     = 10 * time.Minute // where the client does not say for how long
	maxKeptFor  = time.Hour
	keptPolling = 100 // milliseconds: it has ended
)

// keptTasks is what the edge knows of tasks in one session: whether the client was
// told of any, and those that the edge has made itself. It ends with the session,
// and so do they.
type keptTasks struct {
	offered bool
	mark    string // how the ids of its tasks begin, and nobody else's
	told    toldTasks

	mu     sync.Mutex
	client *mcp.Peer // the session's, with the extension declared
	tasks  []*keptTask
	size   int
}

// keptTask is a result that was there at once, as a task.
type keptTask struct {
	id      string
	created time.Time
	ttl     time.Duration
	result  *mcp.Result
}

type keptTasksKey struct{}

// noteTasks keeps that the client of a session is told of tasks, where that is so.
func noteTasks(scope *mcp.Scope, offered bool) {
	if !offered {
		return
	}
	own := &keptTasks{offered: true, mark: rand.Text()}
	if kept, ok := scope.Value(keptTasksKey{}, func() any { return own }); ok && kept == own && !scope.OnEnd(own.told.end) {
		own.told.end()
	}
}

// keptTasksOf returns nil where nothing was noted, or the session has ended.
func keptTasksOf(scope *mcp.Scope) *keptTasks {
	v, ok := scope.Value(keptTasksKey{}, func() any { return &keptTasks{} })
	k, isKept := v.(*keptTasks)
	if !ok || !isKept {
		return nil
	}
	return k
}

// declaring returns the client as one that takes the tasks of the extension.
func (k *keptTasks) declaring(p *mcp.Peer) *mcp.Peer {
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
func (k *keptTasks) keep(req *mcp.Request, res *mcp.Result, now time.Time) (*mcp.Result, error) {
	t := &keptTask{id: k.mark + rand.Text(), created: now, ttl: keptTime(req), result: res}
	k.add(t)
	created := append([]byte(`{"task":`), t.describe(tasks.Working)...)
	return mcp.NewResult(append(created, '}'))
}

func keptTime(req *mcp.Request) time.Duration {
	if asked := tasks.TTL(req.Params.Raw(mcp.FieldTask)); asked > 0 {
		return min(asked, maxKeptFor)
	}
	return keptFor
}

func (k *keptTasks) add(t *keptTask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(t.created)
	k.tasks = append(k.tasks, t)
	k.size += len(t.result.Bytes())
	for len(k.tasks) > maxKept || k.size > maxKeptSize && len(k.tasks) > 1 {
		k.size -= len(k.tasks[0].result.Bytes())
		k.tasks = slices.Delete(k.tasks, 0, 1)
	}
}

// expireLocked forgets what is older than was agreed. Nothing but time makes it
// grow, and nobody but this session pays for it: no timer is worth it.
func (k *keptTasks) expireLocked(now time.Time) {
	k.tasks = slices.DeleteFunc(k.tasks, func(t *keptTask) bool {
		gone := now.Sub(t.created) >= t.ttl
		if gone {
			k.size -= len(t.result.Bytes())
		}
		return gone
	})
}

// isOurs reports whether an id is of a task that the edge has made in this session,
// be it forgotten by now.
func (k *keptTasks) isOurs(id string) bool { return k.mark != "" && strings.HasPrefix(id, k.mark) }

func (k *keptTasks) find(id string, now time.Time) *keptTask {
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
func (k *keptTasks) all(now time.Time) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(now)
	listed := make([][]byte, 0, len(k.tasks))
	for _, t := range k.tasks {
		listed = append(listed, t.describe(tasks.Completed))
	}
	return listed
}

// describe returns the task in the given state; a result that says that the tool
// has failed is one that has ("Task Execution Errors").
func (t *keptTask) describe(status tasks.Status) []byte {
	if failed, _ := t.result.Bool(mcp.FieldIsError); failed && status == tasks.Completed {
		status = tasks.Failed
	}
	at := t.created.UTC().Format(time.RFC3339)
	b := mcp.AppendString([]byte(`{"taskId":`), t.id)
	b = mcp.AppendString(append(b, `,"status":`...), string(status))
	b = mcp.AppendString(append(b, `,"createdAt":`...), at)
	b = mcp.AppendString(append(b, `,"lastUpdatedAt":`...), at)
	b = strconv.AppendInt(append(b, `,"ttl":`...), t.ttl.Milliseconds(), 10)
	b = strconv.AppendInt(append(b, `,"pollInterval":`...), keptPolling, 10)
	return append(b, '}')
}
