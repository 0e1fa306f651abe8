// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/url"
	"strings"
	"testing"
)

// signIn signs a principal in that a call has asked to.
func (g *signInGateway) signIn(token string) {
	g.t.Helper()
	page, _ := g.begun(token)
	b := newBrowser(g.t)
	if token != "" {
		b.post(page, g.edge.URL, url.Values{"token": {token}})
	}
	if status, html := b.post(page, g.edge.URL, nil); status != 200 {
		g.t.Fatalf("status %d\n%s", status, html)
	}
}

// A server that lists only for users that are signed in lists for each of them after the sign-in, and
// not for the others.
func TestSignInForOwnLists(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	if s := retried(t, g.Gateway, "down"); s.Reason != "it lists its tools only for users that are signed in, for each its own: call crm__sign_in, or run signalbox login crm in a terminal" {
		t.Errorf("the operator reads %q", s.Reason)
	}
	const ann, bob = "canary-token-of-t_ann", "canary-token-of-t_bob"
	g.signIn(ann)
	if res := g.call(ann, "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, `"You are signed in to crm."`) {
		t.Errorf("ann: %s", res)
	}
	if list := g.call(ann, "tools/list", "", `{}`, ""); strings.Join(toolList.FindStringSubmatch(list), " ") != `"name":"crm__find" crm__find` {
		t.Errorf("ann: %s", list)
	}
	if list := g.call(bob, "tools/list", "", `{}`, ""); strings.Join(toolList.FindStringSubmatch(list), " ") != `"name":"crm__sign_in" crm__sign_in` {
		t.Errorf("bob: %s", list)
	}
	if res := g.call(ann, "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Errorf("ann: %s", res)
	}
	if res := g.call(bob, "tools/call", "crm__find", `{}`, ""); strings.Contains(res, `"content":[]`) || !strings.Contains(res, "call crm__sign_in") {
		t.Errorf("bob: %s", res)
	}
}

// Shared lists are there again after a restart, with the grant of the first user that calls.
func TestSharedListsAfterRestart(t *testing.T) {
	p := newSignInPeers(t)
	shared := strings.Replace(withTokens, `"oauth": {}`, `"oauth": {"lists": "shared"}`, 1)
	g := p.open(shared)
	retried(t, g.Gateway, "down")
	g.signIn("canary-token-of-t_ann")
	retried(t, g.Gateway, "live")
	if res := g.call("canary-token-of-t_ann", "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Fatalf("ann: %s", res)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again := p.open(shared)
	retried(t, again.Gateway, "down")
	if res := again.call("canary-token-of-t_ann", "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, "You are signed in to crm.") {
		t.Fatalf("ann: %s", res)
	}
	if list := again.call("canary-token-of-t_bob", "tools/list", "", `{}`, ""); !strings.Contains(list, `"crm__find"`) {
		t.Errorf("bob: %s", list)
	}
}

// A server with known lists has no tool to sign in: its state names another way.
func TestSignedOutWithKnownLists(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	g.signIn("")
	retried(t, g.Gateway, "live")
	if res := g.call("", "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Fatalf("result %s", res)
	}
	p.revoked.Store(true)
	if res := g.call("", "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, "because your access has ended") {
		t.Fatalf("result %s", res)
	}
	if s := retried(t, g.Gateway, "stale"); !strings.Contains(s.Reason, "call one of its tools, or run signalbox login crm") {
		t.Errorf("reason %q", s.Reason)
	}
}

// In a profile with own names an error names the tool to sign in as that lists it.
func TestSignInHintOfOwnNames(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens + `, "profiles": {"own": {"servers": ["crm"], "names": "own"}}`)
	retried(t, g.Gateway, "down")
	const ann, bob = "canary-token-of-t_ann", "canary-token-of-t_bob"
	for _, signedIn := range []bool{false, true} {
		for profile, want := range map[string]string{"": "call crm__sign_in, or run signalbox login crm", "own": "call sign_in, or run signalbox login crm"} {
			g.at = profile
			name := map[string]string{"": "crm__"}[profile]
			for _, of := range []string{"find", "nothing"} {
				if res := g.call(bob, "tools/call", name+of, `{}`, ""); !strings.Contains(res, want) {
					t.Errorf("profile %q, %s: %s", profile, of, res)
				}
			}
		}
		if g.at = ""; !signedIn {
			g.signIn(ann)
		}
	}
}
