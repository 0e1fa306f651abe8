// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

// Attack 13: of two members of one name in a completion, the backend may read the one that a
// rule has not seen.
func TestPolicyOfCompletionArguments(t *testing.T) {
	p := config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
		{Name: "no-prod", Deny: `has(args.env) && args.env == "prod"`},
	}}
	g, o := withPolicy(t, p, nil)
	const ref = `{"ref":{"type":"ref/prompt","name":"office__open"},`
	for _, tc := range []struct {
		params  string
		allowed bool
	}{
		{`"argument":{"name":"env","value":"test"}}`, true},
		{`"argument":{"name":"env","value":"prod"}}`, false},
		{`"argument":{"name":"x","value":"y"},"context":{"arguments":{"env":"test"}}}`, true},
		{`"argument":{"name":"x","value":"y"},"context":{"arguments":{"env":"prod"}}}`, false},
		{`"argument":{"name":"env","value":"prod","value":"test"}}`, false},
		{`"argument":{"name":"env","value":"prod","v\u0061lue":"test"}}`, false},
		{`"argument":{"name":"env","name":"x","value":"prod"}}`, false},
		{`"argument":{"name":"x","value":"y"},"context":{"arguments":{"env":"prod"},"arguments":{}}}`, false},
		{`"argument":{"name":"x","value":"y"},"context":{"arguments":{"env":"prod","env":"test"}}}`, false},
		{`"argument":{"name":7,"value":"prod"}}`, false},
		{`"argument":["env","prod"]}`, false},
		{`"argument":{"name":"x","value":"y"},"context":{"arguments":["prod"]}}`, false},
	} {
		got := answerTo(t, g, requestOf(t, person("bob", ""), "completion/complete", ref+tc.params))
		if sent := o.arrived(); tc.allowed != (len(sent) == 1) || !tc.allowed && !strings.Contains(got, "policy no-prod does not allow this completion") {
			t.Errorf("%s: answered %s, sent %q", tc.params, got, sent)
		}
	}
}
