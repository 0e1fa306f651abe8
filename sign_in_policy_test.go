// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"regexp"
	"strings"
	"testing"
)

// A policy about the tools of a backend is about the tool to sign in, which takes their place: who
// may call one of them gets it, and signs in; to others it does not exist (N5, N12).
func TestPolicyOfToolsAllowsSignIn(t *testing.T) {
	p := newSignInPeers(t)
	policy := `, "policy": {"otherwise": "deny", "rules": [{"name": "ann-finds", "allow": "principal.name == 'ann'", "on": ["crm__find"]}]}`
	g := p.open(strings.Replace(withTokens, `"oauth": {}`, `"oauth": {"lists": "shared"}`, 1) + policy)
	retried(t, g.Gateway, "down")
	if list := g.call(ann, "tools/list", "", `{}`, ""); !strings.Contains(list, `"crm__sign_in"`) {
		t.Fatalf("ann: %s", list)
	}
	if list := g.call(bob, "tools/list", "", `{}`, ""); !strings.Contains(list, `"tools":[]`) {
		t.Errorf("bob: %s", list)
	}
	ids := regexp.MustCompile(`[0-9a-z]{5}-[0-9a-z]{5}`)
	called := func(name string) string {
		return ids.ReplaceAllString(strings.ReplaceAll(g.call(bob, "tools/call", name, withURL, ""), name, "NAME"), "ID")
	}
	hidden := called("crm__sign_in")
	for _, name := range []string{"crm__sign_on", "crm__find", "xyz__sign_in"} {
		if unknown := called(name); unknown != hidden {
			t.Errorf("hidden: %s\n%s: %s", hidden, name, unknown)
		}
	}
	page, _ := g.begun(ann)
	b := newBrowser(t)
	if status, html := b.post(page, g.edge.URL, map[string][]string{"token": {ann}}); status != 200 {
		t.Fatalf("status %d\n%s", status, html)
	}
	if status, html := b.post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in") {
		t.Fatalf("status %d\n%s", status, html)
	}
	if res := g.call(ann, "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, "You are signed in") {
		t.Errorf("ann: %s", res)
	}
	if list := g.call(ann, "tools/list", "", `{}`, ""); strings.Join(toolList.FindStringSubmatch(list), " ") != `"name":"crm__find" crm__find` {
		t.Errorf("ann: %s", list)
	}
	if res := g.call(ann, "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Errorf("ann: %s", res)
	}
}
