// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/backend"
)

// userViews are what users see of a view in which backends list only for users that are signed in.
// Users that these offer the same see one view. What was used last is kept.
type userViews struct {
	base  *view
	g     *Gateway
	lists []*activeBackend // that list only for users that are signed in

	made recent[userContent, *userView]
}

// userContent identifies what users are offered.
type userContent string

// userView is what some users see of a view.
type userView struct {
	build sync.Once
	view  *view
}

// withUsers lets a view have parts for users, if one of its backends lists only for them.
func (g *Gateway) withUsers(v *view) {
	var own []*activeBackend
	for i, b := range v.backends {
		if b.listsPerUser(v.offered[i]) {
			own = append(own, b)
		}
	}
	if own != nil {
		v.users = &userViews{base: v, g: g, lists: own}
	}
}

// listsPerUser reports whether a backend lists only for users that are signed in, for each its own.
func (b *activeBackend) listsPerUser(o *backend.Offer) bool {
	return o.Refused && b.users != nil
}

// backends returns the backends that list only for users that are signed in.
func (v *userViews) backends() []*activeBackend {
	if v == nil {
		return nil
	}
	return v.lists
}

// of returns the view of a user that is offered this.
func (v *userViews) of(offers userOffers) *view {
	var content []byte
	has := false
	for _, b := range v.lists {
		o, ok := offers[b.Backend]
		has = has || ok
		content = append(content, o.content[:]...) // zero for nothing of its own
	}
	if !has {
		return v.base
	}
	seen := v.made.getOrAdd(userContent(content), func() *userView { return new(userView) })
	// Not under the lock: with thousands of items it takes long.
	seen.build.Do(func() { seen.view = v.make(offers) })
	return seen.view
}

// make builds the view in which the backends offer this.
func (v *userViews) make(offers userOffers) *view {
	next := *v.base
	next.offered = slices.Clone(v.base.offered)
	for i, b := range next.backends {
		if o, ok := offers[b.Backend]; ok && slices.Contains(v.lists, b) {
			next.offered[i] = o.Offer
		}
	}
	next.catalog = next.build(next.offered)
	v.g.derive(&next, v.base)
	next.users = nil // it is of some already
	return &next
}
