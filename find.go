// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// wanted is what a request is for.
type wanted struct {
	kind catalog.Kind
	name string      // or URI
	ref  *mcp.Object // the parameters of a completion, whose ref says it; else nil
}

// found is what there is of it, and the view in which it was looked for.
type found struct {
	*view

	entry *catalog.Entry // nil where there is nothing
	field mcp.Field      // by which a completion names it
}

// referred is what a completion is about.
func referred(params *mcp.Object) wanted {
	if name, ok := params.Text(mcp.FieldRefName); ok {
		return wanted{catalog.Prompts, name, params}
	}
	uri, _ := params.Text(mcp.FieldRefURI)
	return wanted{catalog.Resources, uri, params}
}

// find looks up what a request is for, in one view. What nobody offers is
// recorded where it is hidden; the caller cannot tell.
func (g *Gateway) find(ctx context.Context, req *mcp.Request, w wanted) found {
	// A backend that may bring it and is still starting is waited for, whatever the end
	// of that: the answer is what is known then.
	_ = g.await(ctx, w.pending)
	f := w.in(g.viewFor(clientOf(req)))
	if !f.certain() {
		// The session's own lists may bring it, or have lost it.
		g.awaitSession(ctx, req, w.mayComeFrom)
		f = w.in(g.viewFor(clientOf(req)))
	}
	if f.entry == nil {
		g.noteHidden(ctx, f.view, req, w)
	}
	return f
}

// pending is that of a view for the backends that may bring what is wanted. What is
// known already waits for none.
func (w wanted) pending(v *view) (left time.Duration, ok bool) {
	if w.in(v).certain() {
		return 0, false
	}
	if v.outdated(w.mayComeFrom) {
		return always, true // another catalog is built at once
	}
	return v.pending(v.cfg.Limits.Handshake, func(u *unit, h knownLists) bool { return w.lacks(h) && w.mayComeFrom(u) })
}

// lacks reports whether a list that it may be in is not known.
func (w wanted) lacks(h knownLists) bool {
	if w.kind == catalog.Resources {
		return !h[catalog.Resources] || !h[catalog.Templates]
	}
	return !h[w.kind]
}

// mayComeFrom reports whether a backend of which nothing is known may have it. Names say
// whose they can be, and URIs do not.
func (w wanted) mayComeFrom(u *unit) bool {
	byName := w.kind == catalog.Tools || w.kind == catalog.Prompts
	return !byName || u.mayBring(w.name)
}

// in looks in the catalog of one view. Nothing of the answer may come from another
// one: a name that was found belongs to the backend that this view has for it.
func (w wanted) in(v *view) found {
	f := found{view: v}
	var ok bool
	switch {
	case w.ref != nil:
		f.entry, f.field, ok = v.catalog.Reference(w.ref)
	case w.kind == catalog.Tools:
		f.entry, ok = v.catalog.Tool(w.name)
	case w.kind == catalog.Prompts:
		f.entry, ok = v.catalog.Prompt(w.name)
	default:
		f.entry, ok = v.catalog.Resource(w.name)
	}
	if !ok {
		f.entry = nil
	}
	return f
}

// certain reports whether something was found that a list has. A URI that is in no
// list is given to whom it fits best of those that are known.
func (f found) certain() bool { return f.entry != nil && f.entry.JSON() != nil }
