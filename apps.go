// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// This file has what is different for clients that render MCP Apps
// (io.modelcontextprotocol/ui). Such a client declares that in initialize, or in each request. It has
// the view for clients that render: with the tools that are for apps alone, and of the backends
// with an app the lists that these offer to such clients. All others have the shared view.

// namedOwn is, in the audit record, how a tool was named that the client has called by the name
// that its backend has for it.
const namedOwn = "own"

// renders reports whether a client has declared that it renders apps.
func (g *Gateway) renders(client *mcp.Peer) bool {
	return client != nil && client.Capabilities != nil && g.perClient.featuresOf(client.Capabilities).Has(backend.RendersApps)
}

// renders reports whether the only client is known, and renders apps.
func (s *onlyClient) renders() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.known:
		p := s.client.Peer
		return p != nil && backend.FeaturesOf(p.Capabilities).Has(backend.RendersApps)
	default:
		return false
	}
}

// appOptions returns what becomes of apps in the catalog of the view.
func (v *view) appOptions() catalog.Apps {
	return catalog.Apps{Declare: !v.cfg.Apps.Off, Render: v.rendered, Fence: v.cfg.Apps.HasFence()}
}

// featuresAt returns the features that the lists of a backend are requested with for clients
// with the features p. A backend without an app is not asked a second time for those that
// render apps.
func (v *view) featuresAt(b *activeBackend, p backend.Features) backend.Features {
	if p.Has(backend.RendersApps) && !v.mayHaveApp(b) {
		return p &^ backend.RendersApps
	}
	return p
}

// mayHaveApp reports whether a backend may list an app to clients that render apps: its lists
// have one, or it declares the extension, or its entry declares that it has one.
func (v *view) mayHaveApp(b *activeBackend) bool {
	if v.cfg.HasNoApps(&b.srv) {
		return false
	}
	return b.srv.HasApps() || v.catalog.HasApp(b.Name()) || extension.Declares(v.offerOf(b).Server.Capabilities, extension.UI)
}

// hasOneSession reports whether all clients share a session with the backend, and so have one list.
// Modern servers have no sessions: each request has the capabilities of its client.
func (v *view) hasOneSession(b *activeBackend) bool {
	return b.srv.Share && v.offerOf(b).Server.Version.Era() != mcp.EraModern
}

// mayHaveApps reports whether any backend has an app, or may have one in the lists of a user.
func (v *view) mayHaveApps() bool {
	return v.catalog.HasApps() || v.hasUsers(v.offered) || slices.ContainsFunc(v.backends, v.mayHaveApp)
}

// findOwn looks up a tool by the name that its backend has for it. The page of an app calls the
// tools of its server by these names, which its client passes on. It finds a tool for a client
// that renders apps, if apps may call the tool, its backend has an app, and no other such tool
// of the client's view has the name. The name is looked up anew for each request.
//
// Its second result is false if the name is unknown, also as that of a tool which is only in
// lists that were not fetched yet.
func (g *Gateway) findOwn(ctx context.Context, req *mcp.Request, name string) (lookupResult, bool, error) {
	of := viewerOf(req)
	// Another app may have the name. However the wait ends, the answer is what is known then.
	_ = g.await(ctx, req.Profile, func(v *view) (time.Duration, bool) { return g.asSeenBy(of, v).appsPending() })
	g.awaitFeatureLists(ctx, req)
	g.awaitUserLists(ctx, req, g.view.Load().cfg.Limits.FirstList, anyBackend)
	v := g.viewFor(of)
	if f := (lookup{kind: catalog.Tools, name: name}).find(v); f.entry != nil {
		return f, true, g.checkListed(req, name, f)
	}
	found := v.catalog.AppTools(name)
	if len(found) == 0 {
		return lookupResult{view: v}, false, nil
	}
	if len(found) == 1 {
		if former := v.ownNames.bind(name, found[0]); former != nil && v.maySeeTool(of, former) {
			found = append(found, former)
		}
	}
	if len(found) > 1 {
		return lookupResult{}, false, severalApps(name, found)
	}
	return lookupResult{view: v, entry: found[0]}, true, nil
}

// appsPending is pending for the tools of backends that may have an app. A client that may see
// nothing of a backend does not wait for it.
func (v *view) appsPending() (time.Duration, bool) {
	return v.pending(v.cfg.Limits.FirstList, func(b *activeBackend, o *backend.Offer) bool {
		return !o.Answered(catalog.Tools) && !v.cfg.HasNoApps(&b.srv) && v.maySee(b, catalog.Tools)
	})
}

// maySeeTool reports whether a client may see a tool that may not be listed any more.
func (v *view) maySeeTool(of viewer, e *catalog.Entry) bool {
	if _, ok := v.backend(e.BackendName); !ok {
		return false // of another profile
	}
	if v.policy == nil || v.policy.dryRun {
		return true
	}
	item := policy.NewItem(policy.Tool, e.BackendName, e.Name, e.Own, e.JSON())
	verdict := v.policy.List(v.policy.Subject(of.currentIdentity(), of.Peer), item)
	return !verdict.Hidden()
}

// severalApps is the error for a name that several tools have.
func severalApps(name string, found []*catalog.Entry) error {
	var names []string
	for _, e := range found {
		names = append(names, shorten(e.Name))
	}
	slices.Sort(names)
	return &mcp.Fault{ // nothing about tools that the client does not see
		Code: mcp.CodeInvalidParams, Outcome: mcp.NotDispatched, Reason: code.AppName,
		Message: fmt.Sprintf("%q is a tool of %d servers here (%s); give them profiles of their own", shorten(name), len(found), strings.Join(names, ", ")),
	}
}

// checkListed returns an error if a tool that is found by its listed name must not be called by
// it: an app has called another server's tool so.
func (g *Gateway) checkListed(req *mcp.Request, name string, f lookupResult) error {
	former := f.ownNames.boundTo(name)
	if former == nil || f.entry.IsOwn() || former.BackendName == f.entry.BackendName || req.Outer != nil || !g.renders(req.Client) || !f.maySeeTool(viewerOf(req), former) {
		return nil
	}
	return severalApps(name, []*catalog.Entry{former, f.entry})
}

// ownNames are the tools that were called by the names of their backends, in one configuration.
// A name that one tool has had is never that of another server's: it becomes refused.
type ownNames struct {
	used atomic.Bool // there are some

	mu    sync.Mutex
	bound map[string]*catalog.Entry
}

// maxOwnNames bounds the names. It is above the number of tools that apps have.
const maxOwnNames = 10_000

// bind binds a name to a tool. If it is bound to a tool of another backend, bind returns that.
func (n *ownNames) bind(name string, e *catalog.Entry) (former *catalog.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	bound, ok := n.bound[name]
	switch {
	case ok && bound.BackendName != e.BackendName:
		return bound
	case !ok && len(n.bound) >= maxOwnNames:
		return nil
	case n.bound == nil:
		n.bound = make(map[string]*catalog.Entry)
	}
	n.bound[strings.Clone(name)] = e
	n.used.Store(true)
	return nil
}

// boundTo returns the tool that a name is bound to, or nil.
func (n *ownNames) boundTo(name string) *catalog.Entry {
	if n == nil || !n.used.Load() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bound[name]
}

// renamedTo returns a request for a tool as one by the name that is listed, with which it is
// judged, limited and recorded.
func renamedTo(req *mcp.Request, e *catalog.Entry) *mcp.Request {
	next := *req
	next.Params = req.Params.WithText(mcp.FieldName, e.Name)
	return &next
}
