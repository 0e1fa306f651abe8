// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The events of the policy. A hidden item is hiddenItem.
const (
	policyDenied server.EventKind = "policy_denied"  // an item that is listed, refused for this call
	policyDryRun server.EventKind = "policy_dry_run" // would be refused without dryRun
	policyFailed server.EventKind = "policy_failed"  // a rule has no value
	stepUp       server.EventKind = "step_up"        // scopes are missing
)

// admitted is an item that a request may use. Only admit makes one, and only an admitted item
// is forwarded, so that there is no way to a backend around the policy.
type admitted struct {
	*view

	entry *catalog.Entry
}

// policyRefusal is the answer of a request that is not admitted: a result or an error.
type policyRefusal struct {
	res *mcp.Result
	err error
}

// admit decides about a request for an item that find has found: the one function that does,
// for calls, prompts, reads, completions and subscriptions. It decides by the parameters that
// are sent to the backend. Without a policy everything is admitted.
func (g *Gateway) admit(ctx context.Context, req *mcp.Request, f lookupResult) (admitted, *policyRefusal) {
	if f.policy == nil {
		return admitted{f.view, f.entry}, nil
	}
	d := f.decide(viewerOf(req), req)
	if d.Effect == policy.Allowed {
		return admitted{f.view, f.entry}, nil
	}
	about := f.entry.Kind.String() + " " + quoteName(nameInRecord(f.entry))
	e := server.Event{Principal: req.Principal, Session: sessionOf(req), Detail: about + " by " + d.Rule}
	if f.policy.dryRun {
		e.Kind = policyDryRun
		g.noteEvent(ctx, e)
		return admitted{f.view, f.entry}, nil
	}
	if d.Effect == policy.Needs {
		e.Kind = stepUp
		g.noteEvent(ctx, e)
		return admitted{}, &policyRefusal{err: g.needsScopes(f.entry, d.Scopes)}
	}
	e.Kind = policyDenied
	g.noteEvent(ctx, e)
	what := "these arguments"
	switch req.Method {
	case "resources/read", "subscriptions/listen":
		what = "this resource"
	case "completion/complete":
		what = "this completion"
	}
	text := fmt.Sprintf("policy %s does not allow %s", d.Rule, what)
	if req.Method == "tools/call" {
		// A model can read it, and mend its arguments.
		res, err := mcp.NewResult(append(jsonscan.AppendString([]byte(`{"resultType":"complete","content":[{"type":"text","text":`), text), `}],"isError":true}`...))
		return admitted{}, &policyRefusal{res, err}
	}
	return admitted{}, &policyRefusal{err: &mcp.Fault{Code: mcp.CodeInvalidParams, Outcome: mcp.NotDispatched, Reason: code.PolicyDenied, Message: text}}
}

func nameInRecord(e *catalog.Entry) string {
	if e.Kind == catalog.Resources || e.Kind == catalog.Templates {
		return stripURI(e.Name)
	}
	return e.Name
}

// decide returns the decision about a request for the item of a lookup.
func (f lookupResult) decide(of viewer, req *mcp.Request) policy.Decision {
	s := f.policy.Subject(of.currentIdentity(), of.Peer)
	listed, call := f.entry, policy.Call{Method: req.Method}
	if f.entry.JSON() == nil { // a URI that is in no list
		call.URI, call.HasURI = f.entry.Name, true
		var ok bool
		if listed, ok = f.catalog.Route(f.entry.Name); !ok || listed.JSON() == nil { // in a dry run, of the only backend with resources
			item := policy.NewItem(policy.Resource, f.entry.BackendName, f.entry.Name, f.entry.Own, nil)
			return f.policy.Decide(s, item, &call, nil)
		}
	}
	var known *policy.Verdict
	// If the sender is of another class now than when its view was taken, nothing is known.
	if f.class == nil || f.class.class == s.Class() {
		known = f.classes.of(s).verdicts[listed]
		isUsual := req.Method == policy.Method(policyKind(listed.Kind)) || !f.policy.ReadsMethod()
		switch {
		case isUsual && known == nil:
			return policy.Decision{Effect: policy.Allowed}
		case isUsual && known.Effect != policy.Open:
			return known.Decision
		}
	}
	call.Args = argumentsOf(req)
	return f.policy.Decide(s, f.classes.items()[listed], &call, known)
}

// mayFollow reports whether a client may be told of updates of a resource in its view.
func (v *view) mayFollow(of viewer, uri string) bool {
	if v.policy == nil || v.policy.dryRun {
		return true
	}
	f := lookup{kind: catalog.Resources, name: uri}.find(v)
	if f.entry == nil {
		return false
	}
	return f.decide(of, &mcp.Request{Method: "subscriptions/listen"}).Effect == policy.Allowed
}

// argumentsOf returns the arguments of a call as rules see them, or nil. Those of a completion
// are the ones that the client has already, and the one that it completes.
func argumentsOf(req *mcp.Request) []byte {
	if req.Method != "completion/complete" {
		return req.Params.Raw(mcp.FieldArguments)
	}
	var name, value []byte
	var known []byte
	for member, raw := range jsonscan.Members(req.Params.Bytes()) {
		switch member {
		case "argument":
			name, value = nameAndValue(raw)
		case "context":
			for inner, given := range jsonscan.Members(raw) {
				if inner == "arguments" {
					known = given
				}
			}
		}
	}
	out := []byte{'{'}
	if name != nil && value != nil {
		out = append(append(append(out, name...), ':'), value...)
	}
	for member, given := range jsonscan.Members(known) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonscan.AppendString(out, member), ':'), given...)
	}
	return append(out, '}')
}

// nameAndValue returns the members of the argument of a completion, as they are written. The
// name is nil if it is not a text.
func nameAndValue(argument []byte) (name, value []byte) {
	for member, raw := range jsonscan.Members(argument) {
		switch {
		case member == "name" && len(raw) > 0 && raw[0] == '"':
			name = raw
		case member == "value":
			value = raw
		}
	}
	return name, value
}

// needsScopes returns the error of a request that lacks scopes (RFC 6750, section 3.1).
func (g *Gateway) needsScopes(e *catalog.Entry, scopes []string) error {
	list := strings.Join(scopes, " ")
	text := fmt.Sprintf("%s needs %s", printableName(nameInRecord(e)), list)
	data := append(jsonscan.AppendString([]byte(`{"source":"gateway","outcome":"not_dispatched","code":"`+code.PolicyScopes+`","scope":`), list), '}')
	return &mcp.Denied{
		Status:    403,
		Challenge: g.challenge(scopes, text),
		Err:       &mcp.Error{Code: mcp.CodeInvalidRequest, Message: text, Data: data},
	}
}

// challenge returns the WWW-Authenticate header of a request that lacks scopes. Texts are
// without quotes and backslashes.
func (g *Gateway) challenge(scopes []string, description string) string {
	return fmt.Sprintf(`Bearer error="insufficient_scope", scope="%s", error_description="%s"`, strings.Join(scopes, " "), description)
}

// printableName returns the name of an item with the characters that error_description may have
// (RFC 6750, section 3), and others replaced.
func printableName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, name)
	return clean[:min(len(clean), 200)]
}

// admitsTask reports whether a client may use a task of its own: it still sees the tool that
// has started it. If that is not known any more, it sees something of the backend.
func (g *Gateway) admitsTask(req *mcp.Request, backend, name string) bool {
	v := g.viewFor(viewerOf(req))
	if v.class == nil {
		return true
	}
	if tool, ok := g.taskRegistry.toolOf(ownerOf(req), name); ok {
		if _, ok := v.classes.base.catalog.Tool(tool); ok {
			_, sees := v.catalog.Tool(tool)
			return sees
		}
	}
	return v.class.backends[backend]
}
