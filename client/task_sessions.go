// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"
	"time"

	taskform "github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// How long a session is kept for the sake of a task that nobody asks about. A server
// that says how long it keeps the task is believed, up to the longest.
const (
	anchorTime = time.Hour
	anchorRest = time.Minute // after its result was fetched
)

// maxAnchors bounds the tasks whose sessions are remembered. One that is forgotten
// is asked for in whatever session its principal has.
const maxAnchors = 4096

// taskKey is one task, to those who may ask for it.
type taskKey struct{ principal, id string }

// taskSessions remember which session a task was begun in. Many servers keep tasks for
// the session, or in the process, that they were begun in; so the requests about one
// go there as long as there is such a session, whoever of the principal's clients
// asks. The zero value is ready.
type taskSessions struct {
	mu   sync.Mutex
	held map[taskKey]*taskSession
}

type taskSession struct {
	s     *legacySession
	until time.Time
}

// put notes where a task is, and has that session kept open.
func (a *taskSessions) put(principal string, t *taskform.Task, s *legacySession) {
	keep := anchorTime
	if t.TTL > 0 && t.TTL < keep {
		keep = t.TTL
	}
	a.hold(taskKey{principal, t.ID}, s, time.Now().Add(keep))
}

func (a *taskSessions) hold(key taskKey, s *legacySession, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil {
		a.held = make(map[taskKey]*taskSession)
	}
	if len(a.held) >= maxAnchors {
		a.forgetLocked(time.Now())
	}
	a.held[key] = &taskSession{s: s, until: until}
	s.pins.set(key, until)
}

// forgetLocked makes room: of what is over, and of anything where that is not
// enough.
func (a *taskSessions) forgetLocked(now time.Time) {
	for key, one := range a.held {
		if now.After(one.until) || !one.s.isAlive() {
			a.dropLocked(key)
		}
	}
	for key := range a.held {
		if len(a.held) < maxAnchors {
			return
		}
		a.dropLocked(key)
	}
}

func (a *taskSessions) dropLocked(key taskKey) {
	a.held[key].s.pins.set(key, time.Time{})
	delete(a.held, key)
}

// done notes that the result of a task was fetched, if it was: it may be fetched
// once more, and then the session is nobody's.
func (a *taskSessions) done(principal, id string, err error) {
	if err != nil {
		if _, answered := err.(*mcp.Error); !answered { //nolint:errorlint // the server's own word ends a task as well
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := taskKey{principal, id}
	if one, ok := a.held[key]; ok {
		one.until = time.Now().Add(anchorRest)
		one.s.pins.set(key, one.until)
	}
}

// find returns the session of a task, nil where there is none any more.
func (a *taskSessions) find(principal, id string) *legacySession {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := taskKey{principal, id}
	one, ok := a.held[key]
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

// retained are the tasks for whose sake a session is kept open. The zero value is ready.
type retained struct {
	mu    sync.Mutex
	until map[taskKey]time.Time
}

// set keeps the session until then for a task; the zero time lets go.
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

// last returns when the session need not be kept any more, the zero time where it
// slotPurpose not be now.
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

// isPinned reports whether the session is to be kept open for a task.
func (s *legacySession) isPinned() bool { return !s.pins.last(time.Now()).IsZero() }

// isPinned reports whether a task runs in the slot's session.
func (sl *scopedSession) isPinned() bool {
	s := sl.open()
	return s != nil && s.isPinned()
}
