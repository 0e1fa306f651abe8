// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// label returns what the URIs of the backend have in front if they are names; see
// [catalog.Rules.Label].
func (b *activeBackend) label() string {
	if b.bareURIs {
		return ""
	}
	rules := catalog.Rules{Prefix: b.srv.Prefix}
	return rules.Label(b.Name())
}

// label returns the label of the URIs in what the backend sends, or "" if they are left as they
// are. Only the results of backends that have such URIs are searched for them.
func (c *taskIDCaller) label() string {
	if c.bareURIs || !c.backend.hasNames.Load() {
		return ""
	}
	return c.backend.label()
}

// readsName reports whether a request to the backend reads a resource by a URI that is a name. The
// result is read as a whole.
func (b *activeBackend) readsName(req *mcp.Request) bool {
	if req.Method != "resources/read" || !b.hasNames.Load() {
		return false
	}
	uri, _ := req.Params.Text(mcp.FieldURI)
	return extension.IsName(uri)
}

// isBare reports whether a client has sent the URI of a resource or a skill as its backend writes it. It
// gets the answer in that form, too.
func isBare(req *mcp.Request, e *catalog.Entry) bool {
	if isNamed(e.Kind) || e.Own == e.Name {
		return false
	}
	uri, _ := req.Params.Text(mcp.FieldURI)
	return uri == e.Own
}

// outerResult returns the result of a request to a backend with the URIs that clients use.
func outerResult(label, method string, res *mcp.Result) (*mcp.Result, error) {
	var splice func(label string, result []byte) []byte
	switch method {
	case "tools/call", "tasks/result":
		splice = extension.OuterCall
	case "prompts/get":
		splice = extension.OuterPrompt
	case "resources/read":
		splice = extension.OuterRead
	case "tasks/get":
		splice = extension.OuterTask
	default:
		return res, nil
	}
	if label == "" || res.Delivered {
		return res, nil
	}
	return withBytes(res, splice(label, res.Bytes()))
}

// updates returns the notifications for the client of an update of a resource at the backend: by
// the URIs by which it has subscribed. It returns none for a resource within one of those that a rule
// hides from the client.
func (e *attempt) updates(n *mcp.Notification) []*mcp.Notification {
	own, _ := n.Params.Text(mcp.FieldURI)
	label := e.backend.label()
	isAsked := slices.ContainsFunc(e.asked, func(t topic) bool { return t.backend == "" && t.own == own })
	if of := e.sub.client; !isAsked && !e.sub.g.viewFor(of).mayFollow(of, extension.OuterURI(label, own)) {
		return nil
	}
	if label == "" || !extension.IsName(own) {
		return []*mcp.Notification{n}
	}
	var all []*mcp.Notification
	outer := *n
	outer.Params = n.Params.WithText(mcp.FieldURI, extension.OuterURI(label, own))
	all = append(all, &outer)
	for _, t := range e.asked {
		if t.backend == "" && t.name == t.own && listen.Contains(t.own, own) {
			return append(all, n)
		}
	}
	return all
}

// withoutUserinfo returns what follows a URI's userinfo in its authority.
func withoutUserinfo(authority string) string {
	return authority[strings.LastIndexByte(authority, '@')+1:]
}
