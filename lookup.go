// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// lookup is the item that a request refers to.
type lookup struct {
	kind catalog.Kind
	name string      // or URI
	ref  *mcp.Object // the parameters of a completion, which contain the ref; otherwise nil

	isDirectory bool // the URI is that of a directory
}

// lookupResult is the result of a lookup and the view in which it was made.
type lookupResult struct {
	*view

	entry *catalog.Entry // nil if there is no such item
	field mcp.Field      // the field by which a completion names it
}

// lookupRef returns the lookup of a completion's ref. Its type decides which member counts.
func lookupRef(params *mcp.Object) lookup {
	if kind, _ := params.Text(mcp.FieldRefType); kind == "ref/prompt" {
		name, _ := params.Text(mcp.FieldRefName)
		return lookup{kind: catalog.Prompts, name: name, ref: params}
	}
	uri, _ := params.Text(mcp.FieldRefURI)
	return lookup{kind: catalog.Resources, name: uri, ref: params}
}

// find looks up the item of a request in one view. It records a request for a hidden
// item; the caller cannot distinguish this from an unknown one.
func (g *Gateway) find(ctx context.Context, req *mcp.Request, l lookup) lookupResult {
	// Wait for a backend that may offer the item and is still starting. However the
	// wait ends, the answer is what is known then.
	_ = g.await(ctx, req.Profile, func(v *view) (time.Duration, bool) {
		switch {
		case g.view.Load().users != nil:
			v = g.viewFor(viewerOf(req))
		case v.policy != nil: // a hidden item is not waited for, like an unknown one
			v = g.asSeenBy(viewerOf(req), v)
		}
		return l.pending(v)
	})
	f := l.find(g.viewFor(viewerOf(req)))
	if !f.isListed() {
		// The lists of the user or the session may contain the item, or no longer contain it.
		if g.view.Load().users != nil {
			l.awaitUserLists(ctx, g, req, f.view)
		}
		l.awaitSessionLists(ctx, g, req, f.view)
		f = l.find(g.viewFor(viewerOf(req)))
	}
	if f.entry == nil {
		g.noteHidden(ctx, f.view, req, l)
	}
	return f
}

// awaitUserLists waits for lists of the sender of a request that may contain the item. It is a
// separate function, because its parameters escape.
//
//go:noinline
func (l lookup) awaitUserLists(ctx context.Context, g *Gateway, req *mcp.Request, v *view) {
	g.awaitUserLists(ctx, req, v.cfg.Limits.Handshake, func(b *activeBackend) bool { return l.mayBeSeenAt(v, b) })
}

// awaitSessionLists waits for lists of the session of a request that may contain the item. It is a
// separate function for the same reason.
//
//go:noinline
func (l lookup) awaitSessionLists(ctx context.Context, g *Gateway, req *mcp.Request, v *view) {
	g.awaitSessionLists(ctx, req, func(b *activeBackend) bool { return v.catalog.HasOwnNames() || l.mayBeAt(b) })
}

// pending is view.pending for the backends that may offer the item. It waits for none
// if the item is known already.
func (l lookup) pending(v *view) (left time.Duration, ok bool) {
	if l.find(v).isListed() {
		return 0, false
	}
	if v.outdated(func(b *activeBackend) bool { return l.mayBeSeenAt(v, b) }) {
		return noLimit, true // another catalog is built at once
	}
	left, ok = v.pending(v.cfg.Limits.Handshake, func(b *activeBackend, o *backend.Offer) bool { return l.isUnknownIn(o) && l.mayBeSeenAt(v, b) })
	for i, now := 0, time.Now(); i < len(v.backends) && left != noLimit; i++ {
		if rest := v.backends[i].remainingSignIn(v.offered[i], now); rest > 0 && l.mayBeSeenAt(v, v.backends[i]) {
			left, ok = max(left, rest), true
		}
	}
	return left, ok
}

// isUnknownIn reports whether a list that may contain the item is not known.
func (l lookup) isUnknownIn(o *backend.Offer) bool {
	return !o.Answered(l.kind) || l.kind == catalog.Resources && !o.Answered(catalog.Templates)
}

// mayBeAt reports whether a backend with unknown lists may have the item. Prefixes
// decide this for names; nothing decides it for URIs in general.
func (l lookup) mayBeAt(b *activeBackend) bool {
	return !isNamed(l.kind) || b.mayOffer(l.name)
}

// mayBeSeenAt is mayBeAt for the client of a view. A URI with the label of a backend that the client
// may see is of that backend.
func (l lookup) mayBeSeenAt(v *view, b *activeBackend) bool {
	if !v.catalog.HasOwnNames() && !l.mayBeAt(b) {
		return false
	}
	if l.kind != catalog.Resources {
		return v.maySee(b, l.kind)
	}
	if owner, ok := v.catalog.Owner(l.name); ok && owner.BackendName != b.Name() {
		if of, ok := v.backendOf(owner); ok && v.maySeeResources(of) {
			return false
		}
	}
	return v.maySeeResources(b)
}

func (v *view) maySeeResources(b *activeBackend) bool {
	return v.maySee(b, catalog.Resources) || v.maySee(b, catalog.Templates)
}

// find looks in the catalog of one view. The whole answer must come from that view: a
// name belongs to the backend that this view has for it.
func (l lookup) find(v *view) lookupResult {
	f := lookupResult{view: v}
	var ok bool
	switch {
	case l.ref != nil:
		f.entry, f.field, ok = v.catalog.Reference(l.ref)
	case l.kind == catalog.Tools:
		f.entry, ok = v.catalog.Tool(l.name)
	case l.kind == catalog.Prompts:
		f.entry, ok = v.catalog.Prompt(l.name)
	case l.kind == catalog.Skills:
		f.entry, ok = v.catalog.Skill(l.name)
	case l.isDirectory:
		f.entry, ok = v.catalog.Directory(l.name)
	default:
		f.entry, ok = v.catalog.Resource(l.name)
	}
	if !ok || v.hidesPlain(f.entry) || v.holds(f.entry) {
		f.entry = nil
	}
	return f
}

// hidesPlain reports whether a URI that is in no list is another spelling of one that the view
// hides: a template must not lead to it.
func (v *view) hidesPlain(e *catalog.Entry) bool {
	if v.class == nil || e.JSON() != nil {
		return false
	}
	plain := e.PlainName()
	return plain != e.Name && (v.catalog.Hides(catalog.Resources, plain) || v.catalog.Hides(e.Kind, plain))
}

// isListed reports whether the lookup found an item that is in a list. A URI that is in
// no list is routed by the best matching template among those known.
func (f lookupResult) isListed() bool { return f.entry != nil && f.entry.JSON() != nil }

// discoverTimeout bounds how long initialize and server/discover wait for backends that
// are starting. It is below the shortest known timeout of a client (ADR 0044).
const discoverTimeout = 3 * time.Second

// noLimit is the wait of a pending function without a limit.
const noLimit = time.Duration(-1)

// pending reports whether a backend that lacking accepts is still starting, and for how
// long to wait for it: until its start has taken limit. A negative limit means no limit.
func (v *view) pending(limit time.Duration, lacking func(*activeBackend, *backend.Offer) bool) (left time.Duration, ok bool) {
	if !v.built && len(v.backends) > 0 {
		return noLimit, true // the first catalog of a configuration is built at once, whatever its backends do
	}
	now := time.Now()
	for i, b := range v.backends {
		if !lacking(b, v.offered[i]) {
			continue
		}
		switch rest := remainingStart(b.Backend, limit, now); {
		case rest < 0:
			return noLimit, true
		case rest > 0:
			left, ok = max(left, rest), true
		}
	}
	return left, ok
}

// remainingStart returns what is left of the limit for the start of a backend, or
// noLimit.
func remainingStart(b *backend.Backend, limit time.Duration, now time.Time) time.Duration {
	if limit < 0 {
		return noLimit
	}
	began, ok := b.Began()
	if !ok {
		return limit // it waits for a start slot
	}
	return max(0, limit-now.Sub(began))
}

// listsPending is pending for a list, to which every backend may add.
func (v *view) listsPending(k catalog.Kind) (time.Duration, bool) {
	return v.pending(v.cfg.Limits.FirstList, func(_ *activeBackend, o *backend.Offer) bool { return !o.Answered(k) })
}

// discoverPending is pending for the result of server/discover.
func (v *view) discoverPending() (time.Duration, bool) {
	limit := v.cfg.Limits.FirstList
	if limit < 0 || limit > discoverTimeout {
		limit = discoverTimeout
	}
	return v.pending(limit, func(_ *activeBackend, o *backend.Offer) bool { return !o.AnsweredAny() })
}

// await returns nil once pending reports false for the current view of a profile, or an
// error if ctx or the Gateway ends before.
func (g *Gateway) await(ctx context.Context, profile string, pending func(*view) (time.Duration, bool)) error {
	for {
		v := g.view.Load().at(profile)
		left, wait := pending(v)
		if !wait {
			return nil
		}
		if err := g.awaitChange(ctx, v.replaced, left); err != nil {
			return err
		}
	}
}

// awaitChange returns nil when changed is closed, or the time has passed; noLimit does not pass. The
// error is that ctx or the Gateway has ended.
func (g *Gateway) awaitChange(ctx context.Context, changed <-chan struct{}, left time.Duration) error {
	var over <-chan time.Time
	if left >= 0 {
		over = time.After(left)
	}
	select {
	case <-changed:
		return nil
	case <-over:
		return nil
	case <-g.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withTimeout is context.WithTimeout for a limit: a negative one means no limit.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}
