// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func revisions() []mcp.Version {
	return append(mcp.LegacyVersions(), mcp.ModernVersions()...)
}

func newResult(t *testing.T, raw string) *mcp.Result {
	t.Helper()
	res, err := mcp.NewResult([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// upTo is the result for revisions up to and including one; later ones get the
// original.
type upTo struct {
	version mcp.Version
	want    string
}

// checkRevisions converts a result for each revision. The steps are in the order of the
// revisions; later revisions get the result itself.
func checkRevisions(t *testing.T, method, in string, steps ...upTo) {
	t.Helper()
	res := newResult(t, in)
	for _, v := range revisions() {
		want, same := in, true
		for _, s := range steps {
			if v <= s.version {
				want, same = s.want, false
				break
			}
		}
		got := Result(v, method, res)
		if string(got.Bytes()) != want {
			t.Errorf("%s for %s:\n got %s\nwant %s", method, v, got.Bytes(), want)
		}
		if same && got != res {
			t.Errorf("%s for %s: a copy was made of what stays as it is", method, v)
		}
		if !json.Valid(got.Bytes()) {
			t.Errorf("%s for %s: no JSON: %s", method, v, got.Bytes())
		}
	}
}

func TestToolResult(t *testing.T) {
	const audio = `{"type":"audio","data":"AA==","mimeType":"audio/wav","annotations":{"priority":1.0}}`
	const link = `{"type":"resource_link","uri":"file:///a","name":"a","title":"A","description":"the first","mimeType":"text/plain","_meta":{"k":1.0}}`
	const linkText = `{"type":"text","text":"A (a: file:///a)\nthe first","_meta":{"k":1.0}}`
	const audioResource = `{"type":"resource","resource":{"uri":"cid:audio","blob":"AA==","mimeType":"audio/wav"},"annotations":{"priority":1.0}}`
	for _, tt := range []struct {
		name  string
		in    string
		steps []upTo
	}{
		{"text", `{"content":[{"type":"text","text":"x","x-own":1.0}],"x-own":{"b":[],"a":2}}`, nil},
		{"nothing", `{}`, nil},
		{"an empty list", `{"content":[]}`, nil},
		{"no list", `{"content":null,"structuredContent":{}}`, nil},
		{"an object with a list", `{"content":{"a":[]},"structuredContent":[1]}`, []upTo{
			{mcp.V20251125, `{"content":{"a":[]},"structuredContent":{"result":[1]}}`},
		}},
		{"images and resources", `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"resource","resource":{"uri":"x:y","text":""}}]}`, nil},
		{"a type that nobody knows", `{"content":[{"type":"smell","of":"audio"}]}`, nil},
		{"audio", `{"content":[{"type":"text","text":"hear"}, ` + audio + ` ]}`, []upTo{
			{mcp.V20241105, `{"content":[{"type":"text","text":"hear"},` + audioResource + `]}`},
		}},
		{"a hidden type", `{"content":[{"type":"\u0061udio","data":""}]}`, []upTo{
			{mcp.V20241105, `{"content":[{"type":"resource","resource":{"uri":"cid:audio","blob":""}}]}`},
		}},
		{"a word of the same name", `{"content":[{"type":"text","text":"\"audio\" and \"resource_link\""}]}`, nil},
		{"a link", `{"content":[` + link + `],"isError":false}`, []upTo{
			{mcp.V20250326, `{"content":[` + linkText + `],"isError":false}`},
		}},
		{"both", `{"content":[` + link + `,` + audio + `]}`, []upTo{
			{mcp.V20241105, `{"content":[` + linkText + `,` + audioResource + `]}`},
			{mcp.V20250326, `{"content":[` + linkText + `,` + audio + `]}`},
		}},
		{"a bare link", `{"content":[{"type":"resource_link","uri":"x:y"}]}`, []upTo{
			{mcp.V20250326, `{"content":[{"type":"text","text":"x:y"}]}`},
		}},
		{"structured content with text", `{"content":[{"type":"text","text":"1 user"}],"structuredContent":{"n":1.0}}`, nil},
		{"structured content alone", `{"content":[ ],"structuredContent":{"n":1.0,"s":"\""}}`, []upTo{
			{mcp.V20250326, `{"content":[ {"type":"text","text":"{\"n\":1.0,\"s\":\"\\\"\"}"}],"structuredContent":{"n":1.0,"s":"\""}}`},
		}},
		{"structured content beside an image", `{"content":[{"type":"image"}],"structuredContent":{}}`, []upTo{
			{mcp.V20250326, `{"content":[{"type":"image"},{"type":"text","text":"{}"}],"structuredContent":{}}`},
		}},
		{"structured content beside a link", `{"content":[{"type":"resource_link","uri":"x:y"}],"structuredContent":{}}`, []upTo{
			{mcp.V20250326, `{"content":[{"type":"text","text":"x:y"},{"type":"text","text":"{}"}],"structuredContent":{}}`},
		}},
		{"structured content and no content", `{"structuredContent":{"n":1}}`, []upTo{
			{mcp.V20260728, `{"structuredContent":{"n":1},"content":[{"type":"text","text":"{\"n\":1}"}]}`},
		}},
		{"a list", `{"content":[],"structuredContent":[1, 2]}`, []upTo{
			{mcp.V20251125, `{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":{"result":[1, 2]}}`},
		}},
		{"a list with text", `{"content":[{"type":"text","text":"2"}],"structuredContent":[1,2]}`, []upTo{
			{mcp.V20251125, `{"content":[{"type":"text","text":"2"}],"structuredContent":{"result":[1,2]}}`},
		}},
		{"null", `{"content":[],"structuredContent":null}`, []upTo{
			{mcp.V20251125, `{"content":[{"type":"text","text":"null"}],"structuredContent":{"result":null}}`},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkRevisions(t, "tools/call", tt.in, tt.steps...)
		})
	}
}

func TestOtherResults(t *testing.T) {
	const like = `{"content":[],"structuredContent":[1],"messages":[{"content":{"type":"audio","data":""}}]}`
	for _, method := range []string{"resources/read", "completion/complete", "x/y", "server/discover"} {
		checkRevisions(t, method, like)
	}
	checkRevisions(t, "tasks/result", `{"content":[],"structuredContent":[1]}`,
		upTo{mcp.V20251125, `{"content":[{"type":"text","text":"[1]"}],"structuredContent":{"result":[1]}}`})
	if got := Result(mcp.V20241105, "tools/call", &mcp.Result{}); got.Bytes() != nil {
		t.Errorf("nothing becomes %s", got.Bytes())
	}
}

func TestPromptResult(t *testing.T) {
	checkRevisions(t, "prompts/get",
		`{"description":"d","messages":[{"role":"user","content":{"type":"audio","data":"AA=="}},{"role":"user","content":{"type":"resource_link","uri":"x:y","name":"n"}}]}`,
		upTo{mcp.V20241105, `{"description":"d","messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"cid:audio","blob":"AA=="}}},{"role":"user","content":{"type":"text","text":"n: x:y"}}]}`},
		upTo{mcp.V20250326, `{"description":"d","messages":[{"role":"user","content":{"type":"audio","data":"AA=="}},{"role":"user","content":{"type":"text","text":"n: x:y"}}]}`})
	checkRevisions(t, "prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"\"audio\""}}]}`)
	checkRevisions(t, "prompts/get", `{"messages":"audio"}`)
}

func TestToolList(t *testing.T) {
	tool := func(members string) string { return `{"tools":[{"name":"x",` + members + `},{"name":"y"}]}` }
	for _, tt := range []struct {
		name, in, want string // want: for the legacy era, "" if unmodified
	}{
		{"plain", `"inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, ""},
		{"of objects", `"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":true}}`, ""},
		{"schemas of one word", `"inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":{}}},"outputSchema":{"type":"object","properties":{"a":true}}`,
			`"inputSchema":{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{}}},"outputSchema":{"type":"object","properties":{"a":{}}}`},
		{"of lists", `"inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"type":"string"}},"x-own":1.0`,
			`"inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"result":{"type":"array","items":{"type":"string"}}},"required":["result"]},"x-own":1.0`},
		{"of several types", `"outputSchema":{"type":["string","null"]}`,
			`"outputSchema":{"type":"object","properties":{"result":{"type":["string","null"]}},"required":["result"]}`},
		{"with a dialect", `"outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}`,
			`"outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"result":{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}},"required":["result"]}`},
		{"that refer to themselves", `"inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"$ref":"#/$defs/a"},"$defs":{"a":{}}}`,
			`"inputSchema":{"type":"object"}`},
		{"of another dialect", `"inputSchema":{"$schema":"https://example.com/d","properties":{"a":true}},"outputSchema":{"$schema":"https://example.com/d","type":"string"}`,
			`"inputSchema":{"$schema":"https://example.com/d","properties":{"a":true}}`},
		{"of a dialect without a name", `"a":1,"outputSchema":{"$schema":7,"type":"object"}`, `"a":1`},
		{"of objects or not", `"a":1,"outputSchema":{"type":["object","null"]},"b":2`, `"a":1,"b":2`},
		{"of who knows what", `"a":1,"outputSchema":{"anyOf":[{"type":"object"},{"type":"array"}]},"b":2`, `"a":1,"b":2`},
		{"none at all", `"a":1,"outputSchema":null,"b":2`, `"a":1,"b":2`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var steps []upTo
			if tt.want != "" {
				steps = []upTo{{mcp.V20251125, tool(tt.want)}}
			}
			checkRevisions(t, "tools/list", tool(tt.in), steps...)
		})
	}
}

// A converted value is valid under its converted schema, whatever the schema: clients
// validate one by the other.
func TestWrappedSchemasFitWrappedValues(t *testing.T) {
	for _, tt := range []struct{ schema, value string }{
		{`{"type":"array"}`, `[1]`},
		{`{"type":"string"}`, `"x"`},
		{`{"type":["number","null"]}`, `null`},
		{`{"type":"object"}`, `{"a":1}`},
		{`{"anyOf":[{"type":"object"},{"type":"string"}]}`, `"x"`},
		{`{"anyOf":[{"type":"object"},{"type":"string"}]}`, `{"result":1}`},
	} {
		list := Result(mcp.V20251125, "tools/list", newResult(t, `{"tools":[{"name":"x","outputSchema":`+tt.schema+`}]}`))
		call := Result(mcp.V20251125, "tools/call", newResult(t, `{"content":[],"structuredContent":`+tt.value+`}`))
		var tools struct {
			Tools []struct {
				OutputSchema *struct {
					Type     string
					Required []string
				}
			}
		}
		var value struct {
			StructuredContent map[string]any
		}
		if err := json.Unmarshal(list.Bytes(), &tools); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(call.Bytes(), &value); err != nil {
			t.Fatalf("%s: no object: %v", tt.value, err)
		}
		schema := tools.Tools[0].OutputSchema
		if schema == nil {
			continue
		}
		if schema.Type != "object" {
			t.Errorf("%s: a schema of %s", tt.schema, schema.Type)
		}
		for _, name := range schema.Required {
			if _, ok := value.StructuredContent[name]; !ok {
				t.Errorf("%s: %s lacks %s", tt.schema, call.Bytes(), name)
			}
		}
	}
}

func TestIcons(t *testing.T) {
	const icons = `"icons":[{"src":"x:y","sizes":["1x1"]}],`
	for _, tt := range []struct{ method, member string }{
		{"tools/list", "tools"}, {"prompts/list", "prompts"}, {"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"},
	} {
		checkRevisions(t, tt.method, `{"`+tt.member+`":[{`+icons+`"name":"x","title":"X"}],"nextCursor":"c"}`,
			upTo{mcp.V20250618, `{"` + tt.member + `":[{"name":"x","title":"X"}],"nextCursor":"c"}`})
	}
}

// A result that cannot be nested more deeply is unmodified.
func TestDeepResult(t *testing.T) {
	deep := strings.Repeat("[", 126) + strings.Repeat("]", 126)
	for _, n := range []int{0, 1} {
		in := `{"content":[],"structuredContent":` + strings.Repeat("[", n) + deep + strings.Repeat("]", n) + `}`
		res, err := mcp.NewResult([]byte(in))
		if err != nil {
			continue
		}
		if got := Result(mcp.V20251125, "tools/call", res); !json.Valid(got.Bytes()) {
			t.Errorf("no JSON: %s", got.Bytes())
		}
	}
}

func FuzzResult(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"audio"},{"type":"resource_link"}],"structuredContent":[1]}`,
		`{"tools":[{"icons":[],"outputSchema":{"type":"array"},"inputSchema":{"properties":{"a":true}}}]}`,
		`{"messages":[{"content":{"type":"\u0061udio"}}]}`, `{ "content" : [ ] }`, `{"content":"]","structuredContent":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, err := mcp.NewResult(raw)
		if err != nil || len(raw) == 0 {
			return
		}
		for _, v := range revisions() {
			for _, method := range []string{"tools/call", "tools/list", "prompts/get"} {
				once := Result(v, method, res)
				if !json.Valid(once.Bytes()) {
					t.Fatalf("%s for %s: %s becomes %s", method, v, raw, once.Bytes())
				}
				// A converted result needs no further conversion.
				if twice := Result(v, method, once); twice != once {
					t.Errorf("%s for %s: %s becomes %s, and then %s", method, v, raw, once.Bytes(), twice.Bytes())
				}
			}
		}
	})
}
