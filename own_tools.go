// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/search"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// This file has the tools of the gateway: find_tool and call_tool, in profiles with a search view. They keep nothing for
// a client. read_result is in results.go.

// serveOwnTool serves a call of a tool of the gateway, which may make calls of its own. If it reads a result, of is the call that had it.
func (g *Gateway) serveOwnTool(ctx context.Context, item admitted, by *outerCall, req *mcp.Request, caller mcp.Caller) (of mcp.CallID, res *mcp.Result, err error) {
	switch item.entry.Name {
	case catalog.FindTool:
		res, err = g.findTool(ctx, item, req)
	case catalog.ReadResult:
		of, res, err = g.readResult(ctx, req)
	default:
		res, err = g.callTool(ctx, item, by, req, caller)
	}
	return of, res, err
}

// bytesOfToken is the size of a token, in bytes, as far as it is known without the model.
const bytesOfToken = 4

// listTools returns the list of tools of a view with a Finder, for a client.
func (v *view) listTools(client *mcp.Peer, cursor string) (*mcp.Result, error) {
	if !v.catalog.MayListAll() {
		return v.catalog.ListFound(cursor)
	}
	var own clients.Searcher
	searches := false
	if client != nil {
		own, searches = clients.SearcherNamed(infoMember(client.Info, "name"))
	}
	if above := v.cfg.Search.Above; !searches && above >= 0 && v.catalog.WholeBytes() > above*bytesOfToken {
		return v.catalog.ListFound(cursor)
	}
	return v.catalog.ListWhole(own.AlwaysLoad, cursor)
}

// The numbers of tools that find_tool returns.
const (
	findDefault = 5
	findMost    = 10
)

// findArguments are the arguments of find_tool.
type findArguments struct {
	Query  string `json:"query"`
	Limit  int    `json:"limit"`
	Detail string `json:"detail"`
}

// read reads and checks the arguments. The text is what is wrong with them, or "".
func (a *findArguments) read(raw []byte) (wrong string) {
	if wrong = readArguments(raw, a); wrong != "" {
		return "find_tool: " + wrong
	}
	switch a.Detail = cmp.Or(a.Detail, "schema"); {
	case strings.TrimSpace(a.Query) == "":
		return "find_tool: query is missing: describe in a few words what the tool should do"
	case a.Detail != "schema" && a.Detail != "signature" && a.Detail != "name":
		return "find_tool: detail must be schema, signature or name"
	case a.Limit < 0 || a.Limit > findMost:
		return fmt.Sprintf("find_tool: limit must be from 1 to %d", findMost)
	}
	a.Limit = cmp.Or(a.Limit, findDefault)
	return ""
}

// readArguments reads the arguments of a tool of the gateway. The text is what is wrong with their form, or "".
func readArguments(raw []byte, into any) (wrong string) {
	if raw == nil {
		return ""
	}
	err := json.Unmarshal(raw, into)
	mistyped, isMistyped := errors.AsType[*json.SemanticError](err)
	switch {
	case err == nil:
		return ""
	case !isMistyped:
		return "an argument is given twice"
	case mistyped.JSONPointer == "":
		return "the arguments must be an object"
	case mistyped.GoType != nil && mistyped.GoType.Kind() == reflect.String:
		return mistyped.JSONPointer.LastToken() + " must be a string"
	default:
		return mistyped.JSONPointer.LastToken() + " must be a whole number"
	}
}

// foundTool is a tool that fits a query.
type foundTool struct {
	Name        string         `json:"name"`
	Server      string         `json:"server"`
	Title       jsontext.Value `json:"title,omitzero"`
	Description jsontext.Value `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"inputSchema,omitzero"`
	Signature   string         `json:"signature,omitempty"`
	Annotations jsontext.Value `json:"annotations,omitzero"`
}

// findTool serves find_tool. It waits for the lists of backends as tools/list does.
func (g *Gateway) findTool(ctx context.Context, item admitted, req *mcp.Request) (*mcp.Result, error) {
	var a findArguments
	if wrong := a.read(req.Params.Raw(mcp.FieldArguments)); wrong != "" {
		return toolError(wrong)
	}
	if err := g.charge(ctx, req, item.entry); err != nil {
		return nil, err
	}
	if err := g.awaitLists(ctx, req, catalog.Tools); err != nil {
		return nil, err
	}
	v := g.viewFor(viewerOf(req))
	if !v.catalog.HasFinder() {
		return nil, errNoProfile // it was removed meanwhile
	}
	found := struct {
		Tools []foundTool `json:"tools"`
	}{[]foundTool{}}
	for _, e := range v.catalog.Search(a.Query, a.Limit) {
		found.Tools = append(found.Tools, showTool(e, a.Detail))
	}
	structured, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	text := string(structured)
	if len(found.Tools) == 0 {
		text = "No tool has any word of the query. Describe the task in other words."
	}
	out := append(append(beginText(text), `,"structuredContent":`...), structured...)
	return mcp.NewResult(append(out, '}'))
}

// showTool returns what find_tool shows of a tool.
func showTool(e *catalog.Entry, detail string) foundTool {
	t := foundTool{Name: e.Name, Server: e.BackendName}
	for name, value := range jsonscan.Members(e.JSON()) {
		switch {
		case name == "title":
			t.Title = value
		case name == "description":
			t.Description = value
		case name == "annotations":
			t.Annotations = value
		case name == "inputSchema" && detail == "schema":
			t.InputSchema = value
		case name == "inputSchema" && detail == "signature":
			t.Signature = search.Signature(value)
		}
	}
	return t
}

// callTool serves call_tool and call_tool_readonly: as a request for the tool that the arguments name. All
// other parameters stay as they are, such as the token for progress.
func (g *Gateway) callTool(ctx context.Context, item admitted, by *outerCall, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	own := item.entry.Name
	name, arguments, wrong := readCall(own, req.Params.Raw(mcp.FieldArguments))
	if wrong != "" {
		return toolError(wrong)
	}
	params, err := toolParams(&req.Params, name, arguments)
	if err != nil {
		return nil, err
	}
	var cut *resultCut
	if item.cuts {
		if cut = g.cutOf(req, item.view, by.Call, name, arguments); cut != nil {
			caller = readWhole(caller, cut.notice)
		}
	}
	res, err := g.inner(ctx, req, by, "tools/call", params, caller)
	if _, ok := errors.AsType[*notReadOnlyError](err); ok {
		return toolError(fmt.Sprintf("%s: %v: call it with %s", own, err, catalog.CallTool))
	}
	if _, ok := errors.AsType[*unknownInnerError](err); ok {
		return toolError(fmt.Sprintf("there is no tool %q%s: find tools with %s", shorten(name), g.nearestTools(req, name), catalog.FindTool))
	}
	if cut != nil && err == nil {
		return cut.apply(res)
	}
	return res, err
}

// readCall reads the arguments of a tool that calls another. They are an object with a name, and perhaps an
// object with arguments. Each is written once, since backends differ in which of two they read.
func readCall(own string, raw []byte) (name string, arguments []byte, wrong string) {
	called, arguments, ok := twoMembers(raw, "name", "arguments")
	name, isText := jsonscan.DecodeText(called)
	switch {
	case raw == nil || ok && called == nil:
		return "", nil, own + ": name is missing: the name of the tool to call"
	case !ok || !isText || name == "":
		return "", nil, own + ": name must be the name of a tool, and arguments an object, each of them once"
	case arguments != nil && arguments[0] != '{':
		return "", nil, own + ": arguments must be an object with the arguments of the tool"
	}
	return name, arguments, ""
}

// toolParams returns the parameters of a call with the name and the arguments of another tool.
func toolParams(outer *mcp.Object, name string, arguments []byte) (*mcp.Object, error) {
	quoted := jsonscan.AppendString(nil, name)
	raw := jsonscan.RewriteMembers(outer.Bytes(), func(member string, value []byte) []byte {
		switch member {
		case "name":
			return quoted
		case "arguments":
			return arguments // removed if nil
		default:
			return value
		}
	})
	obj, err := mcp.ParseObject(raw)
	if err != nil {
		return nil, err
	}
	return &obj, nil
}

// nearestTools returns the end of a sentence with the tools that an unknown name may mean, the nearest first, of
// those that the sender of a request can call.
func (g *Gateway) nearestTools(req *mcp.Request, name string) string {
	v := g.viewFor(viewerOf(req))
	if !v.catalog.HasFinder() {
		return ""
	}
	var names []string
	for _, e := range v.catalog.Nearest(name, 3) {
		names = append(names, e.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return "; the nearest are " + strings.Join(names, ", ")
}

// textResult returns a result of tools/call with a text.
func textResult(text string) (*mcp.Result, error) {
	return mcp.NewResult(append(beginText(text), '}'))
}

// toolError returns a result of tools/call that is an error, which a model can read.
func toolError(text string) (*mcp.Result, error) {
	return mcp.NewResult(append(beginText(text), `,"isError":true}`...))
}

// beginText returns the beginning of a result of tools/call with a text.
func beginText(text string) []byte {
	return append(jsonscan.AppendString([]byte(`{"resultType":"complete","content":[{"type":"text","text":`), text), "}]"...)
}
