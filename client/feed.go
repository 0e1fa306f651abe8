// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// changes is a set of lists that have changed: a level, not a count. However
// often a list changes before somebody looks, it is fetched once; and because a
// mark stays until it is taken, what changes during the fetch is seen after it.
type changes uint8

const (
	changedTools changes = 1 << iota
	changedPrompts
	changedResources
)

// notices returns the methods that tell of the changes, in a fixed order.
func (c changes) notices() []string {
	var methods []string
	if c&changedTools != 0 {
		methods = append(methods, methodTools)
	}
	if c&changedPrompts != 0 {
		methods = append(methods, methodPrompts)
	}
	if c&changedResources != 0 {
		methods = append(methods, methodResources)
	}
	return methods
}

// filter is what a listen wants to hear of (2026-07-28, basic/patterns/subscriptions).
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitzero"`
}

// parseFilter reads what a listen asks for. It is read leniently in what is there
// and strictly in its kind: a list of a later revision is not ours to refuse.
func parseFilter(params *mcp.Object) (filter, error) {
	var f filter
	raw := params.Raw(mcp.FieldNotifications)
	if raw == nil {
		return f, nil
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, mcp.Errorf(mcp.CodeInvalidParams, "notifications: not a filter")
	}
	return f, nil
}

// lists returns the lists that the filter names; URIs are not lists, and a legacy
// server has to be asked for each of them by another request.
func (f filter) lists() changes {
	var c changes
	if f.Tools {
		c |= changedTools
	}
	if f.Prompts {
		c |= changedPrompts
	}
	if f.Resources {
		c |= changedResources
	}
	return c
}

// filter makes a filter of lists alone: it is what a legacy session is said to have
// acknowledged, which is what it declared and not what was asked for.
func (c changes) filter() filter {
	return filter{Tools: c&changedTools != 0, Prompts: c&changedPrompts != 0, Resources: c&changedResources != 0}
}

// acknowledge tells a listen's caller what it will hear of.
func acknowledge(ctx context.Context, f filter, sink mcp.Caller) error {
	raw, err := json.Marshal(struct {
		F filter `json:"notifications"`
	}{f})
	if err != nil {
		return err
	}
	n, err := mcp.NewNotification(methodAcknowledged, raw)
	if err != nil {
		return err
	}
	return sink.Notify(ctx, n)
}

// tell tells a listen's caller of changes.
func (c changes) tell(ctx context.Context, sink mcp.Caller) error {
	for _, method := range c.notices() {
		if err := sink.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
			return err
		}
	}
	return nil
}

// feed tells the listens of one session of its changes. The zero value is ready.
// It holds no messages, so that a slow listener costs no memory, and a stream that
// announces changes without end cannot fill anything.
type feed struct {
	mu  sync.Mutex
	out map[*listener]struct{}
}

// listener is one listen: what changed since it last looked.
type listener struct {
	want changes
	wake chan struct{} // capacity 1

	dirty changes // guarded by feed.mu
}

// add registers a listen. It is done before the listen is acknowledged: what
// changes in between is told, rather than lost in a gap that nobody knows of.
func (f *feed) add(want changes) *listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &listener{want: want, wake: make(chan struct{}, 1)}
	if f.out == nil {
		f.out = make(map[*listener]struct{})
	}
	f.out[l] = struct{}{}
	return l
}

func (f *feed) remove(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.out, l)
}

// mark notes that lists have changed. It waits for nobody.
func (f *feed) mark(c changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.out {
		if l.want&c == 0 {
			continue
		}
		l.dirty |= l.want & c
		select {
		case l.wake <- struct{}{}:
		default: // it will look
		}
	}
}

// take returns what has changed for a listen, and forgets it.
func (f *feed) take(l *listener) changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := l.dirty
	l.dirty = 0
	return c
}
