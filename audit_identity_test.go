// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// auditing returns a gateway with an audit record, and a function that closes it and returns
// the lines of the record without their times.
func auditing(t *testing.T) (g *Gateway, lines func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	g, err := New(config.Config{Audit: config.Audit{File: path}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g, func() []string {
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`"time":"[^"]*",`).ReplaceAll(text, nil)
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
}

// anIdentity has a value in each field.
func anIdentity() *mcp.Identity {
	return &mcp.Identity{
		Principal: "corp:8f3a", Via: mcp.ViaJWT, Issuer: "https://canary.example", Subject: "canary-subject", Scopes: []string{"canary:scope"},
		Claims: map[string]any{"canary-claim": "canary"}, Token: mcp.NewToken("canary-token"),
	}
}

// The record of a call has the form of the credential and the decision, and nothing else of
// the identity. Without an identity it has the members that it always had.
func TestAuditOfACallWithIdentity(t *testing.T) {
	g, lines := auditing(t)
	done := recorder.Call{Method: "tools/call", Name: "jira__create", Outcome: "ok"}
	for _, id := range []*mcp.Identity{nil, anIdentity()} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"jira__create","arguments":{"canary":1}}`))
		if err != nil {
			t.Fatal(err)
		}
		var why verdict
		if id != nil {
			req.Principal, req.Identity, why = id.Principal, id, verdict{decision: "allow", rule: "staff", as: "user"}
		}
		g.auditCall(t.Context(), req, &done, &servedBy{verdict: why})
	}
	const rest = `"method":"tools/call","name":"jira__create","backend":"","outcome":"ok","durationMs":0}`
	want := []string{
		`{"event":"call","principal":"","remote":"","session":"","detail":"","client":"",` + rest,
		`{"event":"call","principal":"corp:8f3a","remote":"","session":"","detail":"","via":"jwt","decision":"allow","rule":"staff","as":"user","client":"",` + rest,
	}
	if diff := cmp.Diff(lines(), want); diff != "" {
		t.Errorf("record (-got +want):\n%s", diff)
	}
}

// A request of a client has the form of its credential in its record.
func TestAuditOfATokenHasItsForm(t *testing.T) {
	g, lines := auditing(t)
	for _, id := range []*mcp.Identity{{Principal: "ci", Via: mcp.ViaToken}, localIdentity, {}} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"no"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Principal, req.Identity = id.Principal, id
		if _, err := g.Serve(t.Context(), req, nil); err == nil {
			t.Fatal("served")
		}
	}
	var got []any
	for _, line := range lines() {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e["via"])
	}
	if diff := cmp.Diff(got, []any{"token", "local", nil}); diff != "" {
		t.Errorf("via (-got +want):\n%s", diff)
	}
}

// Each event is one line with what is set, and is counted. A detail of a peer cannot break
// the line, and is cut; nothing of an identity but its principal and form is written.
func TestAuditOfIdentityEvents(t *testing.T) {
	g, lines := auditing(t)
	kinds := []server.EventKind{signInBegun, signInDone, signInFailed, grantEnded, issuerChanged, foreignSignIn, foreignProxy}
	for _, kind := range kinds {
		if !slices.Contains(eventKinds(), kind) || !isAudited(kind) {
			t.Errorf("%s is not counted from the start, or not recorded", kind)
		}
		g.noteIdentityEvent(t.Context(), &identityEvent{kind: kind})
	}
	g.noteIdentityEvent(t.Context(), &identityEvent{
		kind: signInFailed, identity: anIdentity(), remote: "127.0.0.1:5", session: "s1", detail: "tool \"x\n\x00\u202e" + strings.Repeat("y", 400),
		verdict: verdict{decision: "deny", rule: "no-prod", as: "gateway"},
	})
	got := lines()
	for i, kind := range kinds {
		if want := `{"event":"` + string(kind) + `","principal":"","remote":"","session":"","detail":""}`; got[i] != want {
			t.Errorf("got %s, want %s", got[i], want)
		}
	}
	last := got[len(kinds)]
	var e map[string]string
	if err := json.Unmarshal([]byte(last), &e); err != nil {
		t.Fatal(err)
	}
	detail := e["detail"]
	delete(e, "detail")
	want := map[string]string{
		"event": "signin_failed", "principal": "corp:8f3a", "remote": "127.0.0.1:5", "session": "s1",
		"via": "jwt", "decision": "deny", "rule": "no-prod", "as": "gateway",
	}
	if diff := cmp.Diff(e, want); diff != "" {
		t.Errorf("the last event (-got +want):\n%s", diff)
	}
	if !strings.HasPrefix(detail, `tool \"x\n\x00\u202eyyy`) || len(detail) > 200 {
		t.Errorf("detail of %d bytes: %q", len(detail), detail)
	}
	if strings.Contains(strings.Join(got, "\n"), "canary") {
		t.Errorf("the record has more of the identity: %s", last)
	}
}

// docs/operations.md lists each kind of event and whether it is recorded.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Events\n")
	section, _, _ = strings.Cut(section, "\n### ")
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\|(| yes) \\|$").FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2] != ""
	}
	there := make(map[string]bool)
	for _, kind := range eventKinds() {
		there[string(kind)] = isAudited(kind)
	}
	if diff := cmp.Diff(documented, there); diff != "" {
		t.Errorf("docs/operations.md (-documented +there):\n%s", diff)
	}
}
