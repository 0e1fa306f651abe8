// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// headers returns the headers of a modern request (2026-07-28,
// basic/transports/streamable-http, "Request Metadata").
func (w *httpConn) headers(req *mcp.Request, version mcp.Version, params *mcp.Object) http.Header {
	key := headerKey{version: version, method: req.Method}
	if f := mcp.NameField(req.Method); f != mcp.FieldNone {
		key.name, key.isNamed = params.Text(f)
	}
	h := w.headerCache.of(key, w.Posts)
	var wanted []mcp.ParamHeader
	if req.Method == call.MethodToolsCall {
		wanted = w.params.of(key.name)
	}
	if len(wanted) == 0 && len(req.ParamHeaders) == 0 {
		return h // nearly always
	}
	h = maps.Clone(h)
	mirror(h, wanted, params)
	w.relay(h, req, wanted)
	return h
}

// mirror adds the Mcp-Param headers that a tool requires. It takes the values from the
// arguments that are sent, so that the two cannot differ. A value that cannot be read
// is left out, and the server reports what is missing.
//
// The arguments are read once for all headers. The server controls the schema and the
// client the arguments, so reading them per header could cost quadratic time.
func mirror(h http.Header, wanted []mcp.ParamHeader, params *mcp.Object) {
	if len(wanted) == 0 {
		return
	}
	for i, v := range jsonrpc.ParamValues(wanted, params.Raw(mcp.FieldArguments)) {
		if v.Err == nil && v.Present {
			h[wanted[i].Header()] = []string{mcp.EncodeHeaderValue(v.Text)}
		}
	}
}

// relay forwards the Mcp-Param headers of the client that the tool's list does not
// declare: "Intermediate servers that do not recognize an Mcp-Param-{Name} header MUST
// forward it and otherwise ignore it" (2026-07-28, basic/transports/streamable-http,
// "Server Behavior for Custom Headers").
//
// Declared headers are recognized, and were made from the arguments: if an argument has
// no value there is no header, whatever the client sent. A client cannot replace
// headers that the operator has configured.
func (w *httpConn) relay(h http.Header, req *mcp.Request, known []mcp.ParamHeader) {
	for key, values := range req.ParamHeaders {
		isKnown := slices.ContainsFunc(known, func(p mcp.ParamHeader) bool { return p.Header() == key })
		if !isKnown && !w.Configures(key) {
			h[key] = values
		}
	}
}

// headerKey holds what the headers of requests differ in, except for parameters.
type headerKey struct {
	version      mcp.Version
	method, name string
	isNamed      bool
}

// headers returns the headers for the key, together with posts.
func (g headerKey) headers(posts http.Header) http.Header {
	h := maps.Clone(posts)
	h["Mcp-Protocol-Version"] = []string{string(g.version)}
	h["Mcp-Method"] = []string{mcp.EncodeHeaderValue(g.method)}
	if g.isNamed {
		h["Mcp-Name"] = []string{mcp.EncodeHeaderValue(g.name)}
	}
	return h
}

// Limits of the cached headers, and of the names they are cached for. They allow for
// the tools of a server, and not for any name that a client may send.
const (
	maxCachedHeaders = 1024
	maxCachedName    = 256
)

// headerCache caches headers by key. Concurrent requests share them, so they must not
// be modified. The zero value is empty.
type headerCache struct {
	mu   sync.Mutex
	made map[headerKey]http.Header
}

// of returns the headers for the key, together with posts.
func (k *headerCache) of(key headerKey, posts http.Header) http.Header {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.made[key]; h != nil {
		return h
	}
	h := key.headers(posts)
	if len(key.name)+len(key.method) > maxCachedName {
		return h
	}
	if k.made == nil || len(k.made) >= maxCachedHeaders {
		k.made = make(map[headerKey]http.Header) // those in use will be added again
	}
	k.made[key] = h
	return h
}

// maxParamTools limits the tools with stored header annotations.
const maxParamTools = 4096

// paramTable stores, by tool, the arguments that must be sent as headers, learned from
// the tool lists that were forwarded. The zero value is empty.
type paramTable struct {
	mu    sync.Mutex
	tools map[string][]mcp.ParamHeader
}

// of returns nil for a tool until its list was forwarded. The server then reports the
// missing headers and the list is read. Reading the list before each first call would
// delay calls that rarely need it.
func (t *paramTable) of(tool string) []mcp.ParamHeader {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tools[tool]
}

// learn stores the annotations of one page of a tool list. A tool with invalid
// annotations is stored without any; a program that displays the list omits it.
func (t *paramTable) learn(res *mcp.Object) {
	if !bytes.Contains(res.Bytes(), []byte("x-mcp-header")) && t.isEmpty() {
		return
	}
	var tools []struct {
		Name   string         `json:"name"`
		Schema jsontext.Value `json:"inputSchema"`
	}
	if err := json.Unmarshal(res.Raw(mcp.FieldTools), &tools); err != nil {
		return // judging the list is the client's task
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

// merge keeps the tools of earlier pages, because one page is not the whole list. A
// tool without annotations any more is deleted. Tools beyond the limit are learned
// again when a call is refused.
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

// refreshHeaders reads the tool list again after the server has refused a call because
// of its headers ("Client Behavior").
func (w *httpConn) refreshHeaders(ctx context.Context, p *Protocol, req *mcp.Request) bool {
	if req.Method != call.MethodToolsCall {
		return false
	}
	list := *req
	list.Method = call.MethodToolsList
	list.LogLevel = mcp.LogNone
	list.ParamHeaders = nil // they belong to the call
	var params mcp.Object
	for range call.MaxToolPages {
		res, err := w.post(ctx, p, &list, &params, call.NoCaller{})
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
