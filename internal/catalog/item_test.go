// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// DESIGN: an item is forwarded as the bytes that arrived, except for its name.
//
// K5+ 2026-07-28 server/tools: "MUST be a valid JSON Schema object (not `null`)"
func TestItemsAreBytes(t *testing.T) {
	empty := ""
	tests := []struct {
		name        string
		kind        Kind
		rules       Rules
		item, want  string
		wantOwnName string
	}{
		{
			name: "unknown members, their order, number texts, escapes and spaces", kind: Tools,
			item:        "{ \"x\" : 1.0e2, \"name\"\t: \"s\\u0065arch\" ,\n \"inputSchema\": {\"type\":\"object\",\"maximum\":9007199254740993}, \"\\u0078y\":null }",
			want:        "{ \"x\" : 1.0e2, \"name\"\t: \"a__search\" ,\n \"inputSchema\": {\"type\":\"object\",\"maximum\":9007199254740993}, \"\\u0078y\":null }",
			wantOwnName: "search",
		},
		{
			name: "nothing at all where the name stays", kind: Tools, rules: Rules{Prefix: &empty},
			item:        `{"name":"s\u0065arch","inputSchema":{"type":"object"}}`,
			want:        `{"name":"s\u0065arch","inputSchema":{"type":"object"}}`,
			wantOwnName: "search",
		},
		{
			name: "names below are nobody's business", kind: Prompts,
			item:        `{"arguments":[{"name":"n"}],"name":"p","_meta":{"name":"m"}}`,
			want:        `{"arguments":[{"name":"n"}],"name":"a__p","_meta":{"name":"m"}}`,
			wantOwnName: "p",
		},
		{
			name: "a name that needs escapes", kind: Prompts,
			item:        `{"name":"\"\\\n\u00e9"}`,
			want:        `{"name":"a__\"\\\né"}`,
			wantOwnName: "\"\\\né",
		},
		{
			name: "a resource keeps its name and URI", kind: Resources,
			item:        `{"name":"n","uri":"file:\/\/\/x"}`,
			want:        `{"name":"n","uri":"file:\/\/\/x"}`,
			wantOwnName: "file:///x",
		},
		{
			name: "so does a template", kind: Templates,
			item:        `{"name":"n","uriTemplate":"\u0066ile:///{\u0078}","uri":"no"}`,
			want:        `{"name":"n","uriTemplate":"\u0066ile:///{\u0078}","uri":"no"}`,
			wantOwnName: "file:///{x}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Build([]Backend{backend("a").rules(tt.rules).with(tt.kind, tt.item)}, Options{})
			if c.sections[tt.kind].len != 1 {
				t.Fatalf("not offered: %s", problems(c))
			}
			for e := range c.Entries(tt.kind) {
				if got := string(e.JSON()); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				if e.Own != tt.wantOwnName {
					t.Errorf("Own = %q, want %q", e.Own, tt.wantOwnName)
				}
			}
			res, err := c.List(tt.kind, "")
			if err != nil || !strings.Contains(string(res.Bytes()), "["+tt.want+"]") {
				t.Errorf("the list is %s, %v", res.Bytes(), err)
			}
		})
	}
}

// FAULTS 61, 66; REQUIREMENTS K2, K5: each of these is left out alone, with a reason
// that names it.
//
// K2- 2026-07-28 basic/index: "Schemas that fail to validate due to an unresolved
// external `$ref` SHOULD be rejected rather than silently treated as permissive."
//
// K5- 2026-07-28 server/tools: "MUST be a valid JSON Schema object (not `null`)"
func TestItemsLeftOut(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	const tooDeep = `it is nested deeper than the 125 levels allowed for an item of a list`
	tests := []struct {
		name string
		kind Kind
		item string
		want string // part of the problem
	}{
		{"null", Tools, `null`, `tool "at place 2": left out: not an object`},
		{"null prompt", Prompts, `null`, `prompt "at place 2": left out: not an object`},
		{"null resource", Resources, `null`, `resource "at place 2": left out: not an object`},
		{"null template", Templates, `null`, `resource template "at place 2": left out: not an object`},
		{"no text", Tools, ` `, `tool "at place 2": left out: not an object`},
		{"string", Tools, `"x"`, `not an object`},
		{"array", Tools, `[{"name":"x","inputSchema":{}}]`, `not an object`},
		{"empty object", Tools, `{}`, `it has no name`},
		{"name null", Tools, `{"name":null,"inputSchema":{}}`, `it has no name`},
		{"name a number", Tools, `{"name":1,"inputSchema":{}}`, `it has no name`},
		{"name empty", Tools, `{"name":"","inputSchema":{}}`, `it has no name`},
		{"name with half a surrogate pair", Tools, `{"name":"\ud800","inputSchema":{}}`, `it has no name`},
		{"name twice", Tools, `{"name":"x","name":"y","inputSchema":{}}`, `duplicate member "name"`},
		{"schema twice", Tools, `{"name":"x","inputSchema":{},"inputSchema":{"type":"object"}}`, `duplicate member "inputSchema"`},
		{"no uri", Resources, `{"name":"x"}`, `it has no uri`},
		{"uri null", Resources, `{"uri":null}`, `it has no uri`},
		{"no uri of a skill", Skills, `{"frontmatter":{}}`, `it has no uri`},
		{"no frontmatter", Skills, `{"uri":"x:y"}`, `skill "x:y": left out: it has no frontmatter`},
		{"frontmatter a text", Skills, `{"uri":"x:y","frontmatter":"name: y"}`, `it has no frontmatter`},
		{"a file without a uri", Skills, `{"uri":"x:y","frontmatter":{},"resources":[{"digest":"sha256:aa"}]}`, `a file in its resources has no uri`},
		{"a file that is a text", Skills, `{"uri":"x:y","frontmatter":{},"resources":["x:y"]}`, `a file in its resources has no uri`},
		{"no uriTemplate", Templates, `{"uri":"x:y"}`, `it has no uriTemplate`},
		{"uriTemplate a number", Templates, `{"uriTemplate":7}`, `it has no uriTemplate`},
		{"no schema", Tools, `{"name":"x"}`, `tool "x": left out: it has no inputSchema`},
		{"schema of another type", Tools, `{"name":"x","inputSchema":{"type":"string"}}`, `its inputSchema is not of type object`},
		{"schema of several types", Tools, `{"name":"x","inputSchema":{"type":["object","null"]}}`, `its inputSchema is not of type object`},
		{"schema null", Tools, `{"name":"x","inputSchema":null}`, `its inputSchema is not an object`},
		{"schema true", Tools, `{"name":"x","inputSchema":true}`, `its inputSchema is not an object`},
		{"schema an array", Tools, `{"name":"x","inputSchema":[]}`, `its inputSchema is not an object`},
		{"output schema true", Tools, `{"name":"x","outputSchema":true,"inputSchema":{}}`, `its outputSchema is not an object`},
		{"$ref to the network", Tools, `{"name":"x","inputSchema":{"properties":{"a":{"$ref":"http://169.254.169.254/latest"}}}}`, `its inputSchema has an external reference: "http://169.254.169.254/latest"`},
		{"$ref to a file", Tools, `{"name":"x","inputSchema":{"$ref":"file:///etc/passwd"}}`, `has an external reference: "file:///etc/passwd"`},
		{"$ref in the output", Tools, `{"name":"x","outputSchema":{"$ref":"other.json"},"inputSchema":{}}`, `its outputSchema has an external reference: "other.json"`},
		{"schema too large", Tools, `{"name":"x","inputSchema":{"description":"` + strings.Repeat("x", 1000) + `"}}`, `its inputSchema has 1034 bytes, more than the limit of 1000 (limits.schema)`},
		{"schema too deep", Tools, `{"name":"x","inputSchema":` + deep(125) + `}`, `tool "x": left out: ` + tooDeep},
		{"too deep", Prompts, `{"name":"x","a":` + deep(125) + `}`, `prompt "x": left out: ` + tooDeep},
		{"too deep, of arrays", Prompts, `{"name":"x","a":` + strings.Repeat("[", 125) + strings.Repeat("]", 125) + `}`, `prompt "x": left out: ` + tooDeep},
		{"too deep, with brackets in texts", Resources, `{"uri":"x:y","b":"\\\"}]","a":` + deep(125) + `}`, `resource "x:y": left out: ` + tooDeep},
		{"far too deep", Prompts, `{"name":"x","a":` + deep(1022) + `}`, `prompt "x": left out: ` + tooDeep},
		{"too deep, without a name", Prompts, `{"a":` + deep(125) + `}`, `prompt "at place 2": left out: it has no name`},
		{"the same twice", Tools, tool("first"), `tool "first": left out: the backend lists it twice; the first one counts`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := [NumKinds]string{tool("first"), resource("x:first"), template("x:{first}"), prompt("first"), skill("x:first")}[tt.kind]
			last := [NumKinds]string{tool("last"), resource("x:last"), template("x:{last}"), prompt("last"), skill("x:last")}[tt.kind]
			c := Build([]Backend{backend("b").with(tt.kind, first, tt.item, last)}, Options{MaxSchema: 1000})
			if c.sections[tt.kind].len != 2 {
				t.Errorf("offered: %s; the two others should be", names(c, tt.kind))
			}
			if got := problems(c); strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want) {
				t.Errorf("problems: %s\nwant one with: %s", got, tt.want)
			}
		})
	}
}

// The deepest item that is offered does not make a page that clients reject for its
// depth.
func TestDeepestItem(t *testing.T) {
	item := `{"name":"x","t":"{{[[","inputSchema":{"default":` + strings.Repeat("[", 123) + strings.Repeat("]", 123) + `}}`
	c := Build([]Backend{backend("b").with(Tools, item)}, Options{})
	res, err := c.List(Tools, "")
	if err != nil || c.sections[Tools].len != 1 {
		t.Fatalf("%d tools, %v; problems: %s", c.sections[Tools].len, err, problems(c))
	}
	for depth, want := range map[int]bool{128: true, 127: false} {
		_, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":`+string(res.Bytes())+`}`), mcp.Limits{Depth: depth})
		if (err == nil) != want {
			t.Errorf("the page within %d levels: %v", depth, err)
		}
	}
}

// REQUIREMENTS H12: "Rejection means the client MUST exclude the invalid tool from
// the result of tools/list. Clients SHOULD log a warning when rejecting a tool
// definition, including the tool name and the reason for rejection. This ensures
// that a single malformed tool definition does not prevent other valid tools from
// being used." (2026-07-28, server/tools, "x-mcp-header")
//
// H12+ 2026-07-28 basic/transports/streamable-http: "This ensures that a single
// malformed tool definition does not prevent other valid tools from being used."
//
// H12- 2026-07-28 basic/transports/streamable-http: "Rejection means the client MUST
// exclude the invalid tool from the result of tools/list."
func TestH12OneBadAnnotationAmongHundred(t *testing.T) {
	items := numbered(100, tool)
	items[41] = `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}`
	c := Build([]Backend{backend("db").with(Tools, items...)}, Options{})
	if got := len(readPage(t, c, Tools, "").Tools); got != 99 {
		t.Errorf("%d tools are listed, want 99", got)
	}
	if _, ok := c.Tool("db__bad"); ok {
		t.Error("the tool that is not listed may be called")
	}
	got := c.Problems()
	if len(got) != 1 || got[0].Backend != "db" || got[0].Item != "bad" || len(got[0].Text) <= len("left out: ") {
		t.Errorf("problems: %v; want one that names backend, tool and reason", got)
	}
}

func TestToolEntry(t *testing.T) {
	item := `{"name":"sql","annotations":{"readOnlyHint":true,"idempotentHint":true,"title":"x"},` +
		`"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
	c := Build([]Backend{backend("x"), backend("db").with(Tools, item, tool("other"))}, Options{})
	e, ok := c.Tool("db__sql")
	if !ok {
		t.Fatal(problems(c))
	}
	e.item = nil
	want := &Entry{
		Kind: Tools, Backend: 1, BackendName: "db", Name: "db__sql", Own: "sql",
		ParamHeaders: []mcp.ParamHeader{{Name: "Region", Path: []string{"region"}, Type: "string"}},
		ReadOnly:     true, Idempotent: true,
	}
	if diff := cmp.Diff(e, want, cmp.AllowUnexported(Entry{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if other, _ := c.Tool("db__other"); other.ReadOnly || other.Idempotent || other.ParamHeaders != nil {
		t.Errorf("a tool without annotations has %+v", other)
	}
}

func TestAnnotationsOfOtherForms(t *testing.T) {
	for _, annotations := range []string{`null`, `[]`, `{"readOnlyHint":"true"}`, `{"readOnlyHint":1,"idempotentHint":null}`} {
		c := Build([]Backend{backend("a").with(Tools, `{"name":"x","inputSchema":{},"annotations":`+annotations+`}`)}, Options{})
		if e, ok := c.Tool("a__x"); !ok || e.ReadOnly || e.Idempotent {
			t.Errorf("annotations %s: offered %v, %+v", annotations, ok, e)
		}
	}
}

// FAULTS 64: the first items are kept, and the problems reported for the rest are
// bounded.
func TestTooManyItems(t *testing.T) {
	c := Build([]Backend{backend("many").with(Tools, numbered(DefaultMaxItems+5, tool)...)}, Options{})
	if c.sections[Tools].len != DefaultMaxItems {
		t.Errorf("%d are kept", c.sections[Tools].len)
	}
	if got, want := problems(c), "backend \"many\": tools/list: only the first 2000 items are kept (limits.toolsPerBackend) [SB_ITEM_TOO_LARGE]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	nulls := make([]string, 20_000)
	for i := range nulls {
		nulls[i] = "null"
	}
	c = Build([]Backend{backend("null").with(Tools, nulls...).with(Tools, tool("x"))}, Options{})
	if c.sections[Tools].len != 1 || len(c.Problems()) != maxProblems+1 {
		t.Errorf("%d tools, %d problems", c.sections[Tools].len, len(c.Problems()))
	}
	if got, want := c.Problems()[maxProblems].String(), `backend "null": more of its tools have problems; only the first 100 are reported`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimits(t *testing.T) {
	in := []Backend{backend("a").with(Tools, numbered(DefaultMaxItems+5, tool)...).
		with(Tools, fmt.Sprintf(`{"name":"large","inputSchema":{"description":%q}}`, strings.Repeat("x", DefaultMaxSchema)))}
	if got := Build(in, Options{MaxItems: 3}).sections[Tools].len; got != 3 {
		t.Errorf("a limit of 3 keeps %d", got)
	}
	if got := Build(in, Options{MaxItems: -1}).sections[Tools].len; got != DefaultMaxItems+5 {
		t.Errorf("no limit keeps %d; the schema is over its own", got)
	}
	const schema = `{"type":"object"}`
	for most, want := range map[int]int{len(schema) - 1: 0, len(schema): 1} {
		if got := Build([]Backend{backend("a").with(Tools, `{"name":"x","inputSchema":`+schema+`}`)}, Options{MaxSchema: most}).sections[Tools].len; got != want {
			t.Errorf("a limit of %d bytes keeps %d schemas of %d", most, got, len(schema))
		}
	}
	if got := Build(in, Options{MaxItems: -1, MaxSchema: -1}).sections[Tools].len; got != DefaultMaxItems+6 {
		t.Errorf("no limits at all keep %d", got)
	}
}

func TestListProblemIsReported(t *testing.T) {
	b := backend("loop").with(Tools, tool("x"))
	b.Lists[Tools].Problem = "tools/list: the cursors run in a circle"
	c := Build([]Backend{b}, Options{})
	if got, want := problems(c), "backend \"loop\": tools/list: the cursors run in a circle\n"; got != want || c.sections[Tools].len != 1 {
		t.Errorf("got %q, want %q; %d tools", got, want, c.sections[Tools].len)
	}
}

func TestProblemTextIsOneLine(t *testing.T) {
	name := strings.Repeat("\n\x1b[31m", 100)
	c := Build([]Backend{backend("a").with(Prompts, fmt.Sprintf(`{"name":%s}`, jsonscan.AppendString(nil, name)), fmt.Sprintf(`{"name":%s}`, jsonscan.AppendString(nil, name)))}, Options{})
	got := problems(c)
	if strings.Count(got, "\n") != 1 || strings.ContainsRune(got, 0x1b) || len(got) > 10*maxQuoted {
		t.Errorf("got %q", got)
	}
}

// The quoted part of a name is bounded.
func TestProblemQuotes(t *testing.T) {
	for n, want := range map[int]string{
		200: `backend "a": tool "` + strings.Repeat("x", 200) + `": no`,
		201: `backend "a": tool "` + strings.Repeat("x", 200) + `"...: no`,
	} {
		if got := (Problem{Backend: "a", Kind: Tools, Item: strings.Repeat("x", n), Text: "no"}).String(); got != want {
			t.Errorf("a name of %d bytes: %s", n, got)
		}
	}
}

// Where the server decides which tools may be called as tasks, each tool that says
// nothing is marked as one that may.
func TestTaskSupport(t *testing.T) {
	const (
		extension = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
		calls     = `"tasks":{"requests":{"tools":{"call":{}}}}`
		plain     = `{"name":"a__x","inputSchema":{"type":"object"}}`
		marked    = `{"name":"a__x","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`
		refusing  = `{"name":"a__x","execution":{"taskSupport":"forbidden"},"inputSchema":{"type":"object"}}`
	)
	for _, tt := range []struct{ name, capabilities, item, want string }{
		{"the extension", `{` + extension + `}`, tool("x"), marked},
		{"the extension, and a tool that says it", `{` + extension + `}`, strings.Replace(refusing, "a__", "", 1), refusing},
		{"both", `{` + extension + `,` + calls + `}`, tool("x"), plain},
		{"2025-11-25", `{` + calls + `}`, tool("x"), plain},
		{"no tasks", `{}`, tool("x"), plain},
	} {
		b := backend("a").with(Tools, tt.item).with(Prompts, prompt("x"))
		b.Capabilities = []byte(tt.capabilities)
		c := Build([]Backend{b}, Options{})
		if e, ok := c.Tool("a__x"); !ok || string(e.JSON()) != tt.want {
			t.Errorf("%s: the tool is %s, want %s", tt.name, e.JSON(), tt.want)
		}
		if e, ok := c.Prompt("a__x"); !ok || string(e.JSON()) != `{"name":"a__x"}` {
			t.Errorf("%s: the prompt is %s", tt.name, e.JSON())
		}
	}
}
