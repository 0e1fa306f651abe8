// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"

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
	f := w.in(g.view.Load())
	if !f.certain() && !g.listsOpen() {
		f = g.await(ctx, w)
	}
	if f.entry == nil {
		g.noteHidden(ctx, f.view, req, w)
	}
	return f
}

// await looks up what may be known in a moment, because the first lists of
// backends are still on their way. Those backends are waited for that may bring
// it, and no longer than lists are.
func (g *Gateway) await(ctx context.Context, w wanted) found {
	changed := newBell()
	g.changes.add(changed) // before the first look, so that no change falls between
	defer g.changes.remove(changed)
	for {
		f := w.in(g.view.Load())
		if f.certain() || !f.stillComing(w) {
			return f
		}
		select {
		case <-changed:
			continue
		case <-g.listable:
		case <-g.ctx.Done():
		case <-ctx.Done():
		}
		return w.in(g.view.Load())
	}
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

// stillComing reports whether a backend that was not heard of yet may bring what
// is wanted. Names say whose they can be, and URIs do not.
func (f found) stillComing(w wanted) bool {
	byName := w.kind == catalog.Tools || w.kind == catalog.Prompts
	for i, u := range f.units {
		// A view that a reload has just made has heard of nobody yet, whatever is known of the
		// backends that it keeps.
		unheard := i >= len(f.heard) || !f.heard[i]
		if unheard && (!byName || u.mayBring(w.name)) {
			return true
		}
	}
	return false
}
