// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustCompile(t testing.TB, allow bool, rules ...policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(rules, policy.Options{Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func identity(t testing.TB, name, claims string, scopes ...string) *mcp.Identity {
	t.Helper()
	id := &mcp.Identity{Principal: name, Via: mcp.ViaJWT, Issuer: "https://id.example.com", Subject: "8f3a", Scopes: scopes}
	if claims != "" {
		d := json.NewDecoder(strings.NewReader(claims))
		d.UseNumber()
		if err := d.Decode(&id.Claims); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

func tool(name, raw string) *policy.Item {
	return policy.NewItem(policy.Tool, "jira", name, strings.TrimPrefix(name, "jira__"), []byte(raw))
}

func call(args string) *policy.Call {
	c := &policy.Call{Method: "tools/call"}
	if args != "" {
		c.Args = []byte(args)
	}
	return c
}

// example is the policy of the documentation.
func example(t testing.TB) *policy.Policy {
	return mustCompile(t, false,
		policy.Rule{Name: "staff", Allow: `"staff" in principal.claims.groups`, On: []string{"jira__*", "wiki__*"}},
		policy.Rule{Name: "no-prod", Deny: `args.env == "prod" && !("sre" in principal.claims.groups)`, On: []string{"jira__deploy"}},
		policy.Rule{Name: "write", Needs: []string{"mcp:write"}, When: `!item.annotations.readOnlyHint`, On: []string{"jira__*"}},
	)
}

func TestExample(t *testing.T) {
	p := example(t)
	const readOnly, writes = `{"annotations":{"readOnlyHint":true}}`, `{"annotations":{"readOnlyHint":false}}`
	staff, sre, guest := `{"groups":["staff"]}`, `{"groups":["staff","sre"]}`, `{"groups":[]}`
	for _, tc := range []struct {
		claims, item, raw, args string
		scopes                  []string
		list, call, rule        string
	}{
		{staff, "jira__get", readOnly, `{}`, nil, "allowed", "allowed", "staff"},
		{guest, "jira__get", readOnly, `{}`, nil, "denied", "denied", "otherwise"},
		{"", "jira__get", readOnly, `{}`, nil, "denied", "denied", "otherwise"}, // an allow that fails
		{staff, "mail__get", readOnly, `{}`, nil, "denied", "denied", "otherwise"},
		{staff, "jira__set", writes, `{}`, nil, "needs", "needs", "write"},
		{guest, "jira__set", writes, `{}`, nil, "denied", "denied", "otherwise"}, // scopes would not help
		{staff, "jira__set", writes, `{}`, []string{"mcp:write"}, "allowed", "allowed", "staff"},
		{staff, "jira__set", `{}`, `{}`, nil, "needs", "needs", "write"}, // needs that fail
		{staff, "jira__deploy", readOnly, `{"env":"prod"}`, nil, "open", "denied", "no-prod"},
		{staff, "jira__deploy", readOnly, `{"env":"test"}`, nil, "open", "allowed", "staff"},
		{staff, "jira__deploy", readOnly, ``, nil, "open", "denied", "no-prod"}, // a deny that fails
		{sre, "jira__deploy", readOnly, `{"env":"prod"}`, nil, "allowed", "allowed", "staff"},
		{guest, "jira__deploy", readOnly, `{"env":"test"}`, nil, "denied", "denied", "otherwise"},
	} {
		s := p.Subject(identity(t, "corp:8f3a", tc.claims, tc.scopes...), nil)
		it := tool(tc.item, tc.raw)
		v := p.List(s, it)
		if v.Effect.String() != tc.list {
			t.Errorf("%s for %s: listed as %v, want %s", tc.item, tc.claims, v.Effect, tc.list)
		}
		for _, known := range []*policy.Verdict{nil, &v} {
			if d := p.Decide(s, it, call(tc.args), known); d.Effect.String() != tc.call || d.Rule != tc.rule {
				t.Errorf("%s(%s) for %s: %v by %s, want %s by %s", tc.item, tc.args, tc.claims, d.Effect, d.Rule, tc.call, tc.rule)
			}
		}
	}
}

func TestMissingScopesAreAllOfTheOperation(t *testing.T) {
	p := mustCompile(t, true,
		policy.Rule{Name: "a", Needs: []string{"write", "read"}}, policy.Rule{Name: "b", Needs: []string{"admin", "write"}},
		policy.Rule{Name: "c", Needs: []string{"other"}, When: "false"})
	d := p.Decide(p.Subject(identity(t, "x", "", "read"), nil), tool("t", ""), call(""), nil)
	if got := fmt.Sprint(d); got != "{needs a [admin read write] [admin write]}" {
		t.Errorf("got %s", got)
	}
}

// Attack 14: arguments are judged as they are dispatched. What readers could read differently
// is an error, which denies.
func TestArgumentsOfAttackers(t *testing.T) {
	deny := mustCompile(t, true, policy.Rule{Name: "r", Deny: `has(args.n) && args.n == 5`})
	allow := mustCompile(t, false, policy.Rule{Name: "r", Allow: `args.n != 5`})
	big := mustCompile(t, true, policy.Rule{Name: "r", Deny: `args.n == 9007199254740993`})
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for _, tc := range []struct {
		args             string
		deny, allow, big string
	}{
		{``, "allowed", "denied", "denied"},
		{`{}`, "allowed", "denied", "denied"},
		{`null`, "denied", "denied", "denied"},
		{`[]`, "denied", "denied", "denied"},
		{`{"n":5}`, "denied", "denied", "allowed"},
		{`{"n":5.0}`, "denied", "denied", "allowed"},
		{`{"n":0.5e1}`, "denied", "denied", "allowed"},
		{`{"n":"5"}`, "allowed", "allowed", "allowed"}, // another value, for the backend, too
		{`{"n":6}`, "allowed", "allowed", "allowed"},
		{`{"n":6,"n":5}`, "denied", "denied", "denied"},
		{`{"n":6,"\u006e":5}`, "denied", "denied", "denied"},
		{`{"n":6,"m":{"a":1,"a":2}}`, "denied", "denied", "denied"},
		{`{"n":9007199254740993}`, "allowed", "allowed", "denied"},
		{`{"n":9007199254740992}`, "allowed", "allowed", "allowed"},
		{`{"n":9007199254740993.0}`, "denied", "denied", "denied"},
		{`{"n":18446744073709551615}`, "allowed", "allowed", "allowed"},
		{`{"n":18446744073709551616}`, "denied", "denied", "denied"},
		{`{"n":1e400}`, "denied", "denied", "denied"},
		{`{"n":` + deep + `}`, "allowed", "allowed", "allowed"},
		{`{"n":` + deep + `,"m":5}`, "allowed", "allowed", "allowed"},
		{`{"n":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "denied", "denied", "denied"},
		{"{\"n\":\"\xff\"}", "denied", "denied", "denied"},
		{`{"n":6} {"n":5}`, "denied", "denied", "denied"},
	} {
		for _, one := range []struct {
			p    *policy.Policy
			want string
		}{{deny, tc.deny}, {allow, tc.allow}, {big, tc.big}} {
			if d := one.p.Decide(one.p.Subject(nil, nil), tool("t", ""), call(tc.args), nil); d.Effect.String() != one.want {
				t.Errorf("%.60s: %v, want %s", tc.args, d.Effect, one.want)
			}
		}
	}
}

func TestFailuresAreReported(t *testing.T) {
	type failure struct {
		rule string
		why  policy.Failure
	}
	for _, tc := range []struct {
		deny string
		want policy.Failure
	}{
		{`principal.claims.missing`, policy.FailedMissing},
		{`int(args.secret) == 1`, policy.FailedOther},
		{`principal.claims.groups`, policy.FailedOther},
		{`args.l.all(a, args.l.all(b, args.l.all(c, true)))`, policy.FailedCost},
		{`item.annotations.x`, policy.FailedItem},
		{`item.tags.size() == 0`, policy.FailedItem},
	} {
		var got []failure
		p, err := policy.Compile([]policy.Rule{{Name: "r", Deny: tc.deny}}, policy.Options{Allow: true, Failed: func(rule string, why policy.Failure) { got = append(got, failure{rule, why}) }})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Subject(identity(t, "x", `{"groups":["hunter2"]}`), nil)
		args := `{"secret":"hunter2","l":[` + strings.Repeat("1,", 99) + `1]}`
		d := p.Decide(s, tool("t", `{"annotations":{"a":1,"a":2},"_meta":{"tags":[1]}}`), call(args), nil)
		if want := (failure{"r", tc.want}); d.Effect != policy.Denied || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, reported %v, want %v", tc.deny, d.Effect, got, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		rule policy.Rule
		want string
	}{
		{policy.Rule{Allow: "true"}, `rules[0]: it has no name; clients that it refuses are shown the name`},
		{policy.Rule{Name: "otherwise", Allow: "true"}, `rules[0].name: "otherwise" stands for what no rule decides; choose another name`},
		{policy.Rule{Name: "a b", Allow: "true"}, `rules[0].name: use letters, digits, '.', '_' and '-', at most 64`},
		{policy.Rule{Name: "r"}, `rules[0]: a rule has exactly one of allow, deny, needs and confirm; this one has 0`},
		{policy.Rule{Name: "r", Allow: "true", Deny: "true"}, `rules[0]: a rule has exactly one of allow, deny, needs and confirm; this one has 2`},
		{policy.Rule{Name: "r", Needs: []string{}}, `rules[0].needs: it has no scopes`},
		{policy.Rule{Name: "r", Needs: []string{`a"b`}}, `rules[0].needs: "a\"b" is not a scope (RFC 6749, section 3.3)`},
		{policy.Rule{Name: "r", Allow: "true", On: []string{}}, `rules[0].on: it has no patterns, so that the rule is about nothing; leave it out for all items`},
		{policy.Rule{Name: "r", Allow: `principal.scope == "x"`}, `rules[0].allow, line 1 column 10: undeclared reference to 'principal.scope' (did you mean 'principal.scopes'?)`},
		{policy.Rule{Name: "r", Allow: "true &&\n  args.x =="}, `rules[0].allow, line 2 column 12: Syntax error: mismatched input '<EOF>' expecting`},
		{policy.Rule{Name: "r", Allow: `principal.name`}, `rules[0].allow: it is of type string, not bool`},
		{policy.Rule{Name: "r", Allow: `true`, When: `item.kind == 1`}, `rules[0].when, line 1 column 11: found no matching overload for '_==_' applied to '(string, int)'`},
		{policy.Rule{Name: "r", Allow: `args.l.map(x, x).size() > 0`}, `rules[0].allow, line 1 column 11: map is not available, because it makes lists; use exists, all or exists_one`},
		{policy.Rule{Name: "r", Allow: `args.l.exists(x, [x, x].exists(y, y == y))`}, `rules[0].allow, line 1 column 19: a list or map may not contain the variable of a macro`},
		{policy.Rule{Name: "r", Allow: `args.s.matches(args.t)`}, `rules[0].allow, line 1 column 15: the pattern of matches must be a literal`},
		{policy.Rule{Name: "r", Allow: `args.s.matches("(")`}, `rules[0].allow: `},
		{policy.Rule{Name: "r", Allow: `"` + strings.Repeat("x", 5000) + `" == ""`}, `rules[0].allow: it has 5008 bytes; at most 4096 are allowed`},
	} {
		_, err := policy.Compile([]policy.Rule{tc.rule}, policy.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%+v:\n got %v\nwant %s", tc.rule, err, tc.want)
		}
		if e, ok := errors.AsType[policy.Errors](err); !ok || e[0].Rule != 0 {
			t.Errorf("%+v: %T", tc.rule, err)
		}
	}
	_, err := policy.Compile([]policy.Rule{{Name: "a", Allow: "true"}, {Name: "a", Deny: "true"}}, policy.Options{})
	if err == nil || err.Error() != `rules[1].name: "a" is the name of a rule before it` {
		t.Errorf("two rules of one name: %v", err)
	}
}

// Attack 15: whatever an expression does, it ends soon.
func TestExpensiveExpressions(t *testing.T) {
	literal := "[" + strings.Repeat("1,", 30) + "1]"
	nested := "true"
	for i := range 8 {
		nested = fmt.Sprintf("%s.all(v%d, %s)", literal, i, nested)
	}
	if _, err := policy.Compile([]policy.Rule{{Name: "r", Deny: nested}}, policy.Options{}); err == nil || !strings.Contains(err.Error(), "it may cost") {
		t.Errorf("a constant that costs 31^8: %v", err)
	}
	args := `{"s":"` + strings.Repeat("a", 100_000) + `","l":[` + strings.Repeat("1,", 9999) + `1]}`
	for _, text := range []string{
		`args.l.all(a, args.l.all(b, args.l.all(c, args.l.all(d, true))))`,
		`args.s.matches("(a*)*(a*)*b")`,
		`args.s` + strings.Repeat("+args.s", 40) + ` == ""`,
		`(args.l` + strings.Repeat("+args.l", 40) + `).exists(a, a == 2)`,
		`args.l.exists(a, args.l + args.l == args.l)`,
	} {
		p := mustCompile(t, true, policy.Rule{Name: "r", Deny: text})
		began := time.Now()
		d := p.Decide(p.Subject(nil, nil), tool("t", ""), call(args), nil)
		if took := time.Since(began); d.Effect != policy.Denied || took > 2*time.Second {
			t.Errorf("%.40s: %v after %v", text, d.Effect, took)
		}
	}
}

func TestCostOfWhatIsUnknownDoesNotHide(t *testing.T) {
	groups := `{"groups":[` + strings.Repeat(`"x",`, 99) + `"x"]}`
	p := mustCompile(t, true, policy.Rule{Name: "r", Deny: `args.x && principal.claims.groups.all(a, principal.claims.groups.all(b, principal.claims.groups.all(c, true)))`})
	s, it := p.Subject(identity(t, "x", groups), nil), tool("t", "")
	v := p.List(s, it)
	if d := p.Decide(s, it, call(`{"x":false}`), &v); v.Hidden() || d.Effect != policy.Allowed {
		t.Errorf("listed as %v, called as %v", v.Effect, d.Effect)
	}
}

func TestTemplates(t *testing.T) {
	template := policy.NewItem(policy.Template, "files", "file:///notes/{+path}", "file:///notes/{+path}", nil)
	read := func(uri string) *policy.Call {
		return &policy.Call{Method: "resources/read", URI: uri, HasURI: true}
	}
	for _, tc := range []struct {
		rule      policy.Rule
		list      string
		uri, call string
	}{
		{policy.Rule{Deny: "true", On: []string{"file:///secret/*"}}, "allowed", "file:///notes/a", "allowed"},
		{policy.Rule{Deny: "true", On: []string{"file:///notes/*"}}, "denied", "file:///notes/a", "denied"},
		{policy.Rule{Deny: "true", On: []string{"file:///*"}}, "denied", "file:///notes/a", "denied"},
		{policy.Rule{Deny: "true", On: []string{"*.key"}}, "open", "file:///notes/a.key", "denied"},
		{policy.Rule{Deny: "true", On: []string{"file:///notes/a/*"}}, "open", "file:///notes/a/b", "denied"},
		{policy.Rule{Deny: "true", On: []string{"file:///notes/a/*"}}, "open", "file:///notes/b/b", "allowed"},
		{policy.Rule{Deny: "true", On: []string{"file:///notes/a"}}, "open", "file:///notes/a", "denied"},
		{policy.Rule{Deny: "true", On: []string{"file:///note"}}, "allowed", "file:///notes/a", "allowed"},
		{policy.Rule{Deny: "true", On: []string{"file:///not*"}}, "denied", "file:///notes/a", "denied"},
		{policy.Rule{Deny: `item.uri.endsWith(".key")`}, "open", "file:///notes/a.key", "denied"},
		{policy.Rule{Deny: `item.uri.endsWith(".key")`}, "open", "file:///notes/a", "allowed"},
		{policy.Rule{Deny: `item.kind == "template"`}, "denied", "file:///notes/a", "denied"},
	} {
		tc.rule.Name = "r"
		p := mustCompile(t, true, tc.rule)
		s := p.Subject(nil, nil)
		v := p.List(s, template)
		d := p.Decide(s, template, read(tc.uri), &v)
		if v.Effect.String() != tc.list || d.Effect.String() != tc.call {
			t.Errorf("%+v: listed as %v, %s read as %v; want %s, %s", tc.rule, v.Effect, tc.uri, d.Effect, tc.list, tc.call)
		}
	}
	// A completion has no URI: what depends on it is refused.
	p := mustCompile(t, true, policy.Rule{Name: "r", Deny: `item.uri.endsWith(".key")`})
	if d := p.Decide(p.Subject(nil, nil), template, &policy.Call{Method: "completion/complete"}, nil); d.Effect != policy.Denied {
		t.Errorf("a completion: %v", d.Effect)
	}
}

func TestItems(t *testing.T) {
	it := policy.NewItem(policy.Tool, "git", "git__push", "push", []byte(`{"name":"push","annotations":{"destructiveHint":true},"_meta":{"_fastmcp":{"tags":["b","a"]},"tags":["c"]}}`))
	p := mustCompile(t, false, policy.Rule{Name: "r", Allow: `item.kind == "tool" && item.backend == "git" && item.name == "git__push" && item.own == "push" && item.uri == "" && item.annotations.destructiveHint && item.tags == ["a", "b", "c"]`})
	if v := p.List(p.Subject(nil, nil), it); v.Effect != policy.Allowed {
		t.Errorf("a tool: %v", v.Effect)
	}
	p = mustCompile(t, false, policy.Rule{Name: "r", Allow: `item.kind == "resource" && item.uri == "file:///a" && item.name == item.uri && item.tags.size() == 0`})
	if v := p.List(p.Subject(nil, nil), policy.NewItem(policy.Resource, "f", "file:///a", "file:///a", nil)); v.Effect != policy.Allowed {
		t.Errorf("a resource: %v", v.Effect)
	}
}

func TestRequests(t *testing.T) {
	p := mustCompile(t, false, policy.Rule{Name: "r", Allow: `request.method != "completion/complete" && request.era == "legacy" && request.client.name == "a" && request.client.version == "1"`})
	peer := &mcp.Peer{Version: mcp.V20251125, Info: []byte(`{"name":"a","version":"1"}`)}
	prompt := policy.NewItem(policy.Prompt, "b", "b__p", "p", nil)
	s := p.Subject(nil, peer)
	v := p.List(s, prompt)
	if v.Effect != policy.Allowed {
		t.Errorf("a prompt: %v", v.Effect)
	}
	if d := p.Decide(s, prompt, &policy.Call{Method: "completion/complete"}, &v); d.Effect != policy.Denied {
		t.Errorf("its completion: %v", d.Effect)
	}
	if p.Subject(nil, &mcp.Peer{Version: mcp.V20260728, Info: peer.Info}).Class() == s.Class() {
		t.Error("clients of different eras are of one class")
	}
}

func TestClasses(t *testing.T) {
	p := mustCompile(t, false,
		policy.Rule{Name: "a", Allow: `"staff" in principal.claims.groups || principal.claims.realm["roles"].exists(r, r == "x")`},
		policy.Rule{Name: "b", Needs: []string{"write"}},
		policy.Rule{Name: "c", Deny: `principal.via == "token"`})
	base := `{"groups":["staff"],"realm":{"roles":["x"],"other":1},"sub":"1"}`
	class := func(claims string, scopes ...string) policy.Class {
		return p.Subject(identity(t, claims, claims, scopes...), nil).Class()
	}
	for _, same := range []string{
		`{"groups":["staff"],"realm":{"roles":["x"],"other":2},"sub":"2","more":[]}`,
		`{"realm":{"roles":["x"]},"groups":["staff"]}`,
	} {
		if class(same) != class(base) {
			t.Errorf("%s is of another class than %s", same, base)
		}
	}
	if class(base, "read") != class(base) {
		t.Error("a scope that no rule needs makes another class")
	}
	seen := map[policy.Class]string{}
	for _, other := range []string{base, `{"groups":["staff"]}`, `{"groups":["staff"],"realm":null}`, `{"groups":["staff"],"realm":{}}`, `{"groups":[],"realm":{"roles":["x"]}}`, `{"groups":null,"realm":{"roles":["x"]}}`, `{"groups":["staff"],"realm":{"roles":["x"]},"n":1e400}`} {
		if before, ok := seen[class(other)]; ok {
			t.Errorf("%s is of the class of %s", other, before)
		}
		seen[class(other)] = other
	}
	if class(base, "write") == class(base) {
		t.Error("a scope that a rule needs makes no class")
	}
}

func TestSubjectsAreKept(t *testing.T) {
	p := example(t)
	id := identity(t, "x", `{"groups":["staff"]}`)
	if p.Subject(id, nil) != p.Subject(id, &mcp.Peer{}) {
		t.Error("the subject of an identity was made twice")
	}
	it := tool("jira__get", `{"annotations":{"readOnlyHint":true}}`)
	v := p.List(p.Subject(id, nil), it)
	c := call(`{}`)
	if n := testing.AllocsPerRun(100, func() {
		if p.Decide(p.Subject(id, nil), it, c, &v).Effect != policy.Allowed {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("a decision that needs no arguments: %v allocations", n)
	}
}

func TestExplain(t *testing.T) {
	p := example(t)
	s := p.Subject(identity(t, "x", `{"groups":["staff"]}`), nil)
	it := tool("jira__deploy", "")
	values, d := p.Explain(s, it, nil)
	if got, want := fmt.Sprint(values, d), `[{staff allow true true  []} {no-prod deny true unknown  []} {write needs true failed no such key: readOnlyHint [mcp:write]}] {open  [] []}`; got != want {
		t.Errorf("all calls:\n got %s\nwant %s", got, want)
	}
	values, d = p.Explain(s, it, call(`{"env":"prod"}`))
	if got, want := fmt.Sprint(values[1], d), `{no-prod deny true true  []} {denied no-prod [] []}`; got != want {
		t.Errorf("one call:\n got %s\nwant %s", got, want)
	}
}

// MayAllow is false only if every item that a backend may list is denied.
func TestMayAllow(t *testing.T) {
	for _, tt := range []struct {
		rule      policy.Rule
		otherwise bool
		unlisted  policy.Unlisted
		want      bool
	}{
		{policy.Rule{Allow: `true`}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, true},
		{policy.Rule{Allow: `principal.name == "ann"`}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, true},
		{policy.Rule{Allow: `principal.name == "bob"`}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, false},
		{policy.Rule{Allow: `principal.claims.missing`}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, false},
		{policy.Rule{Allow: `item.backend == "a"`}, false, policy.Unlisted{Kind: policy.Tool, Backend: "a"}, true},
		{policy.Rule{Allow: `item.backend == "a"`}, false, policy.Unlisted{Kind: policy.Tool, Backend: "b"}, false},
		{policy.Rule{Allow: `item.kind == "prompt"`}, false, policy.Unlisted{Kind: policy.Tool}, false},
		{policy.Rule{Allow: `item.own == "x"`}, false, policy.Unlisted{Kind: policy.Tool}, true},
		{policy.Rule{Allow: `item.annotations.readOnlyHint`}, false, policy.Unlisted{Kind: policy.Tool}, true},
		{policy.Rule{Allow: `"t" in item.tags`}, false, policy.Unlisted{Kind: policy.Tool}, true},
		{policy.Rule{Allow: `args.a == 1`}, false, policy.Unlisted{Kind: policy.Tool}, true},
		{policy.Rule{Allow: `item.uri.startsWith("x:")`}, false, policy.Unlisted{Kind: policy.Resource}, true},
		{policy.Rule{Allow: `true`, On: []string{"a__x"}}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, true},
		{policy.Rule{Allow: `true`, On: []string{"b__*"}}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, false},
		{policy.Rule{Allow: `true`, On: []string{"find"}}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, false},
		{policy.Rule{Allow: `true`, On: []string{"find"}}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__", Renamed: map[string]string{"x": "find"}}, true},
		{policy.Rule{Allow: `item.own == "y"`, On: []string{"find"}}, false, policy.Unlisted{Kind: policy.Tool, Prefix: "a__", Renamed: map[string]string{"x": "find"}}, false},
		{policy.Rule{Allow: `true`, On: []string{"x:*"}}, false, policy.Unlisted{Kind: policy.Template}, true},
		{policy.Rule{Deny: `true`, On: []string{"a__*"}}, true, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, false},
		{policy.Rule{Deny: `true`, On: []string{"a__x*"}}, true, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, true},
		{policy.Rule{Deny: `item.name != "a__x"`}, true, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, true},
		{policy.Rule{Needs: []string{"w"}}, true, policy.Unlisted{Kind: policy.Tool, Prefix: "a__"}, true},
	} {
		tt.rule.Name = "r"
		p, err := policy.Compile([]policy.Rule{tt.rule}, policy.Options{Allow: tt.otherwise, Failed: func(string, policy.Failure) { t.Error("a failure is counted") }})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MayAllow(p.Subject(&mcp.Identity{Principal: "ann"}, nil), &tt.unlisted); got != tt.want {
			t.Errorf("%+v, %+v: %t", tt.rule, tt.unlisted, got)
		}
	}
}
