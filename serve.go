// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Serve answers one request of one client. It makes a Gateway a [mcp.Handler],
// so that a gateway can stand behind another.
func (g *Gateway) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	g.onlyClient.set(req)
	if kind, ok := catalog.KindOf(req.Method); ok {
		return g.list(ctx, req, kind)
	}
	switch req.Method {
	case "tools/call":
		return g.serveRecorded(ctx, req, caller, (*Gateway).call)
	case "prompts/get":
		return g.serveRecorded(ctx, req, caller, (*Gateway).prompt)
	case "resources/read":
		return g.serveRecorded(ctx, req, caller, (*Gateway).read)
	case "completion/complete":
		return g.complete(ctx, req, caller)
	case "server/discover":
		return g.discover(ctx, req)
	case "tasks/get", "tasks/update", "tasks/cancel", "tasks/result":
		return g.task(ctx, req, caller)
	case "tasks/list":
		return g.listTasks(ctx, req, caller)
	case "subscriptions/listen":
		return g.listen(ctx, req, caller)
	case "logging/setLevel", "notifications/roots/list_changed":
		return g.notifyBackends(req) //nolint:contextcheck // outlives the request on purpose
	case taskStatus:
		return g.forwardTaskStatus(req) //nolint:contextcheck // likewise
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method %q", shorten(req.Method))
	}
}

// call serves tools/call, and says which backend it was given to. A tool that is
// hidden and one that does not exist answer alike.
func (g *Gateway) call(ctx context.Context, req *mcp.Request, caller mcp.Caller) (by string, res *mcp.Result, err error) {
	name, err := textOf(req, mcp.FieldName)
	if err != nil {
		return "", nil, err
	}
	f := g.find(ctx, req, lookup{kind: catalog.Tools, name: name})
	if f.entry == nil {
		return "", nil, f.unknown(catalog.Tools, name)
	}
	if err := mcp.CheckParamHeaders(f.entry.ParamHeaders, req.ParamHeaders, req.Params.Raw(mcp.FieldArguments)); err != nil {
		return "", nil, err // the backend was not asked
	}
	res, err = f.forward(ctx, f.entry, mcp.FieldName, req, caller)
	if err == nil {
		g.noteTask(req, res)
	}
	return f.entry.BackendName, res, err
}

// prompt serves prompts/get, by the same rules.
func (g *Gateway) prompt(ctx context.Context, req *mcp.Request, caller mcp.Caller) (by string, res *mcp.Result, err error) {
	name, err := textOf(req, mcp.FieldName)
	if err != nil {
		return "", nil, err
	}
	f := g.find(ctx, req, lookup{kind: catalog.Prompts, name: name})
	if f.entry == nil {
		return "", nil, f.unknown(catalog.Prompts, name)
	}
	res, err = f.forward(ctx, f.entry, mcp.FieldName, req, caller)
	return f.entry.BackendName, res, err
}

// read serves resources/read. A URI is a locator that means the same to client and
// backend, and so nothing of the request is changed (FieldNone).
func (g *Gateway) read(ctx context.Context, req *mcp.Request, caller mcp.Caller) (by string, res *mcp.Result, err error) {
	uri, err := textOf(req, mcp.FieldURI)
	if err != nil {
		return "", nil, err
	}
	f := g.find(ctx, req, lookup{kind: catalog.Resources, name: uri})
	if f.entry == nil {
		return "", nil, unknownResource(uri)
	}
	res, err = f.forward(ctx, f.entry, mcp.FieldNone, req, caller)
	return f.entry.BackendName, res, err
}

// complete serves completion/complete. The one to ask is whoever has the prompt or
// template of the ref, which goes by the backend's own name from here on.
func (g *Gateway) complete(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	f := g.find(ctx, req, lookupRef(&req.Params))
	if f.entry == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "completion/complete: ref names no prompt and no resource template of this server")
	}
	return f.forward(ctx, f.entry, f.field, req, caller)
}

// forward sends a request to the backend of an entry, which knows the item by a
// name of its own: that is what field is set to. All other bytes of the
// parameters stay as they came.
func (v *view) forward(ctx context.Context, entry *catalog.Entry, field mcp.Field, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	b, ok := v.backendOf(entry)
	if !ok {
		return nil, v.unknown(entry.Kind, entry.Name)
	}
	if field == mcp.FieldNone || entry.Own == entry.Name {
		return b.Serve(ctx, req, caller)
	}
	e, err := b.renamedRequest(req, field, entry.Own, caller)
	if err != nil {
		return nil, err
	}
	return b.serve(ctx, e)
}

// renamed is errand for a request that asks for an item by its name outside. It has
// returned, and what it needs on the stack is free, before the backend is asked.
func (b *activeBackend) renamedRequest(req *mcp.Request, field mcp.Field, own string, caller mcp.Caller) (*backendRequest, error) {
	params := req.Params.WithText(field, own)
	return b.newRequest(req, &params, caller, nil)
}

// list answers from the catalog, once the backends that are starting have said what
// they have, or have taken too long.
func (g *Gateway) list(ctx context.Context, req *mcp.Request, kind catalog.Kind) (*mcp.Result, error) {
	if err := g.await(ctx, func(v *view) (time.Duration, bool) { return v.listsPending(kind) }); err != nil {
		return nil, err
	}
	g.awaitProfileLists(ctx, req.Client)
	g.awaitSessionLists(ctx, req, func(*activeBackend) bool { return true })
	return g.listNow(req, kind)
}

// ServeNow returns a list while no backend is starting. It makes a Gateway an
// [mcp.Instant].
func (g *Gateway) ServeNow(req *mcp.Request) (*mcp.Result, bool) {
	kind, ok := catalog.KindOf(req.Method)
	if !ok || g.ctx.Err() != nil || !g.profileListsReady(req.Client) || !g.sessionListsReady(req) {
		return nil, false
	}
	if _, wait := g.view.Load().listsPending(kind); wait {
		return nil, false
	}
	res, err := g.listNow(req, kind)
	return res, err == nil
}

// listNow answers from the catalog as it is.
func (g *Gateway) listNow(req *mcp.Request, kind catalog.Kind) (*mcp.Result, error) {
	v := g.listView(req, kind)
	// Nobody waits for the lists that this asks for: they are the next client's.
	now := time.Now()
	for _, b := range v.backends {
		b.RefreshIfOld(now)
	}
	cursor, ok := req.Params.Text(mcp.FieldCursor)
	if !ok && req.Params.Has(mcp.FieldCursor) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: cursor is not a string", req.Method)
	}
	return v.catalog.List(kind, cursor)
}

// discovery is the result of server/discover (2026-07-28, server/discover). Its
// time to live is none and its scope private, because it is what is known now:
// in the next second a backend may have come, and in a later release another
// principal may see other ones.
type discovery struct {
	SupportedVersions []mcp.Version             `json:"supportedVersions"`
	Capabilities      jsontext.Value            `json:"capabilities"`
	Instructions      string                    `json:"instructions,omitempty"`
	TTL               int                       `json:"ttlMs"`
	CacheScope        string                    `json:"cacheScope"`
	Meta              map[string]jsontext.Value `json:"_meta"`
}

// discover answers from what is known. Backends that are starting are waited for, for
// greetWithin at most: a client reads instructions and capabilities only here.
func (g *Gateway) discover(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	// Of the wait, too: a start that waits for its turn has not begun to take its time.
	within, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	_ = g.await(within, (*view).discoverPending) // what is known is the answer, whatever ended the wait
	if req.Scope != nil {
		g.initSessionLists(req)
	}
	return g.viewFor(clientOf(req)).discovery()
}

// discoveryOf returns what says what a catalog offers. It is written once, when
// somebody asks for the first time.
func (g *Gateway) discoveryOf(c *catalog.Catalog) func() (*mcp.Result, error) {
	return sync.OnceValues(func() (*mcp.Result, error) {
		raw, err := json.Marshal(discovery{
			SupportedVersions: mcp.ModernVersions(),
			Capabilities:      c.Capabilities(),
			Instructions:      c.Instructions(),
			CacheScope:        "private",
			Meta:              map[string]jsontext.Value{"io.modelcontextprotocol/serverInfo": g.info},
		})
		if err != nil {
			return nil, err
		}
		return mcp.NewResult(raw)
	})
}

// tellBackends passes on what a client says to all: that its level of logging or
// its roots changed. It concerns what the backends keep for the client's session,
// and they are told in the background: nobody's slowness is another's.
func (g *Gateway) notifyBackends(req *mcp.Request) (*mcp.Result, error) {
	if req.Scope != nil {
		for _, b := range g.view.Load().backends {
			g.notifyBackend(b, req)
		}
	}
	return mcp.NewResult([]byte("{}"))
}

// tellWithin bounds how long a backend is waited for that is told something.
const notifyTimeout = 10 * time.Second

// tellOne tells one backend. What it answers is nobody's concern, since the client
// has been answered for all of them; a backend that is gone learns the level or
// the roots when its next session begins.
func (g *Gateway) notifyBackend(b *activeBackend, req *mcp.Request) {
	// Ends within tellWithin, or with the Gateway, whose stop waits for it.
	g.begin(func() {
		ctx, cancel := context.WithTimeout(g.ctx, notifyTimeout)
		defer cancel()
		_, _ = b.Serve(ctx, req, noCaller{}) // a backend that has no use for it says so
	})
}

// nobody is the Caller of a request that has no client to be spoken to. What is
// said to it is lost, which the other side need not know; what is asked of it is
// refused at once, so that nobody waits for an answer.
type noCaller struct{}

func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

func (noCaller) Ask(context.Context, *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client can be asked outside its own requests")
}

// textOf returns a member of the parameters that has to be a string.
func textOf(req *mcp.Request, f mcp.Field) (string, error) {
	text, ok := req.Params.Text(f)
	if !ok {
		return "", mcp.Errorf(mcp.CodeInvalidParams, "%s: params.%s is missing or not a string", req.Method, f.Key())
	}
	return text, nil
}

// unknown says why there is nothing of that name: its backend was never reached or could
// not list it, so that what it offers is not known; or nobody offers it.
func (v *view) unknown(kind catalog.Kind, name string) error {
	for i, b := range v.backends {
		if !b.ownsName(name) {
			continue
		}
		// The offer that the catalog was built of: a later one may have the name.
		var why string
		switch o := v.offered[i]; {
		case !o.Known():
			why = "it has not been reached yet: " + b.unreachedReason(o)
		case o.Lists[kind].Failed && len(o.Lists[kind].Items) == 0:
			why = fmt.Sprintf("its %ss are not known: %s", kind, o.Lists[kind].Problem)
		default:
			continue
		}
		return &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: b.Name(), Message: why}
	}
	return mcp.Errorf(mcp.CodeInvalidParams, "unknown %s: %q", kind, shorten(name))
}

// unknownResource is the answer for a URI that nobody has. It names the URI, in
// the member that 2025-11-25 (server/resources, "Error Handling") shows.
func unknownResource(uri string) error {
	data, err := json.Marshal(map[string]string{"uri": shorten(uri)})
	if err != nil {
		data = nil // the text below still names it
	}
	// The modern edge says the same with the code of its era.
	return &mcp.Error{Code: mcp.CodeResourceNotFound, Message: "unknown resource", Data: data}
}

// shorten bounds what a client's own words add to an error.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
