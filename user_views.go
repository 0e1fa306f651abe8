// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"container/list"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/backend"
)

// maxUserViews is the number of different lists of users that a view keeps what they see for.
const maxUserViews = 1024

// userViews are what users see of a view in which backends list only for users that are signed in.
// Users that these offer the same see one view. What was used last is kept.
type userViews struct {
	base  *view
	g     *Gateway
	lists []*activeBackend // that list only for users that are signed in

	mu        sync.Mutex
	byContent map[userContent]*list.Element // of userView
	order     list.List                     // the latest one first
}

// userContent identifies what users are offered.
type userContent string

// userView is what some users see of a view.
type userView struct {
	content userContent
	build   sync.Once
	view    *view
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
		v.users = &userViews{base: v, g: g, lists: own, byContent: make(map[userContent]*list.Element)}
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
	seen := v.find(userContent(content))
	// Not under the lock: with thousands of items it takes long.
	seen.build.Do(func() { seen.view = v.make(offers) })
	return seen.view
}

func (v *userViews) find(content userContent) *userView {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.byContent[content]; ok {
		v.order.MoveToFront(at)
		return at.Value.(*userView) //nolint:forcetypeassert // the list has nothing else
	}
	if v.order.Len() >= maxUserViews {
		oldest := v.order.Remove(v.order.Back()).(*userView) //nolint:forcetypeassert // likewise
		delete(v.byContent, oldest.content)
	}
	made := &userView{content: content}
	v.byContent[content] = v.order.PushFront(made)
	return made
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
