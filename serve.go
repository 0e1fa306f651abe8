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
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/signin"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Serve answers one request of one client. It makes a Gateway a [mcp.Handler], so that
// a gateway can be a backend of another. Without a caller (nil), messages to the client
// are dropped, and questions are refused.
func (g *Gateway) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if caller == nil {
		caller = noCaller{}
	}
	req = g.withExtensions(req)
	g.onlyClient.set(req)
	g.noteIdentity(req)
	g.noteLister(req)
	g.noteUser(req)
	if kind, ok := catalog.KindOf(req.Method); ok {
		g.seen.note(req.Client)
		began := time.Now()
		res, err := g.list(ctx, req, kind)
		g.observeRequest(req.Method, began, err)
		return res, err
	}
	switch req.Method {
	case "tools/call":
		return g.serveCall(ctx, req, caller, catalog.Tools)
	case "prompts/get":
		return g.serveCall(ctx, req, caller, catalog.Prompts)
	case "resources/read":
		return g.serveCall(ctx, req, caller, catalog.Resources)
	case "completion/complete":
		return g.serveCall(ctx, req, caller, completion)
	case skillsGet:
		return g.serveCall(ctx, req, caller, catalog.Skills)
	case readDirectory:
		return g.serveCall(ctx, req, caller, directory)
	case "server/discover":
		began := time.Now()
		res, err := g.discover(ctx, req)
		g.observeRequest(req.Method, began, err)
		return res, err
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
		return g.pass(ctx, req, caller)
	}
}

// call serves tools/call, prompts/get or resources/read. A hidden item and one that does not exist have the same answer.
func (g *Gateway) call(ctx context.Context, id mcp.CallID, req *mcp.Request, caller mcp.Caller, kind catalog.Kind) (by servedBy, res *mcp.Result, err error) {
	field := mcp.FieldName
	if kind == catalog.Resources {
		field = mcp.FieldURI
	}
	name, err := textOf(req, field)
	if err != nil {
		return by, nil, err
	}
	if by.name = name; kind == catalog.Resources {
		by.name = stripURI(name)
	}
	if kind == catalog.Resources && strings.HasPrefix(name, resultURI) {
		var isKept bool
		if by.of, isKept, res, err = g.readKept(ctx, req, name); isKept {
			by.name = resultURI
			return by, res, err
		}
	}
	f := g.find(ctx, req, lookup{kind: kind, name: name})
	req.Timeline.Mark(mcp.StageResolved)
	if f.entry != nil && f.entry.IsOwn() && req.Outer != nil {
		f.entry = nil // calls of clients alone
	}
	if f.entry != nil && !f.entry.App.ForModel() && req.Outer != nil {
		f.entry = nil // likewise
	}
	if f.entry != nil && !f.entry.ReadOnly && isReadOnly(req) {
		return by, nil, &notReadOnlyError{mcp.Errorf(mcp.CodeInvalidParams, "%q does not declare readOnlyHint", shorten(name))}
	}
	if f.entry != nil && kind == catalog.Tools {
		if err := g.checkListed(req, name, f); err != nil {
			return by, nil, err
		}
	}
	if f.entry == nil && kind == catalog.Tools && req.Outer == nil && g.renders(req.Client) {
		found, ok, err := g.findOwn(ctx, req, name)
		switch {
		case err != nil:
			return by, nil, err
		case ok && found.entry.Name != name:
			by.named = namedOwn
			req, name = renamedTo(req, found.entry), found.entry.Name
			by.name = name
		}
		f = found
	}
	switch {
	case f.entry == nil && kind == catalog.Resources:
		return by, nil, unknownResource(name)
	case f.entry == nil && kind == catalog.Tools:
		if by.backend, res = f.formerGate(ctx, req, name); res != nil {
			return by, res, nil
		}
		return by, nil, asInner(req, f.unknown(kind, name))
	case f.entry == nil:
		return by, nil, f.unknown(kind, name)
	}
	by.nameAs(f.entry, name)
	item, refused := g.admit(ctx, req, f)
	if refused != nil {
		by.verdict, by.refused = refused.why, true
		return by, refused.res, refused.err
	}
	by.verdict = item.why
	if f.entry.IsOwn() {
		by.outer = &outerCall{OuterCall: mcp.OuterCall{Name: f.entry.Name, Call: id}}
		by.of, res, err = g.serveOwnTool(ctx, item, by.outer, req, caller)
		return by, res, err
	}
	if kind == catalog.Tools {
		if err := mcp.CheckParamHeaders(f.entry.ParamHeaders, req.ParamHeaders, req.Params.Raw(mcp.FieldArguments)); err != nil {
			return by, nil, err // not sent to the backend
		}
	}
	if err := g.charge(ctx, req, f.entry); err != nil {
		return by, nil, err
	}
	var cut *resultCut
	if item.cuts && kind == catalog.Tools && req.Outer == nil { // an outer call cuts its own result
		if cut = g.cutOf(req, item.view, id, name, req.Params.Raw(mcp.FieldArguments)); cut != nil {
			caller = readWhole(caller, cut.notice)
		}
	}
	var filter *resultFilter
	if item.filters != nil {
		if filter = item.resultFilter(req.Method); filter != nil {
			caller = readWhole(caller, filter.notice)
		}
	}
	page := g.pageRead(f, req.Method, name)
	if page != nil {
		caller = readWhole(caller, nil)
	}
	if item.asks || isAfterAnswer(req) {
		by, res, err = g.forwardAnswered(ctx, by, item, field, req, caller)
	} else {
		by.backend, res, err = g.forward(ctx, item, field, req, caller)
	}
	if page != nil && err == nil {
		res, err = page.judge(res)
	}
	if filter != nil && err == nil {
		by.verdict, res, err = g.filterResult(filter, req.Method, by.verdict, res)
	}
	if cut != nil && err == nil {
		res, err = cut.apply(res)
	}
	if err == nil && kind == catalog.Tools {
		g.noteTask(req, f.entry, res)
	}
	return by, res, err
}

// complete serves completion/complete. It is sent to the backend that has the prompt or
// template of the ref, under the backend's own name for it.
func (g *Gateway) complete(ctx context.Context, req *mcp.Request, caller mcp.Caller) (by servedBy, res *mcp.Result, err error) {
	l := lookupRef(&req.Params)
	if by.name = l.name; l.kind == catalog.Resources {
		by.name = stripURI(l.name)
	}
	f := g.find(ctx, req, l)
	req.Timeline.Mark(mcp.StageResolved)
	if f.entry == nil {
		return by, nil, mcp.Errorf(mcp.CodeInvalidParams, "completion/complete: ref names no prompt and no resource template of this server")
	}
	by.nameAs(f.entry, l.name)
	item, refused := g.admit(ctx, req, f)
	if refused != nil {
		by.verdict, by.refused = refused.why, true
		return by, refused.res, refused.err
	}
	by.verdict = item.why
	if err := g.charge(ctx, req, f.entry); err != nil {
		return by, nil, err
	}
	by.backend, res, err = g.forward(ctx, item, f.field, req, caller)
	return by, res, err
}

// forward sends a request to the backend of an item, and returns that. It sets field to the name that
// the backend uses for the item. All other bytes of the parameters are unmodified. A user without
// access to a backend that is called as its users is asked to sign in.
func (g *Gateway) forward(ctx context.Context, item admitted, field mcp.Field, req *mcp.Request, caller mcp.Caller) (b *activeBackend, res *mcp.Result, err error) {
	entry := item.entry
	b, ok := item.backendOf(entry)
	if !ok {
		return nil, nil, item.unknown(entry.Kind, entry.Name)
	}
	users, isUsers := b.access.(signsIn)
	isUsers = isUsers && !item.signingIn
	if isUsers && (req.Resumed != nil || b.isGate(item.view, entry)) {
		res, err = g.forwardAfterSignIn(ctx, b, users, item, field, req, caller, nil)
		return b, res, err
	}
	if field == mcp.FieldNone || entry.Own == entry.Name {
		res, err = b.Serve(ctx, req, caller)
	} else {
		e, invalid := b.renamedRequest(req, field, entry.Own, caller)
		if invalid != nil {
			return b, nil, invalid
		}
		e.bareURIs = isBare(req, entry)
		res, err = e.encode(b.Backend.Serve(ctx, &e.req, &e.taskIDCaller))
	}
	if isUsers && signin.IsMissing(err) {
		res, err = g.forwardAfterSignIn(ctx, b, users, item, field, req, caller, err)
	}
	return b, res, err
}

// renamedRequest is newRequest for an item that the backend has under another name. It
// is a separate function to free its stack space before the backend is called.
func (b *activeBackend) renamedRequest(req *mcp.Request, field mcp.Field, own string, caller mcp.Caller) (*backendRequest, error) {
	params := req.Params.WithText(field, own)
	return b.newRequest(req, &params, caller, nil)
}

// list answers from the catalog.
func (g *Gateway) list(ctx context.Context, req *mcp.Request, kind catalog.Kind) (*mcp.Result, error) {
	if err := g.awaitLists(ctx, req, kind); err != nil {
		return nil, err
	}
	return g.listNow(req, kind)
}

// awaitLists waits until the backends that are starting have returned their lists of a kind, those
// for the sender of the request too, or have taken too long.
func (g *Gateway) awaitLists(ctx context.Context, req *mcp.Request, kind catalog.Kind) error {
	if err := g.await(ctx, req.Profile, func(v *view) (time.Duration, bool) { return v.listsPending(kind) }); err != nil {
		return err
	}
	g.awaitFeatureLists(ctx, req)
	g.awaitUserLists(ctx, req, g.view.Load().cfg.Limits.FirstList, anyBackend)
	g.awaitSessionLists(ctx, req, anyBackend)
	return nil
}

// ServeNow returns a list if there is nothing to wait for. With Watch it makes a Gateway
// an [mcp.HandlerExtension].
func (g *Gateway) ServeNow(req *mcp.Request) (*mcp.Result, bool) {
	kind, ok := catalog.KindOf(req.Method)
	if ok {
		g.noteIdentity(req)
		g.noteLister(req)
		g.noteUser(req)
	}
	if !ok || g.ctx.Err() != nil || !g.featureListsReady(req) || !g.userListsReady(req) || !g.sessionListsReady(req) {
		return nil, false
	}
	if _, wait := g.view.Load().at(req.Profile).listsPending(kind); wait {
		return nil, false
	}
	began := time.Now()
	res, err := g.listNow(req, kind)
	if err == nil { // otherwise Serve is called
		g.seen.note(req.Client)
		g.observeRequest(req.Method, began, nil)
	}
	return res, err == nil
}

// listNow answers from the current catalog.
func (g *Gateway) listNow(req *mcp.Request, kind catalog.Kind) (*mcp.Result, error) {
	v := g.listView(req, kind)
	if kind == catalog.Skills && !v.hasMethod(req.Method) {
		return nil, errUnknownMethod(req.Method)
	}
	// No goroutine waits for these lists: they are for later requests.
	now := time.Now()
	for _, b := range v.backends {
		b.RefreshIfOld(now)
	}
	if g.view.Load().users != nil {
		g.refreshUserLists(req, now)
	}
	cursor, ok := req.Params.Text(mcp.FieldCursor)
	if !ok && req.Params.Has(mcp.FieldCursor) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: cursor is not a string", req.Method)
	}
	if kind == catalog.Tools && v.catalog.HasFinder() {
		return v.listTools(req.Client, cursor)
	}
	return v.catalog.List(kind, cursor)
}

// discovery is the result of server/discover (2026-07-28, server/discover). Its time to
// live is zero and its scope private, because it may change at any time when a backend
// starts, and because a later release may show principals different backends.
type discovery struct {
	SupportedVersions []mcp.Version             `json:"supportedVersions"`
	Capabilities      jsontext.Value            `json:"capabilities"`
	Instructions      string                    `json:"instructions,omitempty"`
	TTL               int                       `json:"ttlMs"`
	CacheScope        string                    `json:"cacheScope"`
	Meta              map[string]jsontext.Value `json:"_meta"`
}

// discover answers from what is known. It waits at most discoverTimeout for backends
// that are starting: a client reads instructions and capabilities only here.
func (g *Gateway) discover(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	// Also bounds the wait for a start slot, during which the time of the start does
	// not count.
	within, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	_ = g.await(within, req.Profile, (*view).discoverPending) // what is known is the answer, however the wait ended
	if req.Scope != nil {
		g.initSessionLists(req)
	}
	g.awaitUserLists(within, req, discoverTimeout, anyBackend)
	return g.viewFor(viewerOf(req)).discovery()
}

// discoveryOf returns a function that returns the discovery of a catalog. It is encoded
// once, on the first call.
func (g *Gateway) discoveryOf(c *catalog.Catalog) func() (*mcp.Result, error) {
	return sync.OnceValues(func() (*mcp.Result, error) {
		capabilities := c.Capabilities()
		if c.PassesExtensions() {
			capabilities = revision.WithExtensions(capabilities, c.OfBackend())
		}
		raw, err := json.Marshal(discovery{
			SupportedVersions: mcp.ModernVersions(),
			Capabilities:      capabilities,
			Instructions:      c.Instructions(),
			CacheScope:        "private",
			Meta:              map[string]jsontext.Value{"io.modelcontextprotocol/serverInfo": g.info},
		})
		if err != nil {
			return nil, err
		}
		res, err := mcp.NewResult(raw)
		if err == nil {
			res.PassesExtensions = c.PassesExtensions()
		}
		return res, err
	})
}

// notifyBackends forwards a change of the client's log level or roots to all backends of
// its profile. It concerns the sessions that backends keep for the client's session. The backends
// are notified in the background, so that a slow one does not delay the others.
func (g *Gateway) notifyBackends(req *mcp.Request) (*mcp.Result, error) {
	if req.Scope != nil {
		for _, b := range g.view.Load().at(req.Profile).backends {
			// Ends within notifyTimeout, or with the Gateway, which waits for it in stop.
			g.begin(func() { g.notifyBackend(b, req) })
		}
	}
	return mcp.NewResult([]byte("{}"))
}

// notifyTimeout bounds the wait for a backend that is being notified.
const notifyTimeout = 10 * time.Second

// notifyBackend notifies one backend. Its answer is ignored, since the client has been
// answered for all backends. A backend that cannot be reached receives the level or the
// roots when its next session begins.
func (g *Gateway) notifyBackend(b *activeBackend, req *mcp.Request) {
	ctx, cancel := context.WithTimeout(g.ctx, notifyTimeout)
	defer cancel()
	_, _ = b.Serve(ctx, req, noCaller{}) // a backend that does not support it returns an error
}

// noCaller is the Caller of a request that has no client. It drops notifications,
// without an error to the sender, and refuses requests at once, so that none is left
// waiting.
type noCaller struct{}

func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

func (noCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client can be asked outside its own requests")
}

func (noCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// textOf returns a member of the parameters that must be a string.
func textOf(req *mcp.Request, f mcp.Field) (string, error) {
	text, ok := req.Params.Text(f)
	if !ok {
		return "", mcp.Errorf(mcp.CodeInvalidParams, "%s: params.%s is missing or not a string", req.Method, f.Key())
	}
	return text, nil
}

// unknown returns the error for an unknown name. If the name can only be that of a
// backend that was never reached or could not return the list, the error gives this
// reason; otherwise the item does not exist. To a client that may see nothing of the backend it
// never exists.
func (v *view) unknown(kind catalog.Kind, name string) error {
	for i, b := range v.backends {
		if !v.catalog.HasOwnNames() && !b.ownsName(name) || !v.maySee(b, kind) {
			continue
		}
		// Use the offer from which the catalog was built: a later one may have the
		// name.
		var why string
		o := v.offered[i]
		switch {
		case o.Refused:
			why = v.signInHint(b, o.Reason)
		case !o.Known():
			why = "it has not been reached yet: " + v.signInHint(b, b.unreachedReason(o))
		case o.Lists[kind].Failed && len(o.Lists[kind].Items) == 0:
			why = fmt.Sprintf("its %ss are not known: %s", kind, o.Lists[kind].Problem)
		default:
			continue
		}
		return &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: b.Name(), Reason: o.Code, Message: why}
	}
	return mcp.Errorf(mcp.CodeInvalidParams, "unknown %s: %q", kind, shorten(name))
}

// unknownResource is the error for a URI that no backend has. It returns the URI in the
// member that 2025-11-25 (server/resources, "Error Handling") shows.
func unknownResource(uri string) error {
	data, err := json.Marshal(map[string]string{"uri": shorten(uri)})
	if err != nil {
		data = nil // the text below still has it
	}
	// The modern edge replaces the code by that of its era.
	return &mcp.Error{Code: mcp.CodeResourceNotFound, Message: "unknown resource", Data: data}
}

// shorten bounds the text of a client that is quoted in an error.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
