// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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
	policyAsked  server.EventKind = "policy_confirm" // the user was asked about a call
	stepUp       server.EventKind = "step_up"        // scopes are missing
)

// admitted is an item that a request may use. Only admit makes one, and only an admitted item
// is forwarded, so that there is no way to a backend around the policy.
type admitted struct {
	*view

	entry *catalog.Entry
	why   verdict
	asks  bool // the user has to agree first

	signingIn bool // the user is asked to sign in: forward returns that a sign-in is missing
}

// policyRefusal is the answer of a request that is not admitted: a result or an error.
type policyRefusal struct {
	res *mcp.Result
	err error
	why verdict
}

// admit decides about a request for an item that find has found: the one function that does,
// for calls, prompts, reads, completions and subscriptions. It decides by the parameters that
// are sent to the backend. Without a policy and filters everything is admitted.
func (g *Gateway) admit(ctx context.Context, req *mcp.Request, f lookupResult) (admitted, *policyRefusal) {
	item, refused := g.admitByPolicy(ctx, req, f)
	if refused != nil || f.filters == nil {
		return item, refused
	}
	if refused = g.refuseByFilter(req, f); refused != nil {
		return admitted{}, refused
	}
	return item, nil
}

func (g *Gateway) admitByPolicy(ctx context.Context, req *mcp.Request, f lookupResult) (admitted, *policyRefusal) {
	if f.policy == nil {
		return admitted{view: f.view, entry: f.entry}, nil
	}
	d := f.decide(viewerOf(req), req)
	why := verdict{decision: d.Effect.String(), rule: d.Rule}
	if d.Effect == policy.Allowed {
		f.policy.allowed[d.Rule].Inc()
		return admitted{view: f.view, entry: f.entry, why: why}, nil
	}
	if d.Effect == policy.Confirm && !f.policy.dryRun {
		g.metrics.Decisions(d.Rule, why.decision).Inc()
		return admitted{view: f.view, entry: f.entry, why: why, asks: mayAskBefore(req.Method)}, nil
	}
	kind := policyDenied
	switch {
	case f.policy.dryRun:
		kind, why.decision = policyDryRun, "dry_run_"+why.decision
	case d.Effect == policy.Needs:
		kind = stepUp
	}
	g.metrics.Decisions(d.Rule, why.decision).Inc()
	g.notePolicy(ctx, req, kind, f.entry, why)
	switch {
	case f.policy.dryRun:
		return admitted{view: f.view, entry: f.entry, why: why}, nil
	case d.Effect == policy.Needs:
		return admitted{}, &policyRefusal{err: g.needsScopes(req, f.entry, &d), why: why}
	}
	what := "these arguments"
	switch req.Method {
	case "resources/read", readDirectory, "subscriptions/listen":
		what = "this resource"
	case skillsGet:
		what = "this skill"
	case "completion/complete":
		what = "this completion"
	}
	text := fmt.Sprintf("policy %s does not allow %s", d.Rule, what)
	if req.Method == "tools/call" {
		// A model can read it, and mend its arguments.
		res, err := toolError(text)
		return admitted{}, &policyRefusal{res, err, why}
	}
	return admitted{}, &policyRefusal{err: &mcp.Fault{Code: mcp.CodeInvalidParams, Outcome: mcp.NotDispatched, Reason: code.PolicyDenied, Message: text}, why: why}
}

// notePolicy counts a request that is not allowed, and records it. A request without scopes is
// no attempt to use what belongs to others.
func (g *Gateway) notePolicy(ctx context.Context, req *mcp.Request, kind server.EventKind, entry *catalog.Entry, why verdict) {
	if kind == stepUp {
		g.noteEvent(ctx, server.Event{Kind: kind, Principal: req.Principal, Session: sessionOf(req)})
		return
	}
	g.noteIdentityEvent(ctx, &identityEvent{
		kind: kind, identity: viewerOf(req).currentIdentity(), session: sessionOf(req),
		detail: entry.Kind.String() + " " + nameInRecord(entry), verdict: why,
	})
}

// nameInRecord returns the name of an item, without parts of a URI that may be secret.
func nameInRecord(e *catalog.Entry) string {
	if !isNamed(e.Kind) {
		return stripURI(e.Offered())
	}
	return e.Offered()
}

// decide returns the decision about a request for the item of a lookup. A URI that is in no list
// is judged as it is written, and in its plain form.
func (f lookupResult) decide(of viewer, req *mcp.Request) policy.Decision {
	if f.isListed() {
		return f.decideURI(of, req, "")
	}
	uri := f.entry.Offered()
	d := f.decideURI(of, req, uri)
	if plain := f.entry.Plain(); plain != uri && d.Effect.IsAllowed() {
		return d.And(f.decideURI(of, req, plain))
	}
	return d
}

// decideURI is decide for a URI that is in no list, or for an item if that is "".
func (f lookupResult) decideURI(of viewer, req *mcp.Request, uri string) policy.Decision {
	s := f.policy.Subject(of.currentIdentity(), of.Peer)
	listed, call := f.entry, policy.Call{Method: req.Method}
	if uri != "" {
		call.URI, call.HasURI = uri, true
		var ok bool
		if listed, ok = f.catalog.Route(f.entry.Name); !ok || listed.JSON() == nil { // of a label, or in a dry run of the only backend with resources
			item := policy.NewItem(policy.Resource, f.entry.BackendName, uri, f.entry.Own, nil)
			return f.policy.Decide(s, item, &call, nil)
		}
	}
	var known *policy.Verdict
	// If the sender is of another class now than when its view was taken, nothing is known.
	// What is known about a template is for URIs as it makes them, which are plain.
	if isPlain := uri == "" || uri == f.entry.Offered(); isPlain && (f.class == nil || f.class.class == s.Class()) {
		known = f.classes.of(s).verdicts.of(listed)
		isUsual := req.Method == policy.Method(policyKind(listed.Kind)) || !f.policy.ReadsMethod()
		if isUsual && known.Effect != policy.Open {
			return known.Decision
		}
	}
	call.Args = argumentsOf(req)
	return f.policy.Decide(s, f.items.of(listed), &call, known)
}

// mayFollow reports whether a client may be notified of updates of a resource in its view.
func (v *view) mayFollow(of viewer, uri string) bool {
	if v.policy == nil || v.policy.dryRun {
		return true
	}
	f := lookup{kind: catalog.Resources, name: uri}.find(v)
	if f.entry == nil {
		return false
	}
	return f.decide(of, &mcp.Request{Method: "subscriptions/listen"}).Effect.IsAllowed()
}

// argumentsOf returns the arguments of a call as rules see them, or nil.
func argumentsOf(req *mcp.Request) []byte {
	if req.Method == "completion/complete" {
		return completionArguments(req.Params.Bytes())
	}
	return req.Params.Raw(mcp.FieldArguments)
}

// unreadable are arguments that rules cannot read, and so a failure of those that do.
var unreadable = []byte("null") //nolint:gochecknoglobals // never changed

// completionArguments returns the arguments of a completion: the one that the client completes,
// and those that it has already.
func completionArguments(params []byte) []byte {
	out := []byte{'{'}
	add := func(name, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	for member, raw := range jsonscan.Members(params) {
		switch member {
		case "argument":
			name, value, ok := twoMembers(raw, "name", "value")
			if !ok || len(name) == 0 || name[0] != '"' || value == nil {
				return unreadable
			}
			add(name, value)
		case "context":
			known, _, ok := twoMembers(raw, "arguments", "")
			if !ok || known != nil && known[0] != '{' && !isNull(known) {
				return unreadable
			}
			for name, value := range jsonscan.Members(known) {
				add(jsonscan.AppendString(nil, name), value)
			}
		}
	}
	return append(out, '}')
}

// twoMembers returns two members of an object as they are written, or nil for one that is
// missing. It reports false for a value that is neither an object nor null, and for two members
// of one name: the backend may read the other one.
func twoMembers(object []byte, first, second string) (a, b []byte, ok bool) {
	if len(object) == 0 || object[0] != '{' {
		return nil, nil, isNull(object)
	}
	for member, raw := range jsonscan.Members(object) {
		var at *[]byte
		switch member {
		case first:
			at = &a
		case second:
			at = &b
		default:
			continue
		}
		if *at != nil {
			return nil, nil, false
		}
		*at = raw
	}
	return a, b, true
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// needsScopes returns the error of a request that lacks scopes (RFC 6750, section 3.1). The
// challenge has all that the request needs: those of each request to the endpoint, too.
func (g *Gateway) needsScopes(req *mcp.Request, e *catalog.Entry, d *policy.Decision) error {
	missing := strings.Join(d.Missing, " ")
	text := fmt.Sprintf("%s needs %s", printableName(nameInRecord(e)), missing)
	data := append(jsonscan.AppendString([]byte(`{"source":"gateway","outcome":"not_dispatched","code":"`+code.PolicyScopes+`","scope":`), missing), '}')
	scopes := slices.Clone(d.Scopes)
	cfg := g.view.Load().cfg
	for i := range cfg.Auth.Issuers {
		if s := &cfg.Auth.Issuers[i]; req.Identity != nil && s.Issuer == req.Identity.Issuer {
			scopes = append(scopes, s.Scopes...)
		}
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	return &mcp.Denied{
		Status:    http.StatusForbidden,
		Challenge: g.scopeChallenge(req.Profile, scopes, text),
		Err:       &mcp.Error{Code: mcp.CodeInvalidRequest, Message: text, Data: data},
	}
}

// scopeChallenge returns the WWW-Authenticate header of a request that lacks scopes.
func (g *Gateway) scopeChallenge(profile string, scopes []string, description string) string {
	if g.auth != nil {
		return g.auth.ScopeChallenge(profile, scopes, description)
	}
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
	if own, ok := g.taskRegistry.toolOf(ownerOf(req), name); ok {
		if _, ok := toolAt(v.classes.base.catalog, backend, own); ok {
			_, sees := toolAt(v.catalog, backend, own)
			return sees
		}
	}
	return v.class.backends[backend]
}
