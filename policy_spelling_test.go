// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
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

// A resource that is hidden or denied is read by no other spelling of its URI.
func TestPolicyOfURISpellings(t *testing.T) {
	p := config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "notes", Allow: "true", On: []string{"note:///*"}},
		{Name: "no-drafts", Deny: `item.uri == "note:///draft"`},
		{Name: "no-private", Deny: "true", On: []string{"note:///private*"}},
		{Name: "not-listed", Deny: `item.kind == "resource"`},
	}}
	o := new(office)
	withNote := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method == "resources/list" {
			return mcp.NewResult([]byte(`{"resources":[{"uri":"note:///listed","name":"l"}]}`))
		}
		return o.Serve(ctx, req, caller)
	})
	g := gatewaytest.New(t, config.Config{Policy: p}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: withNote}}})
	const unknown, denied = "-32002 unknown resource ", "-32602 policy "
	for _, tc := range []struct{ uri, want string }{
		{"note:///a", ""}, {"note:///a%20b", ""}, {"note:///a/./b", ""}, {"note:///a#b", ""},
		{"note:///draft", denied}, {"note:///dr%61ft", denied}, {"note:///x/../draft", denied}, {"note:///draft#x", denied},
		{"note:///private/x", denied}, {"note:///%70rivate/x", denied}, {"note:///a/%2e%2e/private/x", denied}, {"note:///private%2Fx", denied},
		{"note:///listed", unknown}, {"note:///l%69sted", unknown}, {"note:///listed#x", unknown},
	} {
		got := answerTo(t, g, requestOf(t, person("bob", ""), "resources/read", `{"uri":"`+tc.uri+`"}`))
		if sent := o.arrived(); tc.want == "" && len(sent) != 1 || tc.want != "" && (len(sent) > 0 || !strings.HasPrefix(got, tc.want)) {
			t.Errorf("%s: answered %s, sent %q", tc.uri, got, sent)
		}
	}
}

// A server of files is sent no path that leads out of those that are allowed, as the file system
// or RFC 3986 reads it.
func TestPolicyOfFileURIs(t *testing.T) {
	p := config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "pub", Allow: "true", On: []string{"file:///pub/*"}},
		{Name: "template", Allow: `item.kind == "template"`, On: []string{"file:///{+path}"}},
		{Name: "no-secret", Deny: "true", On: []string{"file:///pub/secret*"}},
	}}
	o := new(office)
	files := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method == "resources/templates/list" {
			return mcp.NewResult([]byte(`{"resourceTemplates":[{"uriTemplate":"file:///{+path}","name":"f"}]}`))
		}
		return o.Serve(ctx, req, caller)
	})
	g := gatewaytest.New(t, config.Config{Policy: p}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: files}}})
	const unknown, denied = "-32002 unknown resource ", "-32602 policy "
	for _, tc := range []struct{ uri, want string }{
		{"file:///pub/a", ""}, {"file:///pub//a", ""}, {"file:///pub/a/../b", ""},
		{"file:///etc/passwd", denied}, {"file:///pub/../etc/passwd", denied}, {`file:///pub\\..\\etc\\passwd`, denied},
		{"file:///pub//../etc/passwd", unknown}, {"file:///pub/%2f%2e%2e/etc/passwd", unknown}, {"file:///pub//./../etc/passwd", unknown},
		{"file:///pub/a?/../../etc/passwd", unknown}, {"file:///pub/a#/../../etc/passwd", unknown},
		{"file:///pub//secret", denied}, {"file:////pub/secret", denied}, {"file:///pub//../secret", unknown},
	} {
		got := answerTo(t, g, requestOf(t, person("bob", ""), "resources/read", `{"uri":"`+tc.uri+`"}`))
		if sent := o.arrived(); tc.want == "" && len(sent) != 1 || tc.want != "" && (len(sent) > 0 || !strings.HasPrefix(got, tc.want)) {
			t.Errorf("%s: answered %s, sent %q", tc.uri, got, sent)
		}
	}
}
