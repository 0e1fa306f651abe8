// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"sync"
	"time"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// How long a session is kept open for a task without requests. A shorter TTL of the
// task takes precedence.
const (
	taskSessionTime = time.Hour
	fetchedTaskTime = time.Minute // after its result was fetched
)

// maxTaskSessions bounds the tasks that are stored. Requests on any other task go to
// the session that their principal has.
const maxTaskSessions = 4096

// taskKey identifies a task of a principal.
type taskKey struct{ principal, id string }

// taskSessions stores the session in which each task began. Many servers keep a task in
// its session, or in its process, so requests on the task go there as long as the
// session lives, from any client of the principal. The zero value is ready.
type taskSessions struct {
	mu     sync.Mutex
	byTask map[taskKey]*taskSession
}

type taskSession struct {
	s     *clientSession
	until time.Time
}

// put stores the session of a task and keeps it open.
func (a *taskSessions) put(principal string, t *taskform.Task, s *clientSession) {
	keep := taskSessionTime
	if t.TTL > 0 && t.TTL < keep {
		keep = t.TTL
	}
	a.set(taskKey{principal, t.ID}, s, time.Now().Add(keep))
}

func (a *taskSessions) set(key taskKey, s *clientSession, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byTask == nil {
		a.byTask = make(map[taskKey]*taskSession)
	}
	if len(a.byTask) >= maxTaskSessions {
		a.evictLocked(time.Now())
	}
	a.byTask[key] = &taskSession{s: s, until: until}
	s.retained.set(key, until)
}

// evictLocked makes room: it drops expired entries and, if that is not enough,
// arbitrary ones.
func (a *taskSessions) evictLocked(now time.Time) {
	for key, one := range a.byTask {
		if now.After(one.until) || !one.s.isAlive() {
			a.dropLocked(key)
		}
	}
	for key := range a.byTask {
		if len(a.byTask) < maxTaskSessions {
			return
		}
		a.dropLocked(key)
	}
}

func (a *taskSessions) dropLocked(key taskKey) {
	a.byTask[key].s.retained.set(key, time.Time{})
	delete(a.byTask, key)
}

// resultFetched shortens the time that the session is kept, if err shows that the
// task's result was returned. The result may be fetched once more.
func (a *taskSessions) resultFetched(principal, id string, err error) {
	if err != nil {
		if _, answered := err.(*mcp.Error); !answered { //nolint:errorlint // the server's own error ends a task as well
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := taskKey{principal, id}
	if one, ok := a.byTask[key]; ok {
		one.until = time.Now().Add(fetchedTaskTime)
		one.s.retained.set(key, one.until)
	}
}

// find returns the session of a task, or nil.
func (a *taskSessions) find(principal, id string) *clientSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := taskKey{principal, id}
	one, ok := a.byTask[key]
	switch {
	case !ok:
		return nil
	case !one.s.isAlive():
		a.dropLocked(key)
		return nil
	default:
		return one.s
	}
}

// retained are the tasks for which a session is kept open. The zero value is ready.
type retained struct {
	mu    sync.Mutex
	until map[taskKey]time.Time
}

// set keeps the session open until then. The zero time releases it.
func (p *retained) set(key taskKey, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.IsZero() {
		delete(p.until, key)
		return
	}
	if p.until == nil {
		p.until = make(map[taskKey]time.Time)
	}
	p.until[key] = until
}

// last returns the time until which the session must be kept open, the zero time if it
// need not be.
func (p *retained) last(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var latest time.Time
	for key, until := range p.until {
		switch {
		case !until.After(now):
			delete(p.until, key)
		case until.After(latest):
			latest = until
		}
	}
	return latest
}

// isRetained reports whether the session must be kept open for a task.
func (s *clientSession) isRetained() bool { return !s.retained.last(time.Now()).IsZero() }

// isRetained reports whether the session must be kept open for a task.
func (sl *scopedSession) isRetained() bool {
	s := sl.current()
	return s != nil && s.isRetained()
}
