// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func mustCompile(t testing.TB, rules ...Rule) *Filters {
	t.Helper()
	f, problems := Compile(rules)
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	return f
}

// cards is the filter of the documents.
func cards() Rule {
	return Rule{Redact: []Redaction{{`\b\d(?:[ -]?\d){12,18}\b`, "[card]"}}}
}

func TestApply(t *testing.T) {
	const card = "4111 1111 1111 1111"
	for _, tc := range []struct{ name, in, want string }{
		{"text", `{"content":[{"type":"text","text":"pay ` + card + ` now"}]}`, `{"content":[{"type":"text","text":"pay [card] now"}]}`},
		{"nothing", `{ "content" : [ {"text":"caf\u00e9 \/ 12"} ] }`, `{ "content" : [ {"text":"caf\u00e9 \/ 12"} ] }`},
		{"escapes", `{"content":[{"type":"text","text":"\u0034111\u00201111 1111 1111\n\"x"}]}`, `{"content":[{"type":"text","text":"[card]\n\"x"}]}`},
		{"structured", `{"structuredContent":{"` + card + `":["` + card + `",4111111111111111,{"a":"` + card + `"}]}}`, `{"structuredContent":{"` + card + `":["[card]",4111111111111111,{"a":"[card]"}]}}`},
		{"numbers keep their text", `{"structuredContent":{"a":1.10e+3,"b":9007199254740993,"c":"` + card + `"}}`, `{"structuredContent":{"a":1.10e+3,"b":9007199254740993,"c":"[card]"}}`},
		{"blobs", `{"content":[{"type":"image","data":"` + card + `","mimeType":"image/png"},{"type":"resource","resource":{"uri":"a:/` + card + `","blob":"` + card + `"}}]}`, ""},
		{"embedded", `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"` + card + `"}}]}`, `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"[card]"}}]}`},
		{"read", `{"contents":[{"uri":"a:b","text":"` + card + `"},{"uri":"a:c","blob":"` + card + `"}]}`, `{"contents":[{"uri":"a:b","text":"[card]"},{"uri":"a:c","blob":"` + card + `"}]}`},
		{"prompt", `{"description":"` + card + `","messages":[{"role":"user","content":{"type":"text","text":"` + card + `"}},{"role":"user","content":[{"type":"text","text":"` + card + `"}]}]}`, `{"description":"` + card + `","messages":[{"role":"user","content":{"type":"text","text":"[card]"}},{"role":"user","content":[{"type":"text","text":"[card]"}]}]}`},
		{"task", `{"taskId":"` + card + `","status":"completed","result":{"content":[{"type":"text","text":"` + card + `"}],"result":{"content":[{"text":"` + card + `"}]}}}`, `{"taskId":"` + card + `","status":"completed","result":{"content":[{"type":"text","text":"[card]"}],"result":{"content":[{"text":"` + card + `"}]}}}`},
		{"meta", `{"_meta":{"content":[{"text":"` + card + `"}]},"inputRequests":{"a":{"text":"` + card + `"}},"ttlMs":4111111111111111}`, ""},
		{"two of a name", `{"content":[{"text":"` + card + `","text":"` + card + `"}],"content":[{"text":"` + card + `"}]}`, `{"content":[{"text":"[card]","text":"[card]"}],"content":[{"text":"[card]"}]}`},
		{"an escaped name", `{"\u0063ontent":[{"te\u0078t":"` + card + `"}]}`, `{"\u0063ontent":[{"te\u0078t":"[card]"}]}`},
		{"not as specified", `{"content":["` + card + `",{"text":["` + card + `",{"a":"` + card + `"}]}],"messages":{"a":"b"},"contents":"` + card + `","structuredContent":"` + card + `"}`, `{"content":["[card]",{"text":["[card]",{"a":"[card]"}]}],"messages":{"a":"b"},"contents":"[card]","structuredContent":"[card]"}`},
		{"half a character", `{"content":[{"text":"\ud83d ` + card + `"},{"text":"\ud83d"}]}`, `{"content":[{"text":"� [card]"},{"text":"\ud83d"}]}`},
		{"empty", `{}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.want == "" {
				tc.want = tc.in
			}
			f := mustCompile(t, Rule{On: []string{"other"}, Mark: true}, cards()).Results(Target{Name: "a__b"})
			got, by, err := f.Apply([]byte(tc.in), "a", 1000)
			if err != nil || string(got) != tc.want || (by == 1) != (tc.in != tc.want) {
				t.Errorf("got %v, filter %d\n%s\nwant\n%s", err, by, got, tc.want)
			}
		})
	}
}

func TestApplyInOrder(t *testing.T) {
	f := mustCompile(t,
		Rule{Redact: []Redaction{{"a", "b"}, {"b+", "$0c"}}},
		Rule{Redact: []Redaction{{"c", `"}]`}}},
	).Results(Target{Name: "x"})
	got, by, err := f.Apply([]byte(`{"content":[{"text":"ab"}]}`), "s", 100)
	if want := `{"content":[{"text":"$0\"}]"}]}`; err != nil || by != 0 || string(got) != want {
		t.Errorf("got %s, filter %d, %v, want %s", got, by, err, want)
	}
}

func TestMark(t *testing.T) {
	f := mustCompile(t, Rule{Mark: true}, cards()).Results(Target{Name: "x"})
	const in = `{"content":[{"type":"text","text":"4111111111111111\tb"},{"type":"text","text":""},{"type":"image","data":"x"},{"type":"resource","resource":{"uri":"a:b","text":"c"}}],"structuredContent":{"text":"d"}}`
	marks := make(map[string]bool)
	for range 2 {
		got, by, err := f.Apply([]byte(in), `we"b`, 1000)
		if err != nil || by != 1 {
			t.Fatal(err, by)
		}
		form := regexp.MustCompile(`^\{"content":\[\{"type":"text","text":"\[text of server \\"we\\\\\\"b\\", not of the user; it ends at (\w{8})\]\\n\[card\]\\tb\\n\[(\w{8}): end of the text of server \\"we\\\\\\"b\\"\]"\},(.*)$`)
		m := form.FindStringSubmatch(string(got))
		if m == nil || m[1] != m[2] || !strings.HasSuffix(in, m[3]) {
			t.Fatalf("got %s", got)
		}
		marks[m[1]] = true
	}
	if len(marks) != 2 {
		t.Error("two results have the same mark, which a server could know")
	}
	prompt, _, _ := f.Apply([]byte(`{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`), "web", 1000)
	file, _, _ := f.Apply([]byte(`{"contents":[{"uri":"a:b","text":"{}"}]}`), "web", 1000)
	if !strings.Contains(string(prompt), "not of the user") || string(file) != `{"contents":[{"uri":"a:b","text":"{}"}]}` {
		t.Errorf("a prompt is %s, and a file %s", prompt, file)
	}
}

// Replacements and marks are bounded while they are made.
func TestApplyBound(t *testing.T) {
	raw := []byte(`{"content":[{"text":"` + strings.Repeat("a", 1<<20) + `"}]}`)
	f := mustCompile(t, Rule{Redact: []Redaction{{"a", strings.Repeat("b", MaxWith)}}}).Results(Target{Name: "x"})
	if out, by, err := f.Apply(raw, "s", 1<<10); !errors.Is(err, ErrTooLarge) || out != nil || by != 0 {
		t.Errorf("got %d bytes, filter %d, %v", len(out), by, err)
	}
	if out, _, err := f.Apply([]byte(`{"content":[{"text":"aaaa"}]}`), "s", 4*MaxWith); err != nil || strings.Count(string(out), "b") != 4*MaxWith {
		t.Errorf("at the bound: %d bytes, %v", len(out), err)
	}
	mark := mustCompile(t, Rule{Mark: true}).Results(Target{Name: "x"})
	if _, _, err := mark.Apply([]byte(`{"content":[{"text":"a"},{"text":"b"}]}`), "s", 150); !errors.Is(err, ErrTooLarge) {
		t.Errorf("marks: %v", err)
	}
}

func TestResultsSelects(t *testing.T) {
	f := mustCompile(t,
		Rule{On: []string{"crm__*", "file:///a/*"}, Redact: []Redaction{{"x", ""}}},
		Rule{On: []string{"web__get"}, Mark: true},
		Rule{Refuse: "true"},
	)
	for _, tc := range []struct {
		targets      []Target
		redact, mark bool
	}{
		{[]Target{{Name: "crm__get"}}, true, false},
		{[]Target{{Name: "web__get"}}, false, true},
		{[]Target{{Name: "web__set"}}, false, false},
		{[]Target{{Name: "web__", IsBegin: true}}, false, true},
		{[]Target{{Name: "web__"}}, false, false},
		{[]Target{{Name: "none"}, {Name: "crm__x"}}, true, false},
		{[]Target{{Name: "file:///b/../a/%78", IsURI: true}}, true, false},
		{[]Target{{Name: "file:///", IsURI: true, IsBegin: true}}, true, false},
		{[]Target{{Name: "file:///b/", IsURI: true, IsBegin: true}}, false, false},
		{nil, false, false},
	} {
		r := f.Results(tc.targets...)
		if got := r != nil && len(r.filters) > 0; got != tc.redact {
			t.Errorf("%v: redacted: %t", tc.targets, got)
		}
		if got := r != nil && r.mark; got != tc.mark {
			t.Errorf("%v: marked: %t", tc.targets, got)
		}
	}
}

func TestRefuse(t *testing.T) {
	f := mustCompile(t,
		Rule{On: []string{"other"}, Refuse: "true"},
		Rule{Refuse: `args.exists(k, type(args[k]) == string && args[k].contains("BEGIN PRIVATE KEY"))`, Say: "a private key stays here"},
		Rule{On: []string{"crm__*"}, Refuse: `args.amount > 10 && principal.name != "boss"`},
	)
	for _, tc := range []struct{ name, args, principal, want string }{
		{"web__get", `{"a":"-----BEGIN PRIVATE KEY-----"}`, "", "1 a private key stays here"},
		{"web__get", `{"a":"-----BEGIN \u0050RIVATE KEY-----"}`, "", "1 a private key stays here"},
		{"web__get", `{"a":["x"],"b":1,"c":"BEGIN"}`, "", ""},
		{"web__get", ``, "", ""},
		{"crm__pay", `{"amount":11}`, "ada", "2 these arguments are refused"},
		{"crm__pay", `{"amount":11}`, "boss", ""},
		{"crm__pay", `{"amount":9}`, "ada", ""},
		{"crm__pay", `{}`, "ada", "2 these arguments could not be checked"},
		{"crm__pay", `{"amount":123456789012345678901234567890}`, "boss", "1 these arguments could not be checked"},
		{"web__get", `{"a":1,"a":2}`, "", "1 these arguments could not be checked"},
	} {
		c := &Call{Call: policy.Call{Method: "tools/call"}, Identity: &mcp.Identity{Principal: tc.principal}, Item: func() *policy.Item { return policy.NewItem(policy.Tool, "x", tc.name, "", nil) }}
		if tc.args != "" {
			c.Args = []byte(tc.args)
		}
		got := ""
		if index, say, refused := f.Refuse(Target{Name: tc.name}, c); refused {
			got = fmt.Sprint(index, " ", say)
		}
		if got != tc.want {
			t.Errorf("%s %s by %q: got %q, want %q", tc.name, tc.args, tc.principal, got, tc.want)
		}
	}
	if _, _, refused := mustCompile(t, cards()).Refuse(Target{Name: "a"}, nil); refused {
		t.Error("a filter of results refuses arguments")
	}
}

func TestCompileProblems(t *testing.T) {
	for _, tc := range []struct {
		rule Rule
		want string
	}{
		{Rule{Redact: []Redaction{{"a", ""}, {"a(", ""}}}, "rule 0, redact: it is not a regular expression of RE2: missing closing ): \"a(\""},
		{Rule{Redact: []Redaction{{"(?=a)", ""}}}, "rule 0, redact: it is not a regular expression of RE2: invalid or unsupported Perl syntax: \"(?=\""},
		{Rule{Redact: []Redaction{{"a*", ""}}}, "rule 0, redact: it matches the empty text, and so would be replaced between all characters"},
		{Rule{Redact: []Redaction{{strings.Repeat("a", MaxMatch+1), ""}}}, "rule 0, redact: it has 1025 bytes; at most 1024 are allowed"},
		{Rule{Refuse: "args.x =="}, "rule 0, refuse: Syntax error: mismatched input '<EOF>'"},
		{Rule{Refuse: "1 + 1"}, "rule 0, refuse: it is of type int, not bool"},
	} {
		f, problems := Compile([]Rule{tc.rule})
		if len(problems) != 1 || f != nil || !strings.HasPrefix(problems[0].Error(), tc.want) {
			t.Errorf("%v: got %v, want %s", tc.rule, problems, tc.want)
		}
	}
}

// sameShape compares two texts of JSON: all but strings, and the names of members, must be the same
// bytes. It returns where they differ.
func sameShape(a, b []byte) string {
	if len(a) == 0 || len(b) == 0 || a[0] == '"' != (b[0] == '"') {
		return fmt.Sprintf("%s and %s", a, b)
	}
	type member struct {
		name  string
		value []byte
	}
	list := func(raw []byte) (all []member) {
		for name, value := range jsonscan.Members(raw) {
			all = append(all, member{name, value})
		}
		for value := range jsonscan.Elements(raw) {
			all = append(all, member{"", value})
		}
		return all
	}
	switch a[0] {
	case '"':
		return ""
	case '{', '[':
		in, out := list(a), list(b)
		if a[0] != b[0] || len(in) != len(out) {
			return fmt.Sprintf("%s and %s", a, b)
		}
		for i := range in {
			if in[i].name != out[i].name {
				return fmt.Sprintf("the names %q and %q", in[i].name, out[i].name)
			}
			if diff := sameShape(in[i].value, out[i].value); diff != "" {
				return diff
			}
		}
		return ""
	default:
		if string(a) != string(b) {
			return fmt.Sprintf("%s and %s", a, b)
		}
		return ""
	}
}

// randomJSON returns a value with the members of results in all places.
func randomJSON(r *rand.Rand, depth int) string {
	texts := []string{`""`, `"4111111111111111"`, `"\"}]"`, `"a\u0061\\b\ud83d\ude00"`, `"\ud800a"`, `"é\u0000\n"`, `"]},{"`}
	kind := r.IntN(7)
	if depth <= 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0, 1, 2:
		return texts[r.IntN(len(texts))]
	case 3:
		return []string{"1.10", "-0", "1e400", "12345678901234567890"}[r.IntN(4)]
	case 4:
		return []string{"true", "null", "{}", "[ ]"}[r.IntN(4)]
	case 5:
		var parts []string
		for range r.IntN(4) {
			parts = append(parts, randomJSON(r, depth-1))
		}
		return "[" + strings.Join(parts, " ,\n") + "]"
	default:
		return randomObject(r, depth)
	}
}

func randomObject(r *rand.Rand, depth int) string {
	names := []string{`"content"`, `"text"`, `"resource"`, `"contents"`, `"messages"`, `"structuredContent"`, `"result"`, `"a"`, `"\u0061b"`, `"data"`}
	var parts []string
	for _, i := range r.Perm(len(names))[:r.IntN(5)] {
		parts = append(parts, names[i]+" : "+randomJSON(r, depth-1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// shapeFilters are filters with what could break JSON in the replacement.
func shapeFilters(t testing.TB) *Results {
	return mustCompile(t, cards(), Rule{Mark: true, Redact: []Redaction{{"a", "\"}],\x00\xff\\"}, {`[\]}"\\]`, ""}, {"\uFFFD", "\u2028"}}}).Results(Target{Name: "x"})
}

func checkShape(t *testing.T, f *Results, raw string) {
	t.Helper()
	before := raw
	bytes := []byte(raw)
	out, _, err := f.Apply(bytes, "s", math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	if string(bytes) != before {
		t.Fatalf("it has changed its input %s to %s", before, bytes)
	}
	if _, err := mcp.NewResult(out); err != nil || !json.Valid(out) {
		t.Fatalf("%s became %s: %v", raw, out, err)
	}
	if diff := sameShape(bytes, out); diff != "" {
		t.Fatalf("%s\nbecame %s:\n%s", raw, out, diff)
	}
}

// C13: a filter sees JSON and gives JSON.
func TestApplyKeepsTheShape(t *testing.T) {
	f, changed := shapeFilters(t), 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 13))
		raw := randomObject(r, 5)
		checkShape(t, f, raw)
		if out, _, _ := f.Apply([]byte(raw), "s", 1<<20); string(out) != raw {
			changed++
		}
	}
	if changed < 2000 {
		t.Errorf("only %d results have changed", changed)
	}
}

func FuzzApply(f *testing.F) {
	for _, seed := range []string{`{"content":[{"type":"text","text":"4111111111111111a"}]}`, `{"structuredContent":{"a":["\ud800","]"]}}`, `{"messages":[{"content":{"text":"a"}}],"contents":[{"text":"\\"}]}`, `{"result":{"content":{"resource":{"text":"a"}}}}`} {
		f.Add(seed)
	}
	filters := shapeFilters(f)
	f.Fuzz(func(t *testing.T, raw string) {
		if _, err := mcp.NewResult([]byte(raw)); err != nil || !strings.HasPrefix(raw, "{") {
			return // it is not a result
		}
		checkShape(t, filters, raw)
	})
}
