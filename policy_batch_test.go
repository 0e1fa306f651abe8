// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// In a batch, each call is decided for itself: a hidden tool is unknown, and a name that occurs
// twice in the arguments is refused before its backend is asked (attack 13).
func TestPolicyInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(office)
		cfg := config.Config{Policy: config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
			{Name: "no-secrets", Deny: `principal.name == "bob"`, On: []string{"*secret*"}},
			{Name: "no-prod", Deny: `has(args.env) && args.env == "prod"`, On: []string{"*__deploy"}},
		}}}
		gatewaytest.WithPrincipals(&cfg, "ann", "bob")
		g := gatewaytest.Open(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: o}}})
		const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		bob := gatewaytest.WithToken("bob")
		bob["Mcp-Session-Id"] = g.Post(hello, bob).Header.Get("Mcp-Session-Id")
		g.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, bob)
		call := func(id int, name, arguments string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments)
		}
		got := g.Post("["+strings.Join([]string{
			call(1, "office__secret", `{}`), call(2, "office__nothin", `{}`), call(3, "office__get", `{}`),
			call(4, "office__deploy", `{"env":"prod"}`), call(5, "office__deploy", `{"env":"test","env":"prod"}`), call(6, "office__deploy", `{"env":"prod","env":"test"}`),
		}, ",")+"]", bob)
		answers := make(map[string]string)
		for _, part := range strings.Split(got.Body, `"jsonrpc":"2.0","id":`)[1:] {
			id, rest, _ := strings.Cut(part, ",")
			answers[id] = callIDInError.ReplaceAllString(rest[:strings.LastIndex(rest, "}")], "")
		}
		if hidden, unknown := strings.ReplaceAll(answers["1"], "secret", "NAME"), strings.ReplaceAll(answers["2"], "nothin", "NAME"); hidden != unknown || !strings.Contains(hidden, "error") {
			t.Errorf("a hidden tool is answered %s, an unknown one %s", hidden, unknown)
		}
		if !strings.Contains(answers["3"], `"content":[]`) {
			t.Errorf("a call that is allowed: %s", answers["3"])
		}
		for _, id := range []string{"4", "5", "6"} {
			if !strings.Contains(answers[id], "error") && !strings.Contains(answers[id], `"isError":true`) {
				t.Errorf("call %s: %s", id, answers[id])
			}
		}
		if sent := o.arrived(); len(sent) != 1 || !strings.Contains(sent[0], `"name":"get"`) {
			t.Errorf("the backend was asked: %q\n%s", sent, got.Body)
		}
	})
}
