// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// forAllowed is the last step of an item that is explained to no caller in particular.
const forAllowed = "for callers that the policy allows"

// ExplainAs is [Gateway.Explain] for the caller of a question. Method, Arguments and AnyCall of the
// question are not used. The last step of an item that is otherwise offered is the decision of the policy
// about its calls, and an item that the caller does not see is not offered. A dry run of a policy
// decides nothing.
func (g *Gateway) ExplainAs(q *PolicyQuestion) *Explanation {
	x := g.Explain(q.Name, q.Profile)
	if x == nil {
		return nil
	}
	has, dryRun := g.HasPolicy()
	if !has || dryRun {
		return x
	}
	v := g.view.Load()
	places := v.cfg.Places()
	question := *q
	question.AnyCall = true
	seen := x.OfGateway
	if x.Route != nil && x.Offered {
		seen = true
		for i, d := range g.ExplainPolicy(&question) {
			if i == 0 || d.Listed {
				x.Route.Policy, seen = d.String(), d.Listed
			}
		}
	}
	for i := range x.Items {
		it := &x.Items[i]
		if !it.Offered {
			continue
		}
		question.Name = it.Name
		decisions := g.ExplainPolicy(&question)
		at := slices.IndexFunc(decisions, func(d PolicyExplanation) bool {
			if it.Kind == catalog.Skills.String() {
				return d.Kind == policy.Resource
			}
			return strings.HasSuffix(it.Kind, d.Kind) // "resource template" is a template
		})
		if at < 0 {
			continue
		}
		d := &decisions[at]
		it.Chain = slices.DeleteFunc(it.Chain, func(s ExplainedStep) bool { return s.Text == forAllowed })
		place := config.Place{}
		if rule := slices.IndexFunc(d.Rules, func(r PolicyRuleValue) bool { return r.Name == d.Rule }); rule >= 0 {
			place = places.Setting("", "policy", "rules", rule)
		}
		it.step(cmp.Or(place, places.Setting("", "policy")), "policy: %s", d)
		it.Offered = d.Listed
		seen = seen || d.Listed && it.Name == q.Name
	}
	x.Offered = seen
	return x
}

// String describes the decision in a line.
func (x *PolicyExplanation) String() string {
	switch x.Outcome {
	case "depends":
		return "depends on the call"
	case "needs":
		return "needs " + strings.Join(x.Scopes, " ") + ", by " + x.Rule
	case "confirm":
		return "allowed if the user agrees, by " + x.Rule
	default:
		return x.Outcome + " by " + x.Rule
	}
}
