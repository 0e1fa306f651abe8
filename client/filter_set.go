// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

// filterSet is a filter as a set: the union of several listens, or what a server has
// agreed to.
type filterSet struct {
	lists       changes
	uris, tasks map[string]bool
}

func newFilterSet() filterSet {
	return filterSet{uris: make(map[string]bool), tasks: make(map[string]bool)}
}

func filterSetOf(f filter) filterSet {
	return filterSet{lists: f.lists(), uris: setOf(f.URIs), tasks: setOf(f.TaskIDs)}
}

// add adds what the filter asks for.
func (i *filterSet) add(f filter) {
	i.lists |= f.lists()
	for _, uri := range f.URIs {
		i.uris[uri] = true
	}
	for _, id := range f.TaskIDs {
		i.tasks[id] = true
	}
}

// filter returns a filter for the set, in a fixed order, so that equal sets give equal
// bytes.
func (i filterSet) filter() filter {
	f := i.lists.filter()
	f.URIs, f.TaskIDs = sorted(i.uris), sorted(i.tasks)
	return f
}

func (i filterSet) isEmpty() bool { return i.lists == 0 && len(i.uris) == 0 && len(i.tasks) == 0 }

// has reports whether the set contains all that the filter asks for.
func (i filterSet) has(f filter) bool { return i.covers(filterSetOf(f)) }

// covers reports whether the set contains all of o.
func (i filterSet) covers(o filterSet) bool {
	return o.lists&^i.lists == 0 && isSubset(o.uris, i.uris) && isSubset(o.tasks, i.tasks)
}

func isSubset(a, b map[string]bool) bool {
	for name := range a {
		if !b[name] {
			return false
		}
	}
	return true
}

// of returns the part of f that is in the set, in the order of f.
func (i filterSet) of(f filter) filter { return f.common(i.filter()) }
