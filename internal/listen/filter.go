// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listen holds what both sides of subscriptions/listen share (2026-07-28,
// basic/patterns/subscriptions): the filter, which lists the notifications that a client
// wants or that were agreed, and the feed, which passes changes to listeners with filters.
//
// A change is a level and not an event: a list that changes several times before a
// listener takes the change is reported once, and always after the last change.
package listen

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Methods of notifications that a listen brings.
const (
	MethodAcknowledged = "notifications/subscriptions/acknowledged"
	MethodTools        = "notifications/tools/list_changed"
	MethodPrompts      = "notifications/prompts/list_changed"
	MethodResources    = "notifications/resources/list_changed"
	MethodUpdated      = "notifications/resources/updated"
	MethodTask         = "notifications/tasks" // of the extension io.modelcontextprotocol/tasks
)

// A Filter is the notifications that a client wants, or those that were agreed
// (2026-07-28, basic/patterns/subscriptions, "Notification Filter").
type Filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"` // of the extension io.modelcontextprotocol/tasks
}

// ParseFilter reads the filter in the parameters of subscriptions/listen or of its
// acknowledgement. Duplicates count once. Unknown members, which belong to other
// extensions or later revisions, are not agreed to; the client sees that in the
// acknowledgement. Without a filter nothing is requested. The only error is an
// [*mcp.Error] for an invalid filter.
func ParseFilter(params *mcp.Object) (Filter, error) {
	var f Filter
	raw := params.Raw(mcp.FieldNotifications)
	if raw == nil {
		return f, nil
	}
	if json.Unmarshal(raw, &f) != nil {
		return Filter{}, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications is not a notification filter")
	}
	f.URIs, f.TaskIDs = Distinct(f.URIs), Distinct(f.TaskIDs)
	return f, nil
}

// Params returns the parameters of a listen with the filter, or of its acknowledgement.
func (f Filter) Params() ([]byte, error) {
	return json.Marshal(map[string]Filter{"notifications": f})
}

// Acknowledge notifies a listener of what was agreed, before any other notification.
func (f Filter) Acknowledge(ctx context.Context, to mcp.Caller) error {
	params, err := f.Params()
	if err != nil {
		return err
	}
	n, err := mcp.NewNotification(MethodAcknowledged, params)
	if err != nil {
		return err
	}
	return to.Notify(ctx, n)
}

// Agreed returns the part of the filter that an acknowledgement with the parameters
// agrees to. One without a filter agrees to everything.
func (f Filter) Agreed(params *mcp.Object) Filter {
	if !params.Has(mcp.FieldNotifications) {
		return f
	}
	agreed, err := ParseFilter(params)
	if err != nil {
		return Filter{}
	}
	return f.Intersect(agreed)
}

// Distinct removes duplicates and keeps the order of the first occurrences. It reuses
// the slice.
func Distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// Lists returns the lists that the filter names.
func (f Filter) Lists() Lists {
	var l Lists
	if f.Tools {
		l |= Tools
	}
	if f.Prompts {
		l |= Prompts
	}
	if f.Resources {
		l |= Resources
	}
	return l
}

// With returns a filter for the lists and the URIs of f.
func (f Filter) With(l Lists) Filter {
	own := l.Filter()
	own.URIs = f.URIs
	return own
}

// Intersect returns what both filters ask for, with URIs and tasks in the order of f.
func (f Filter) Intersect(o Filter) Filter {
	both := (f.Lists() & o.Lists()).Filter()
	both.URIs, both.TaskIDs = intersect(f.URIs, o.URIs), intersect(f.TaskIDs, o.TaskIDs)
	return both
}

// Covers reports whether f asks for all lists and URIs of o. It ignores tasks: no
// notification will follow about a task that has ended.
func (f Filter) Covers(o Filter) bool {
	return o.Lists()&^f.Lists() == 0 && len(intersect(o.URIs, f.URIs)) == len(o.URIs)
}

func intersect(names, others []string) []string {
	var both []string
	theirs := setOf(others)
	for _, name := range names {
		if theirs[name] {
			both = append(both, name)
		}
	}
	return both
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Lists is a set of lists that clients can be notified of.
type Lists uint8

// The lists. Resources includes the resource templates.
const (
	Tools Lists = 1 << iota
	Prompts
	Resources
)

// Methods returns the notifications for changes of the lists, in a fixed order.
func (l Lists) Methods() []string {
	var methods []string
	if l&Tools != 0 {
		methods = append(methods, MethodTools)
	}
	if l&Prompts != 0 {
		methods = append(methods, MethodPrompts)
	}
	if l&Resources != 0 {
		methods = append(methods, MethodResources)
	}
	return methods
}

// Filter returns a filter for the lists only.
func (l Lists) Filter() Filter {
	return Filter{Tools: l&Tools != 0, Prompts: l&Prompts != 0, Resources: l&Resources != 0}
}

// A Set is a filter as a set: the union of several listens, or what a server has
// agreed to.
type Set struct {
	Lists       Lists
	URIs, Tasks map[string]bool
}

// NewSet returns an empty set.
func NewSet() Set {
	return Set{URIs: make(map[string]bool), Tasks: make(map[string]bool)}
}

// SetOf returns what the filter asks for.
func SetOf(f Filter) Set {
	return Set{Lists: f.Lists(), URIs: setOf(f.URIs), Tasks: setOf(f.TaskIDs)}
}

// Add adds what the filter asks for.
func (s *Set) Add(f Filter) {
	s.Lists |= f.Lists()
	for _, uri := range f.URIs {
		s.URIs[uri] = true
	}
	for _, id := range f.TaskIDs {
		s.Tasks[id] = true
	}
}

// Filter returns a filter for the set, in a fixed order, so that equal sets give equal
// bytes.
func (s Set) Filter() Filter {
	f := s.Lists.Filter()
	f.URIs, f.TaskIDs = sorted(s.URIs), sorted(s.Tasks)
	return f
}

// IsEmpty reports whether the set asks for nothing.
func (s Set) IsEmpty() bool { return s.Lists == 0 && len(s.URIs) == 0 && len(s.Tasks) == 0 }

// Has reports whether the set contains all that the filter asks for.
func (s Set) Has(f Filter) bool { return s.Covers(SetOf(f)) }

// Covers reports whether the set contains all of o.
func (s Set) Covers(o Set) bool {
	return o.Lists&^s.Lists == 0 && isSubset(o.URIs, s.URIs) && isSubset(o.Tasks, s.Tasks)
}

func isSubset(a, b map[string]bool) bool {
	for name := range a {
		if !b[name] {
			return false
		}
	}
	return true
}

// Of returns the part of f that is in the set, in the order of f.
func (s Set) Of(f Filter) Filter { return f.Intersect(s.Filter()) }

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
