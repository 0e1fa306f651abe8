// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// hiddenRules let ann use everything, and bob what is open at the office.
func hiddenRules() config.Policy {
	return config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "ann", Allow: `principal.name == "ann"`},
		{Name: "bob", Allow: `principal.name == "bob"`, On: []string{"office__*", "doc:*", "vault:*"}},
		{Name: "no-secrets", Deny: `principal.name != "ann"`, On: []string{"*secret*", "vault:*"}},
	}}
}

// withHidden returns a gateway in front of an office, of a server that refuses all requests, and of
// one that answers none.
func withHidden(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	away := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "silent" {
			_, _ = io.Copy(io.Discard, r.Body) // so that a client that leaves is noticed
			<-r.Context().Done()
			return
		}
		http.Error(w, "away", http.StatusServiceUnavailable)
	}))
	cfg := config.Config{Policy: hiddenRules(), Servers: []config.Backend{
		{Name: "gone", URL: "http://gone/mcp"}, {Name: "renamed", URL: "http://renamed/mcp", Prefix: new("r_"), Rename: map[string]string{"a": "find"}},
		{Name: "silent", URL: "http://silent/mcp"},
	}}
	gatewaytest.WithPrincipals(&cfg, "ann", "bob")
	g := gatewaytest.Open(t, cfg, signalbox.Options{
		Transport: away, InProcess: []signalbox.InProcess{{Name: "office", Handler: new(office)}},
	})
	time.Sleep(10 * time.Second) // the lists of the office are known, and silent is still starting
	return g
}

// verbs are the requests by which a client can name an item: a format of the parameters, for the
// name in which NAME of its kind is hidden, unknown, or of a server that is away.
var verbs = []struct {
	method, params string
	kind           string
	in             []mcp.Version // nil is all
}{
	{"tools/call", `{"name":%q}`, "name", nil},
	{"tools/call", `{"name":%q,"arguments":{"a":1}}`, "name", nil},
	{"tools/call", `{"name":%q,"arguments":{"a":1,"a":2}}`, "name", nil},
	{"prompts/get", `{"name":%q}`, "name", nil},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"b"}}`, "name", nil},
	{"resources/read", `{"uri":%q}`, "uri", nil},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"a","value":"b"}}`, "template", nil},
	{"resources/subscribe", `{"uri":%q}`, "uri", []mcp.Version{mcp.V20250326, mcp.V20250618, mcp.V20251125}},
	{"tasks/get", `{"taskId":%q}`, "task", []mcp.Version{mcp.V20251125, mcp.V20260728}},
	{"tasks/result", `{"taskId":%q}`, "task", []mcp.Version{mcp.V20251125}},
	{"tasks/cancel", `{"taskId":%q}`, "task", []mcp.Version{mcp.V20251125, mcp.V20260728}},
}

// namesOf has for each kind one that is hidden, then ones that must be answered like it.
var namesOf = map[string][]string{
	"name":     {"office__secret", "office__absent", "gone__secret", "gone__absent", "r_secret", "find", "silent__secret", "nothing"},
	"uri":      {"doc:///secret", "doc:///absent", "vault:///secret", "DOC:///secret", "doc:///x/../secret", "note:///hidden"},
	"template": {"vault:///{id}", "vaulx:///{id}", "note:///{id}"},
	"task":     {"", "absent"}, // the first is a task of ann
}

// unknownAnswer matches the errors about what does not exist, of all verbs.
var unknownAnswer = regexp.MustCompile(`"message":"(unknown |no updates are available for this resource|completion/complete: ref names no )`)

// comment matches what keeps a stream open.
var comment = regexp.MustCompile(`(?m)^: *\n\n?`)

// identity N5, attack 13: a hidden item, an unknown one, and one of a server that is away and has
// nothing for the caller have one answer: its bytes, status, headers, and the time
// that it takes by the gateway's clock. So it is for each request, in each revision, and in a batch.
func TestHiddenUnknownAndAway(t *testing.T) {
	versions := []mcp.Version{mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := withHidden(t)
				annsTask := startTask(t, h)
				bob := gatewaytest.WithToken("bob")
				if version != mcp.V20260728 {
					bob = openedAs(t, h, version, bob)
				}
				for _, verb := range verbs {
					if verb.in != nil && !slices.Contains(verb.in, version) {
						continue
					}
					if verb.kind == "uri" {
						time.Sleep(time.Minute) // silent may have any URI, and is waited for while it starts
					}
					ask := func(name string, batch bool) string {
						if name == "" {
							name = annsTask
						}
						return outwardly(h, version, bob, verb.method, fmt.Sprintf(verb.params, name), name, batch)
					}
					for _, batch := range []bool{false, true} {
						if batch && version != mcp.V20250326 {
							continue
						}
						names := namesOf[verb.kind]
						want := ask(names[0], batch)
						if !unknownAnswer.MatchString(want) {
							t.Errorf("%s of what is hidden: %s", verb.method, want)
						}
						for _, name := range names[1:] {
							if got := ask(name, batch); got != want {
								t.Errorf("%s of what is hidden (batch: %t):\n%s\n%s:\n%s", verb.method, batch, want, name, got)
							}
						}
					}
				}
			})
		})
	}
}

// A hidden URI is waited for as long as an unknown one: any server that starts may have it.
func TestHiddenURIsAreWaitedFor(t *testing.T) {
	waits := make(map[string]time.Duration)
	for _, uri := range namesOf["uri"] {
		synctest.Test(t, func(t *testing.T) {
			h := withHidden(t)
			began := time.Now()
			h.PostModern("1", "resources/read", "", `"uri":"`+uri+`"`, gatewaytest.WithToken("bob"), gatewaytest.Header{"Mcp-Name": uri})
			waits[uri] = time.Since(began)
		})
	}
	for uri, wait := range waits {
		if wait != waits["doc:///absent"] || wait == 0 {
			t.Errorf("%s is waited for for %v, an unknown one for %v", uri, wait, waits["doc:///absent"])
		}
	}
}

// A caller that may see something of a server gets the reason why it does not have an item, whatever
// the name is: also for one that the caller may not see.
func TestStateOfAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hiddenRules()
		p.Rules[1].On = append(p.Rules[1].On, "gone__open*", "find")
		h := withHidden(t)
		if err := h.G.Reload(t.Context(), reconfigured(h, p)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for who, told := range map[string][]string{"ann": {"gone__secret", "gone__x", "gone__open", "r_x", "find"}, "bob": {"gone__secret", "gone__x", "gone__open", "r_x", "find"}} {
			for _, name := range told {
				got := h.PostModern("1", "tools/call", name, "", gatewaytest.WithToken(who))
				if !strings.Contains(got.Body, "it has not been reached yet") {
					t.Errorf("%s calls %s: %d %s", who, name, got.Status, got.Body)
				}
			}
		}
	})
}

// reconfigured returns the configuration of withHidden with another policy.
func reconfigured(h *gatewaytest.Gateway, p config.Policy) config.Config {
	cfg := config.Config{Policy: p, Servers: []config.Backend{
		{Name: "gone", URL: "http://gone/mcp"}, {Name: "renamed", URL: "http://renamed/mcp", Prefix: new("r_"), Rename: map[string]string{"a": "find"}},
		{Name: "silent", URL: "http://silent/mcp"},
	}}
	gatewaytest.WithPrincipals(&cfg, "ann", "bob")
	return cfg
}

// startTask starts a task of ann at the office, and returns its id.
func startTask(t *testing.T, h *gatewaytest.Gateway) string {
	t.Helper()
	ann := openedAs(t, h, mcp.V20251125, gatewaytest.WithToken("ann"))
	got := h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"office__get","task":{"ttl":60000}}`), ann)
	_, rest, ok := strings.Cut(got.Body, `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no task: %s", got.Body)
	}
	return id
}

// openedAs opens a session of a revision, and returns the headers of its requests.
func openedAs(t *testing.T, h *gatewaytest.Gateway, version mcp.Version, who gatewaytest.Header) gatewaytest.Header {
	t.Helper()
	got := h.Post(strings.Replace(initializeMessage, "2025-11-25", string(version), 1), who)
	if got.Status != http.StatusOK {
		t.Fatalf("initialize: %d %s", got.Status, got.Body)
	}
	return gatewaytest.Header{"Authorization": who["Authorization"], "Mcp-Session-Id": got.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": string(version)}
}

// outwardly returns all that a client sees of an answer, without what it has sent itself and the
// id of the call.
func outwardly(h *gatewaytest.Gateway, version mcp.Version, who gatewaytest.Header, method, params, name string, batch bool) string {
	h.T.Helper()
	began := time.Now()
	var got gatewaytest.Response
	switch {
	case version == mcp.V20260728:
		body, headers := gatewaytest.ModernRequest("1", method, "", params[1:len(params)-1])
		if method != "completion/complete" {
			headers["Mcp-Name"] = name
		}
		body = strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		got = h.Post(body, who, headers)
	case batch:
		got = h.Post("["+gatewaytest.LegacyRequest("1", method, params)+"]", who)
	default:
		got = h.Post(gatewaytest.LegacyRequest("1", method, params), who)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d after %v\n", got.Status, time.Since(began))
	for _, header := range slices.Sorted(headerNames(got.Header)) {
		values := got.Header[header]
		if header == "Date" || header == "Content-Length" { // that of a name is counted
			continue
		}
		fmt.Fprintf(&out, "%s: %q\n", header, values)
	}
	out.WriteString(callIDInError.ReplaceAllString(strings.ReplaceAll(comment.ReplaceAllString(got.Body, ""), name, "NAME"), ""))
	return out.String()
}

func headerNames(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}
