// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// headers returns what a modern request says in headers
// (2026-07-28, basic/transports/streamable-http, "Request Metadata").
func (w *modernHTTP) headers(req *mcp.Request, out *outboundRequest) http.Header {
	about := headerKey{version: out.version, method: req.Method}
	if f := mcp.NameField(req.Method); f != mcp.FieldNone {
		about.name, about.isNamed = out.params.Text(f)
	}
	h := w.headerCache.of(about, w.posts)
	var wanted []mcp.ParamHeader
	if req.Method == methodToolsCall {
		wanted = w.params.of(about.name)
	}
	if len(wanted) == 0 && len(req.ParamHeaders) == 0 {
		return h // as nearly always: a tool without such headers
	}
	h = maps.Clone(h)
	mirror(h, wanted, out.params)
	w.relay(h, req, wanted)
	return h
}

// heading is what the headers of a request differ in, but for those of parameters.
type headerKey struct {
	version      mcp.Version
	method, name string
	isNamed      bool
}

// headers returns them, besides those that all messages have.
func (g headerKey) headers(posts http.Header) http.Header {
	h := maps.Clone(posts)
	h["Mcp-Protocol-Version"] = []string{string(g.version)}
	h["Mcp-Method"] = []string{mcp.EncodeHeaderValue(g.method)}
	if g.isNamed {
		h["Mcp-Name"] = []string{mcp.EncodeHeaderValue(g.name)}
	}
	return h
}

// The bounds of the headers that are kept, and of a name with which they are: those of a
// server's tools, as a rule, and not whatever a client may ask for.
const (
	maxCachedHeaders = 1024
	maxCachedName    = 256
)

// headerSet are the headers that were made, for the next request of the same. They are
// many requests' at once, and so changed by nobody. The zero value has none.
type headerCache struct {
	mu   sync.Mutex
	made map[headerKey]http.Header
}

func (k *headerCache) of(about headerKey, posts http.Header) http.Header {
	if h := k.find(about); h != nil {
		return h
	}
	h := about.headers(posts)
	if len(about.name)+len(about.method) <= maxCachedName {
		k.add(about, h)
	}
	return h
}

func (k *headerCache) find(about headerKey) http.Header {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made[about]
}

func (k *headerCache) add(about headerKey, h http.Header) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made == nil || len(k.made) >= maxCachedHeaders {
		k.made = make(map[headerKey]http.Header) // whatever is in use comes again
	}
	k.made[about] = h
}

// maxParamTools bounds the tools whose header annotations are remembered.
const maxParamTools = 4096

// paramTable knows which arguments of which tool are to be said in headers, from
// the lists of tools that have passed. The zero value knows none.
type paramTable struct {
	mu    sync.Mutex
	tools map[string][]mcp.ParamHeader
}

// mirror adds the Mcp-Param headers that a tool wants, from the arguments as they are
// sent, so that the two cannot differ. A value that cannot be read is left out: the server will
// say what it misses.
//
// The arguments are read once for all headers. The schema is the server's and the
// arguments are the client's: neither may make the other's size cost its square.
func mirror(h http.Header, wanted []mcp.ParamHeader, params *mcp.Object) {
	if len(wanted) == 0 {
		return
	}
	for i, v := range mcp.ParamValues(wanted, params.Raw(mcp.FieldArguments)) {
		if v.Err == nil && v.Present {
			h[wanted[i].Header()] = []string{mcp.EncodeHeaderValue(v.Text)}
		}
	}
}

// of returns nothing for a tool whose list has not passed. The server then says
// what it misses, and the list is read: to read it before each first call would be
// to wait for what is rarely needed.
func (t *paramTable) of(tool string) []mcp.ParamHeader {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tools[tool]
}

// learn remembers the annotations of one page of a list of tools. A tool whose
// annotations are not valid has none here; whoever shows the list leaves it out.
func (t *paramTable) learn(res *mcp.Object) {
	if !bytes.Contains(res.Bytes(), []byte("x-mcp-header")) && t.isEmpty() {
		return
	}
	var tools []struct {
		Name   string         `json:"name"`
		Schema jsontext.Value `json:"inputSchema"`
	}
	if err := json.Unmarshal(res.Raw(mcp.FieldTools), &tools); err != nil {
		return // the list is not ours to judge
	}
	learned := make(map[string][]mcp.ParamHeader)
	for _, tool := range tools {
		params, err := mcp.ParamHeaders(tool.Schema)
		if err != nil {
			params = nil
		}
		learned[tool.Name] = params
	}
	t.merge(learned)
}

func (t *paramTable) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tools) == 0
}

// merge keeps what earlier pages have taught, because one page is not the list. A
// tool that lost its annotations is deleted; one that has gone is not called. What
// is beyond the bound is learned again when its call is refused.
func (t *paramTable) merge(learned map[string][]mcp.ParamHeader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tools == nil {
		t.tools = make(map[string][]mcp.ParamHeader)
	}
	maps.Copy(t.tools, learned)
	maps.DeleteFunc(t.tools, func(_ string, p []mcp.ParamHeader) bool { return len(p) == 0 })
	for name := range t.tools {
		if len(t.tools) <= maxParamTools {
			return
		}
		delete(t.tools, name)
	}
}

// maxRelearnPages bounds the pages that are read to learn a tool's headers anew.
const maxRelearnPages = 20

// refreshHeaders reads the list of tools again, because the server has refused a call
// for its headers ("Client Behavior").
func (w *modernHTTP) refreshHeaders(ctx context.Context, p *modern, req *mcp.Request) bool {
	if req.Method != methodToolsCall {
		return false
	}
	list := *req
	list.Method = methodToolsList
	list.LogLevel = mcp.LogNone
	list.ParamHeaders = nil // of the call
	var params mcp.Object
	for range maxRelearnPages {
		res, err := p.call(ctx, &list, &params, noCaller{})
		if err != nil {
			return false
		}
		cursor := res.Raw(mcp.FieldNextCursor)
		if cursor == nil || string(cursor) == "null" {
			return true
		}
		var e mcp.Edit
		e.Set(mcp.FieldCursor, cursor)
		if params, err = e.Apply(&mcp.Object{}); err != nil {
			return false
		}
	}
	return true
}

// nobody is the caller of a request of our own.
type noCaller struct{}

// Notify drops the notification.
func (noCaller) Notify(context.Context, *mcp.Notification) error { return nil }

// Ask refuses.
func (noCaller) Ask(context.Context, *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "nobody is there to be asked")
}
