// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// listedFor is what a backend lists for some of its users.
type listedFor struct {
	offer *backend.Offer
	users []string
}

// different returns the different lists of a backend with their users, and all users with known
// lists.
func (l *userLists) different(b *activeBackend) (lists []*listedFor, users []string) {
	byContent := make(map[backend.Content]*listedFor)
	for _, u := range l.everybody() {
		o, _ := u.listsOf(b.Backend)
		if o.Offer == nil || !o.Known() {
			continue
		}
		one := byContent[o.content]
		if one == nil {
			one = &listedFor{offer: o.Offer}
			byContent[o.content], lists = one, append(lists, one)
		}
		one.users = append(one.users, u.principal)
		users = append(users, u.principal)
	}
	return lists, distinct(users)
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// ofUsers explains the items that a backend lists for some of its users only. Each is explained
// once, with the number of the users, and no user is named.
func (x *explainer) ofUsers(e *Explanation, allow func(*catalog.Entry) bool) {
	for _, b := range x.v.users.backends() {
		place := slices.Index(x.v.backends, b)
		lists, all := x.g.userLists.different(b)
		type key struct {
			kind    catalog.Kind
			own     string
			verdict catalog.Verdict
		}
		items, users := make(map[key]*ExplainedItem), make(map[key][]string)
		var order []key
		for _, list := range lists {
			own := x.with(place, list.offer)
			for _, d := range catalog.Explain(own.in, own.opt, allow, func(d *catalog.Decision) bool { return d.Backend == place && own.isAbout(d) }) {
				k := key{d.Kind, d.Own, d.Verdict}
				if items[k] == nil {
					item := own.item(&d)
					items[k], order = &item, append(order, k)
				}
				users[k] = append(users[k], list.users...)
			}
		}
		for _, k := range order {
			item := items[k]
			text := fmt.Sprintf("for %d of its %d users that are signed in and use the gateway", len(distinct(users[k])), len(all))
			item.Chain = slices.Insert(item.Chain, 1, ExplainedStep{Text: text})
			e.Offered = e.Offered || item.Offered && item.Name == x.name
			e.Items = append(e.Items, *item)
		}
	}
}

// unlistedForUsers returns that no user of a backend has the name, or "" without known users.
func (x *explainer) unlistedForUsers(b *activeBackend, o *backend.Offer) string {
	if !b.listsPerUser(o) {
		return ""
	}
	_, all := x.g.userLists.different(b)
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("server %s lists for each user that is signed in, and this name for none of the %d that use the gateway", b.Name(), len(all))
}

// with returns an explainer for users to which a backend offers this.
func (x *explainer) with(place int, o *backend.Offer) *explainer {
	own, v := *x, *x.v
	v.offered = slices.Clone(v.offered)
	v.offered[place] = o
	own.v, own.isOfSome = &v, true
	own.in = slices.Clone(x.in)
	own.in[place] = v.backends[place].input(o)
	own.in[place].OwnNames = x.in[place].OwnNames
	return &own
}
