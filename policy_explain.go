// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// PolicyQuestion is a request about which [Gateway.ExplainPolicy] explains the decision. It is
// not sent anywhere.
type PolicyQuestion struct {
	Identity *mcp.Identity // of the caller; nil is anonymous
	Client   *mcp.Peer     // may be nil
	Profile  string        // to which the request is sent; "" is everything

	// Name is the name or URI of the item, as clients use it.
	Name string

	// Method is that of the request, or "" for the one by which the item is called.
	Method string

	// Arguments are those of the call, an object of JSON; nil is no arguments.
	Arguments []byte

	// AnyCall asks about all calls: the arguments, and the URI that is read through a template,
	// are unknown.
	AnyCall bool
}

// PolicyExplanation is the decision of the policy about a request for one item.
type PolicyExplanation struct {
	Kind    string `json:"kind"` // tool, prompt, resource or template
	Name    string `json:"name"`
	Backend string `json:"backend"`

	// Listed reports whether the caller sees the item.
	Listed bool `json:"listed"`

	// Outcome is allowed, denied, needs, confirm, or, for all calls, depends. Rule is the name of the
	// rule that decided, or "otherwise". Scopes are those that the caller lacks.
	Outcome string   `json:"outcome"`
	Rule    string   `json:"rule,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`

	Rules []PolicyRuleValue `json:"rules"` // in the order of the configuration

	// Class identifies what the rules can distinguish of the caller: callers of one class see
	// the same.
	Class string `json:"class"`
}

// PolicyRuleValue is a rule with its value for a request.
type PolicyRuleValue struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`            // allow, deny, needs or confirm
	Matches string   `json:"matches"`         // whether the patterns match: true, false or unknown
	Value   string   `json:"value"`           // true, false, failed or unknown
	Error   string   `json:"error,omitempty"` // why it failed; may quote arguments and claims
	Missing []string `json:"missing,omitempty"`
}

// HasPolicy reports whether the configuration has a policy, and whether it is a dry run.
func (g *Gateway) HasPolicy() (has, dryRun bool) {
	p := g.view.Load().policy
	return p != nil, p != nil && p.dryRun
}

// ExplainPolicy returns the decision about each item with the name of the question, also if it
// is hidden. It returns none if there is no such item, or no policy. It waits for nothing, and
// records nothing. A dry run is explained like any other policy.
func (g *Gateway) ExplainPolicy(q *PolicyQuestion) []PolicyExplanation {
	v := g.viewOfUser(q.Identity, q.Client).at(q.Profile)
	if v.policy == nil {
		return nil
	}
	s := v.policy.Subject(q.Identity, q.Client)
	class := s.Class()
	var all []PolicyExplanation
	name, isResource := q.Name, false
	var resource *catalog.Entry
	if strings.Contains(name, ":") {
		if resource, isResource = v.catalog.Resource(name); isResource {
			name = resource.Name
		}
	}
	explain := func(e *catalog.Entry, item *policy.Item, uri string) {
		var call *policy.Call
		kind := policyKind(e.Kind)
		if !q.AnyCall {
			call = &policy.Call{Method: q.Method, URI: uri, HasURI: uri != "", Args: q.Arguments}
			if call.Method == "" {
				call.Method = policy.Method(kind)
			}
		}
		verdict := v.policy.List(s, item)
		values, d := v.policy.Explain(s, item, call)
		if uri != "" && resource.Plain() != uri && call != nil && d.Effect.IsAllowed() {
			call.URI = resource.Plain()
			others, other := v.policy.Explain(s, item, call)
			if d = d.And(other); d.Rule == other.Rule {
				values = others
			}
		}
		x := PolicyExplanation{
			Kind: kind, Name: q.Name, Backend: e.BackendName, Listed: !verdict.Hidden(),
			Outcome: outcomeText(d.Effect), Rule: d.Rule, Scopes: d.Missing, Class: hex.EncodeToString(class[:]),
		}
		for _, r := range values {
			x.Rules = append(x.Rules, PolicyRuleValue{r.Name, r.Kind, r.Matches.String(), r.Value.String(), r.Error, r.Missing})
		}
		all = append(all, x)
	}
	for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources, catalog.Templates, catalog.Skills} {
		for e := range v.catalog.Entries(k) {
			if e.Name == name {
				explain(e, v.items.of(e), "")
			}
		}
	}
	if len(all) == 0 && isResource {
		switch from, ok := v.catalog.Route(name); {
		case ok && from.JSON() != nil:
			explain(from, v.items.of(from), resource.Offered())
		case ok && resource.Offered() != resource.Own:
			explain(resource, policy.NewItem(policy.Resource, resource.BackendName, resource.Offered(), resource.Own, nil), resource.Offered())
		}
	}
	return all
}

func outcomeText(e policy.Effect) string {
	if e == policy.Open {
		return "depends"
	}
	return e.String()
}

// Sees returns the names and URIs of the items that a caller sees by the policy, sorted, and
// reports whether there is a policy. A dry run is treated like any other policy.
func (g *Gateway) Sees(id *mcp.Identity, client *mcp.Peer, profile string) (names []string, ok bool) {
	v := g.viewOfUser(id, client).at(profile)
	if v.policy == nil {
		return nil, false
	}
	s := v.policy.Subject(id, client)
	for k := range catalog.NumKinds {
		for e := range v.catalog.Entries(k) {
			if verdict := v.policy.List(s, v.items.of(e)); !verdict.Hidden() {
				names = append(names, e.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}
