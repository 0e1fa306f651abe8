// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// office is a backend with some of everything. It records the requests that reach it.
type office struct {
	mu   sync.Mutex
	seen []string

	tasks int
}

func (o *office) Serve(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	result := func(text string) (*mcp.Result, error) { return mcp.NewResult([]byte(text)) }
	switch req.Method {
	case "server/discover":
		return result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"tasks":{"requests":{"tools":{"call":{}}}}},"instructions":"how to use the office"}`)
	case "tools/list":
		return result(`{"cacheScope":"public","ttlMs":60000,"tools":[
			{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
			{"name":"set","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}},
			{"name":"deploy","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
			{"name":"secret","inputSchema":{"type":"object"}}]}`)
	case "prompts/list":
		return result(`{"prompts":[{"name":"open"},{"name":"secret"}]}`)
	case "resources/list":
		return result(`{"resources":[{"uri":"doc:///open","name":"o"},{"uri":"doc:///secret","name":"s"}]}`)
	case "resources/templates/list":
		return result(`{"resourceTemplates":[{"uriTemplate":"note:///{id}","name":"n"},{"uriTemplate":"vault:///{id}","name":"v"}]}`)
	case "subscriptions/listen":
		<-ctx.Done()
		return result(`{}`)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, req.Method+" "+string(req.Params.Bytes()))
	switch req.Method {
	case "tools/call":
		if req.Params.Has(mcp.FieldTask) {
			o.tasks++
			return result(fmt.Sprintf(`{"resultType":"task","taskId":"t%d","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000}`, o.tasks))
		}
		return result(`{"resultType":"complete","content":[]}`)
	case "tasks/get":
		id, _ := req.Params.Text(mcp.FieldTaskID)
		return result(fmt.Sprintf(`{"taskId":%q,"status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000}`, id))
	case "prompts/get":
		return result(`{"messages":[]}`)
	case "resources/read":
		return result(`{"contents":[]}`)
	default:
		return result(`{"completion":{"values":[]}}`)
	}
}

// arrived returns the requests since the last call of it.
func (o *office) arrived() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.seen
	o.seen = nil
	return seen
}

// officeRules allow staff everything but what is secret, and others nothing.
func officeRules() config.Policy {
	return config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "staff", Allow: `"staff" in principal.claims.groups`},
		{Name: "no-secrets", Deny: `!("boss" in principal.claims.groups)`, On: []string{"*secret*", "vault:*"}},
		{Name: "no-prod", Deny: `args.env == "prod"`, On: []string{"*__deploy"}},
		{Name: "no-drafts", Deny: `item.uri.endsWith("/draft")`, On: []string{"note:*"}},
		{Name: "write", Needs: []string{"mcp:write", "mcp:use"}, When: `!item.annotations.readOnlyHint`, On: []string{"office__set"}},
	}}
}

// withPolicy returns a gateway with a policy before an office, whose lists it knows.
func withPolicy(t *testing.T, p config.Policy, change func(*config.Config)) (*signalbox.Gateway, *office) {
	t.Helper()
	o := new(office)
	cfg := config.Config{Policy: p}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: o}}})
	return g, o
}

// person is a principal with groups and scopes.
func person(name, groups string, scopes ...string) *mcp.Identity {
	var list []any
	for g := range strings.FieldsSeq(groups) {
		list = append(list, g)
	}
	return &mcp.Identity{Principal: name, Via: mcp.ViaJWT, Claims: map[string]any{"groups": list}, Scopes: scopes}
}

func requestOf(t *testing.T, id *mcp.Identity, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: mcp.V20260728, Info: []byte(`{"name":"c","version":"1"}`), Capabilities: []byte(`{}`)}
	req.Identity = id
	if id != nil {
		req.Principal = id.Principal
	}
	return req
}

// callIDInError matches the id of a call in an error, which differs for each.
var callIDInError = regexp.MustCompile(` \(call [^)]+\)|,"call":"[^"]+"|\{"call":"[^"]+"\}`)

// answerTo serves a request and returns its answer as it is sent.
func answerTo(t *testing.T, g *signalbox.Gateway, req *mcp.Request) string {
	t.Helper()
	res, err := g.Serve(t.Context(), req, nil)
	if err != nil {
		wire := mcp.ToWire(err)
		return callIDInError.ReplaceAllString(fmt.Sprintf("%d %s %s", wire.Code, wire.Message, wire.Data), "")
	}
	return string(res.Bytes())
}

func namesFor(t *testing.T, g *signalbox.Gateway, id *mcp.Identity) []string {
	t.Helper()
	var names []string
	for _, list := range []struct{ method, member, key string }{
		{"tools/list", "tools", "name"}, {"prompts/list", "prompts", "name"},
		{"resources/list", "resources", "uri"}, {"resources/templates/list", "resourceTemplates", "uriTemplate"},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(answerTo(t, g, requestOf(t, id, list.method, `{}`))), &got); err != nil {
			t.Fatal(err)
		}
		items, _ := got[list.member].([]any)
		for _, item := range items {
			members, _ := item.(map[string]any)
			names = append(names, fmt.Sprint(members[list.key]))
		}
		if got["cacheScope"] != "private" {
			t.Errorf("%s: cacheScope %v", list.method, got["cacheScope"])
		}
	}
	return names
}

func TestPolicyViews(t *testing.T) {
	g, _ := withPolicy(t, officeRules(), nil)
	all := []string{"office__get", "office__set", "office__deploy", "office__secret", "office__open", "office__secret", "doc:///open", "doc:///secret", "note:///{id}", "vault:///{id}"}
	for _, tc := range []struct {
		id   *mcp.Identity
		want []string
	}{
		{person("ann", "staff boss"), all},
		{person("bob", "staff"), []string{"office__get", "office__set", "office__deploy", "office__open", "doc:///open", "note:///{id}"}},
		{person("eve", "boss"), nil},
		{&mcp.Identity{Principal: "ci", Via: mcp.ViaToken}, nil},
		{nil, nil},
	} {
		if got := namesFor(t, g, tc.id); !slices.Equal(got, tc.want) {
			t.Errorf("%+v sees %q, want %q", tc.id, got, tc.want)
		}
	}
	staff, guest := answerTo(t, g, requestOf(t, person("bob", "staff"), "server/discover", `{}`)), answerTo(t, g, requestOf(t, person("eve", ""), "server/discover", `{}`))
	if !strings.Contains(staff, "how to use the office") || strings.Contains(guest, "office") {
		t.Errorf("instructions: staff are sent %s, guests %s", staff, guest)
	}
}

// N4, attack 14: a call is decided by the bytes that are sent to its backend, and one that is
// refused is not sent.
func TestPolicyDecidesCalls(t *testing.T) {
	g, o := withPolicy(t, officeRules(), nil)
	bob := person("bob", "staff")
	const denied = `{"resultType":"complete","content":[{"type":"text","text":"policy no-prod does not allow these arguments"}],"isError":true}`
	for _, tc := range []struct {
		id             *mcp.Identity
		method, params string
		want           string // of the answer; "" if the request arrives
	}{
		{bob, "tools/call", `{"name":"office__get","arguments":{"env":"prod"}}`, ""},
		{bob, "tools/call", `{"name":"office__deploy","arguments":{"env":"test"}}`, ""},
		{bob, "tools/call", `{"name":"office__deploy","arguments":{"env":"prod"}}`, denied},
		{bob, "tools/call", `{"name":"office__deploy","arguments":{"env":"test","env":"prod"}}`, denied},
		{bob, "tools/call", `{"name":"office__deploy","arguments":{"\u0065nv":"prod"}}`, denied},
		{bob, "tools/call", `{"name":"office__deploy"}`, denied},
		{bob, "tools/call", `{"name":"office__deploy","arguments":null}`, denied},
		{bob, "tools/call", `{"name":"office__set","arguments":{}}`, `-32600 office__set needs mcp:use mcp:write {"source":"gateway","outcome":"not_dispatched","code":"SB_POLICY_SCOPES","scope":"mcp:use mcp:write"}`},
		{person("bob", "staff", "mcp:use"), "tools/call", `{"name":"office__set","arguments":{}}`, `-32600 office__set needs mcp:write {"source":"gateway","outcome":"not_dispatched","code":"SB_POLICY_SCOPES","scope":"mcp:write"}`},
		{person("bob", "staff", "mcp:use", "mcp:write"), "tools/call", `{"name":"office__set","arguments":{}}`, ""},
		{person("eve", "", "mcp:use"), "tools/call", `{"name":"office__set","arguments":{}}`, `-32602 unknown tool: "office__set" `},
		{bob, "resources/read", `{"uri":"note:///final"}`, ""},
		{bob, "resources/read", `{"uri":"note:///draft"}`, `-32602 policy no-drafts does not allow this resource; the request was not sent {"source":"gateway","outcome":"not_dispatched","code":"SB_POLICY_DENIED"}`},
		{bob, "resources/read", `{"uri":"vault:///x"}`, `-32002 unknown resource {"uri":"vault:///x"}`},
		{bob, "resources/read", `{"uri":"doc:///unlisted"}`, `-32002 unknown resource {"uri":"doc:///unlisted"}`}, // as what is hidden
		{person("eve", ""), "resources/read", `{"uri":"doc:///unlisted"}`, `-32002 unknown resource {"uri":"doc:///unlisted"}`},
		{bob, "completion/complete", `{"ref":{"type":"ref/prompt","name":"office__open"},"argument":{"name":"a","value":"b"}}`, ""},
		// Rules depend on the URI, which a completion does not have.
		{bob, "completion/complete", `{"ref":{"type":"ref/resource","uri":"note:///{id}"},"argument":{"name":"id","value":"d"}}`, `-32602 policy no-secrets does not allow this completion; the request was not sent {"source":"gateway","outcome":"not_dispatched","code":"SB_POLICY_DENIED"}`},
		{bob, "prompts/get", `{"name":"office__open"}`, ""},
	} {
		got := answerTo(t, g, requestOf(t, tc.id, tc.method, tc.params))
		sent := o.arrived()
		if tc.want == "" && len(sent) != 1 || tc.want != "" && (len(sent) > 0 || got != tc.want) {
			t.Errorf("%s %s:\n got %s, sent %q\nwant %s", tc.method, tc.params, got, sent, tc.want)
		}
	}
	var denial *mcp.Denied
	_, err := g.Serve(t.Context(), requestOf(t, bob, "tools/call", `{"name":"office__set"}`), nil)
	if !errors.As(err, &denial) || denial.Status != 403 || denial.Challenge != `Bearer error="insufficient_scope", scope="mcp:use mcp:write", error_description="office__set needs mcp:use mcp:write"` {
		t.Errorf("the challenge: %+v", denial)
	}
}

// N5, I18, attack 13: what is hidden is answered as what does not exist, by every verb.
func TestHiddenIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, o := withPolicy(t, officeRules(), nil)
		synctest.Wait()
		bob := person("bob", "staff")
		for _, pair := range []struct{ method, params, hidden, unknown string }{
			{"tools/call", `{"name":"%s","arguments":{"a":1}}`, "office__secret", "office__nothin"},
			{"tools/call", `{"name":"%s","task":{"ttl":1000}}`, "office__secret", "office__nothin"},
			{"prompts/get", `{"name":"%s"}`, "office__secret", "office__nothin"},
			{"resources/read", `{"uri":"%s"}`, "vault:///x", "vaulx:///x"},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"%s"},"argument":{"name":"a","value":"b"}}`, "office__secret", "office__nothin"},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"%s"},"argument":{"name":"a","value":"b"}}`, "vault:///{id}", "vaulx:///{id}"},
		} {
			ask := func(name string) string {
				got := answerTo(t, g, requestOf(t, bob, pair.method, fmt.Sprintf(pair.params, name)))
				return strings.ReplaceAll(got, name, "NAME")
			}
			hidden, unknown := ask(pair.hidden), ask(pair.unknown)
			if hidden != unknown {
				t.Errorf("%s: a hidden item is answered %s, an unknown one %s", pair.method, hidden, unknown)
			}
		}
		o.arrived()
		// A subscription leaves both out.
		heard := make(heard, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			_, _ = g.Serve(ctx, requestOf(t, bob, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["doc:///secret","vault:///x","note:///draft","doc:///open"]}}`), heard)
		}()
		if got := <-heard; !strings.Contains(got, `["doc:///open"]`) {
			t.Errorf("subscribed to %s", got)
		}
		cancel()
		<-done
		if sent := o.arrived(); len(sent) > 0 {
			t.Errorf("the backend was asked: %q", sent)
		}
	})
}

// heard receives the notifications of a listen.
type heard chan string

func (h heard) Notify(_ context.Context, n *mcp.Notification) error {
	h <- n.Method + " " + string(n.Params.Bytes())
	return nil
}

func (heard) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, errors.New("nobody is asked here")
}

func (heard) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// Attack 16: the claims of a session's principal change while it is open. Its next request is
// answered by them, and its stream is told.
func TestClaimsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, o := withPolicy(t, officeRules(), nil)
		synctest.Wait()
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		inSession := func(id *mcp.Identity, method, params string) *mcp.Request {
			req := requestOf(t, id, method, params)
			req.Client.Version = mcp.V20251125
			req.Scope = scope
			return req
		}
		boss, staff := person("ann", "staff boss"), person("ann", "staff")
		answerTo(t, g, inSession(boss, "server/discover", `{}`))
		answerTo(t, g, inSession(boss, "tools/list", `{}`))
		told := make(heard, 10)
		ctx, cancel := context.WithCancel(t.Context())
		listening := inSession(nil, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
		listening.Principal = "ann"
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			_, _ = g.Serve(ctx, listening, told)
		}()
		<-told // the acknowledgement
		// The same claims in another token.
		answerTo(t, g, inSession(person("ann", "staff boss"), "tools/call", `{"name":"office__secret"}`))
		synctest.Wait()
		if len(o.arrived()) != 1 || len(told) != 0 {
			t.Errorf("told of %d changes before there was one", len(told))
		}
		if got := answerTo(t, g, inSession(staff, "tools/call", `{"name":"office__secret"}`)); !strings.Contains(got, "unknown tool") || len(o.arrived()) > 0 {
			t.Errorf("a tool that was visible before: %s", got)
		}
		synctest.Wait()
		if len(told) != 1 || !strings.HasPrefix(<-told, "notifications/tools/list_changed") {
			t.Errorf("told of %d changes, want that of the tools, which it has listed", len(told))
		}
		cancel()
		<-done
	})
}

// A task belongs to the principal that has started it, as long as its tool is visible.
func TestPolicyOfTasks(t *testing.T) {
	g, o := withPolicy(t, officeRules(), nil)
	boss, staff := person("ann", "staff boss"), person("ann", "staff")
	var begun struct {
		TaskID string `json:"taskId"`
	}
	start := func(tool string) string {
		got := answerTo(t, g, requestOf(t, boss, "tools/call", `{"name":"office__`+tool+`","task":{"ttl":60000}}`))
		if err := json.Unmarshal([]byte(got), &begun); err != nil || begun.TaskID == "" {
			t.Fatalf("a task: %s", got)
		}
		return begun.TaskID
	}
	secret, open := start("secret"), start("get")
	get := func(id *mcp.Identity, task string) string {
		o.arrived()
		got := answerTo(t, g, requestOf(t, id, "tasks/get", `{"taskId":"`+task+`"}`))
		if len(o.arrived()) == 1 {
			return "sent"
		}
		return got
	}
	const unknown = "-32602 unknown task "
	for _, tc := range []struct {
		id   *mcp.Identity
		task string
		want string
	}{
		{boss, secret, "sent"}, {boss, open, "sent"}, {staff, secret, unknown}, {staff, open, "sent"},
		{person("ann", ""), open, unknown}, {person("bob", "staff boss"), open, unknown}, {staff, "nothing", unknown},
	} {
		if got := get(tc.id, tc.task); got != tc.want {
			t.Errorf("%v asks for the task: %s, want %s", tc.id.Claims, got, tc.want)
		}
	}
}

// A dry run refuses and hides nothing, and records what it would.
func TestDryRun(t *testing.T) {
	p := officeRules()
	p.DryRun = true
	record := filepath.Join(t.TempDir(), "audit.jsonl")
	g, o := withPolicy(t, p, func(cfg *config.Config) { cfg.Audit.File = record })
	eve := person("eve", "")
	if got := namesFor(t, g, eve); len(got) != 10 {
		t.Errorf("sees %q", got)
	}
	for _, params := range []string{`{"name":"office__secret"}`, `{"name":"office__get"}`, `{"name":"office__deploy","arguments":{"env":"prod"}}`} {
		answerTo(t, g, requestOf(t, eve, "tools/call", params))
	}
	answerTo(t, g, requestOf(t, person("bob", "staff"), "tools/call", `{"name":"office__get"}`)) // would be allowed
	answerTo(t, g, requestOf(t, person("bob", "staff"), "tools/call", `{"name":"office__set"}`))
	if sent := o.arrived(); len(sent) != 5 {
		t.Errorf("sent %q", sent)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	var details []string
	for line := range strings.Lines(readFile(t, record)) {
		var e struct{ Event, Principal, Detail, Decision, Rule string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "policy_dry_run" {
			details = append(details, fmt.Sprintf("%s: %s %s by %s", e.Principal, e.Detail, e.Decision, e.Rule))
		}
	}
	want := []string{"eve: tool office__secret dry_run_denied by no-secrets", "eve: tool office__get dry_run_denied by otherwise", "eve: tool office__deploy dry_run_denied by otherwise", "bob: tool office__set dry_run_needs by write"}
	if !slices.Equal(details, want) {
		t.Errorf("recorded %q", details)
	}
}

func TestPolicyIsRecorded(t *testing.T) {
	record := filepath.Join(t.TempDir(), "audit.jsonl")
	g, _ := withPolicy(t, officeRules(), func(cfg *config.Config) { cfg.Audit.File, cfg.Operators = record, "true" })
	bob := person("bob", "staff")
	for _, params := range []string{`{"name":"office__secret"}`, `{"name":"office__deploy","arguments":{"env":"prod","token":"hunter2"}}`, `{"name":"office__set"}`, `{"name":"office__get"}`} {
		answerTo(t, g, requestOf(t, bob, "tools/call", params))
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1" // with a policy, only this machine may read them
	w := httptest.NewRecorder()
	g.Operations().ServeHTTP(w, r)
	for _, want := range []string{`denied",rule="no-prod"} 1`, `needs",rule="write"} 1`, `allowed",rule="staff"} 1`, `denied",rule="otherwise"} 0`} {
		if !strings.Contains(w.Body.String(), `signalbox_decisions_total{decision="`+want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	text := readFile(t, record)
	for _, want := range []string{`"event":"hidden_item"`, `"event":"policy_denied"`, `"detail":"tool office__deploy"`, `"via":"jwt","decision":"denied","rule":"no-prod"`, `"decision":"needs","rule":"write"`, `"decision":"allowed","rule":"staff"`, `"outcome":"tool_error"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the record lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("the record has an argument:\n%s", text)
	}
}

// Attack 15: a reload with a mistake in the policy keeps the old one.
func TestReloadOfThePolicy(t *testing.T) {
	g, _ := withPolicy(t, officeRules(), nil)
	bob := person("bob", "staff")
	before := namesFor(t, g, bob)
	bad := officeRules()
	bad.Rules[0].Allow = `nobody.knows`
	if err := g.Reload(t.Context(), config.Config{Policy: bad}); err == nil || !strings.Contains(err.Error(), "policy.rules[0].allow") {
		t.Errorf("a mistake: %v", err)
	}
	if got := namesFor(t, g, bob); !slices.Equal(got, before) {
		t.Errorf("after a reload with a mistake bob sees %q", got)
	}
	next := officeRules()
	next.Rules = next.Rules[:1]
	if err := g.Reload(t.Context(), config.Config{Policy: next}); err != nil {
		t.Fatal(err)
	}
	if got := namesFor(t, g, bob); len(got) != 10 {
		t.Errorf("without the other rules bob sees %q", got)
	}
	if err := g.Reload(t.Context(), config.Config{}); err != nil {
		t.Fatal(err)
	}
	var list map[string]any
	if err := json.Unmarshal([]byte(answerTo(t, g, requestOf(t, nil, "tools/list", `{}`))), &list); err != nil || list["cacheScope"] != "public" || len(list["tools"].([]any)) != 4 {
		t.Errorf("without a policy: %v %v", list, err)
	}
}

// Principals whom the rules cannot tell apart share a view, and lists that do not differ are
// the same bytes.
func TestViewsShareBytes(t *testing.T) {
	p := officeRules()
	p.Rules = append(p.Rules, config.PolicyRule{Name: "mallory", Deny: `principal.name == "mallory"`})
	g, _ := withPolicy(t, p, nil)
	list := func(id *mcp.Identity, method string) *byte {
		t.Helper()
		res, err := g.Serve(t.Context(), requestOf(t, id, method, `{}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &res.Bytes()[0]
	}
	for _, method := range []string{"tools/list", "prompts/list", "resources/list"} {
		if list(person("ann", "staff"), method) != list(person("bob", "staff"), method) {
			t.Errorf("%s: two classes with equal lists have two of them", method)
		}
		if list(person("ann", "staff boss"), method) != list(person("bob", "boss staff"), method) {
			t.Errorf("%s: two classes that see all have two lists", method)
		}
	}
}

// Many classes at once, while the configuration changes.
func TestPolicyUnderReload(t *testing.T) {
	g, _ := withPolicy(t, officeRules(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for i := range 8 {
		// Ends with ctx; waited for below.
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				groups, wantSecret := "staff", false
				if (n+i)%2 == 0 {
					groups, wantSecret = "staff boss", true
				}
				id := person(fmt.Sprintf("p%d-%d", i, n%50), groups)
				res, err := g.Serve(ctx, requestOf(t, id, "tools/list", `{}`), nil)
				if err == nil && strings.Contains(string(res.Bytes()), "office__secret") != wantSecret {
					t.Errorf("%s sees %s", groups, res.Bytes())
					return
				}
				_, err = g.Serve(ctx, requestOf(t, id, "tools/call", `{"name":"office__secret"}`), nil)
				if (err == nil) != wantSecret && ctx.Err() == nil {
					t.Errorf("%s calls: %v", groups, err)
					return
				}
			}
		})
	}
	for range 20 {
		p := officeRules()
		if err := g.Reload(t.Context(), config.Config{Policy: p}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	callers.Wait()
}

// N5, I18: whatever name a caller tries, a hidden one is answered like an unknown one.
func TestHiddenAndUnknownNames(t *testing.T) {
	pairs := 10_000
	if testing.Short() {
		pairs = 300
	}
	g, o := withPolicy(t, officeRules(), nil)
	callers := []*mcp.Identity{nil, person("eve", ""), person("bob", "staff"), {Principal: "ci", Via: mcp.ViaToken}}
	methods := []struct{ method, params string }{
		{"tools/call", `{"name":%q}`}, {"tools/call", `{"name":%q,"arguments":{"env":"prod"}}`}, {"prompts/get", `{"name":%q}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"b"}}`},
	}
	for i := range pairs {
		m, id := methods[i%len(methods)], callers[i/len(methods)%len(callers)]
		unknown := fmt.Sprintf("office__%06d", i)
		answer := func(name string) string {
			got := answerTo(t, g, requestOf(t, id, m.method, fmt.Sprintf(m.params, name)))
			return strings.ReplaceAll(got, name, "NAME")
		}
		if hidden, not := answer("office__secret"), answer(unknown); hidden != not {
			t.Fatalf("%s by %+v: a hidden name is answered %s, %s is answered %s", m.method, id, hidden, unknown, not)
		}
	}
	if sent := o.arrived(); len(sent) > 0 {
		t.Errorf("sent %q", sent[0])
	}
}

// I17: over the gateway, each list is what may be called.
func TestListsAreWhatMayBeCalled(t *testing.T) {
	g, o := withPolicy(t, officeRules(), nil)
	for _, id := range []*mcp.Identity{nil, person("eve", ""), person("bob", "staff"), person("ann", "staff boss"), person("ann", "staff boss", "mcp:write", "mcp:use")} {
		listed := namesFor(t, g, id)
		for _, name := range []string{"get", "set", "deploy", "secret"} {
			callable := false
			for _, arguments := range []string{`{}`, `{"env":"test"}`, `{"env":"prod"}`} {
				o.arrived()
				got := answerTo(t, g, requestOf(t, id, "tools/call", `{"name":"office__`+name+`","arguments":`+arguments+`}`))
				// With the scopes that it asks for, it may be called.
				callable = callable || len(o.arrived()) == 1 || strings.Contains(got, "SB_POLICY_SCOPES")
			}
			if is := slices.Contains(listed, "office__"+name); is != callable {
				t.Errorf("%+v: %s is listed: %t, may be called: %t", id, name, is, callable)
			}
		}
	}
}

// A policy without authentication is about items and arguments, and all callers are one.
func TestPolicyOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Config{Policy: config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
			{Name: "no-secrets", Deny: "true", On: []string{"*secret"}},
			{Name: "no-prod", Deny: `has(args.env) && args.env == "prod"`},
			{Name: "ann", Deny: `principal.name != "ann"`, On: []string{"*__deploy"}},
			{Name: "write", Needs: []string{"w"}, On: []string{"*__set"}},
		}}}
		gatewaytest.WithPrincipals(&cfg, "ann", "bob")
		h := gatewaytest.Open(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: new(office)}}})
		ann, bob := gatewaytest.WithToken("ann"), gatewaytest.WithToken("bob")
		for _, tc := range []struct {
			name, params string
			as           gatewaytest.Header
			status       int
			want         string
		}{
			{"office__get", ``, bob, 200, `"content":[]`},
			{"office__get", `"arguments":{"env":"prod"}`, bob, 200, `policy no-prod does not allow these arguments`},
			{"office__deploy", ``, ann, 200, `"content":[]`},
			{"office__deploy", ``, bob, 200, `unknown tool`},
			{"office__secret", ``, ann, 200, `unknown tool`},
			{"office__set", ``, ann, 403, `office__set needs w`},
		} {
			got := h.PostModern("1", "tools/call", tc.name, tc.params, tc.as)
			if got.Status != tc.status || !strings.Contains(got.Body, tc.want) {
				t.Errorf("modern %s(%s): %d %s, want %d %s", tc.name, tc.params, got.Status, got.Body, tc.status, tc.want)
			}
			if challenge := got.Header.Get("Www-Authenticate"); (challenge == `Bearer error="insufficient_scope", scope="w", error_description="office__set needs w"`) != (tc.status == 403) {
				t.Errorf("modern %s: the challenge %q", tc.name, challenge)
			}
			sess := h.Legacy(tc.as)
			params := `{"name":"` + tc.name + `"}`
			if tc.params != "" {
				params = `{"name":"` + tc.name + `",` + tc.params + `}`
			}
			got = h.Post(gatewaytest.LegacyRequest("1", "tools/call", params), sess)
			if (got.Status == 403) != (tc.status == 403) || !strings.Contains(got.Body, tc.want) {
				t.Errorf("legacy %s(%s): %d %s, want %s", tc.name, tc.params, got.Status, got.Body, tc.want)
			}
		}
		// Each caller has its own list.
		for name, as := range map[string]gatewaytest.Header{"ann": ann, "bob": bob} {
			got := h.PostModern("1", "tools/list", "", "", as)
			if strings.Contains(got.Body, "office__deploy") != (name == "ann") || strings.Contains(got.Body, "secret") || !strings.Contains(got.Body, `"cacheScope":"private"`) {
				t.Errorf("the list of %s: %s", name, got.Body)
			}
		}
	})
}

// A pattern that matches nothing is reported, once all lists are known.
func TestPatternsThatMatchNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := officeRules()
		p.Rules[2].On = []string{"*__deploy", "office__deplyo", "x:*", "find_tool", "call_tool"}
		g, _ := withPolicy(t, p, nil)
		synctest.Wait()
		if got, want := g.Status().Problems, []string{`policy.rules[2].on[1]: "office__deplyo" matches no tool, prompt or resource [SB_NAME_UNUSED_RULE]`}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
