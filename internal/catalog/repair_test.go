// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestRepair(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", `{"name":"x","inputSchema":{"type":"object"},"x-own":null,"title":"null"}`, ""},
		{"no type", `{"name":"x","inputSchema":{"properties":{"a":{}}}}`, `{"name":"x","inputSchema":{"properties":{"a":{}},"type":"object"}}`},
		{"nothing in the schema", `{"name":"x","inputSchema":{ }}`, `{"name":"x","inputSchema":{ "type":"object"}}`},
		{"a property called type", `{"name":"x","inputSchema":{"properties":{"type":{}}}}`, `{"name":"x","inputSchema":{"properties":{"type":{}},"type":"object"}}`},
		{"another type", `{"name":"x","inputSchema":{"type":"array"}}`, ""},
		{"a schema that is none", `{"name":"x","inputSchema":[]}`, ""},
		{"nulls", `{"title":null,"name":"x","description":null,"outputSchema":null, "annotations":null,"icons":null,"_meta":null,"execution":null,"inputSchema":{"type":"object","title":null}}`,
			`{"name":"x","inputSchema":{"type":"object","title":null}}`},
		{"nulls of a resource", `{"uri":"x:y","name":"n","mimeType":null,"size":null}`, `{"uri":"x:y","name":"n"}`},
		{"a name that is null", `{"name":null}`, ""},
	} {
		obj, err := mcp.ParseObject([]byte(tt.in))
		if err != nil {
			t.Fatal(err)
		}
		got := repair(obj)
		if tt.want == "" {
			if &got.Bytes()[0] != &obj.Bytes()[0] {
				t.Errorf("%s: %s is copied: %s", tt.name, tt.in, got.Bytes())
			}
			continue
		}
		if string(got.Bytes()) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got.Bytes(), tt.want)
		}
	}
}

// The deepest readable item is repaired too: added members are not nested more deeply
// than existing ones.
func TestRepairAtTheDepthLimit(t *testing.T) {
	deepest := 0
	for depth := 1; ; depth++ {
		raw := `{"name":"x","title":null,"inputSchema":{"default":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`
		obj, err := mcp.ParseObject([]byte(raw))
		if err != nil {
			break
		}
		if got := repair(obj); !strings.Contains(string(got.Bytes()), `"type":"object"`) {
			t.Errorf("depth %d: %s", depth, got.Bytes())
		}
		deepest = depth
	}
	if deepest < 1000 {
		t.Errorf("a schema is read to a depth of %d only", deepest)
	}
}

// A client that rejects a whole list for one item accepts this one.
func TestBuildRepairs(t *testing.T) {
	b := backend("a").with(Tools, `{"name":"x","description":null,"inputSchema":{}}`).with(Prompts, `{"name":"p","arguments":null}`)
	c := Build([]Backend{b}, Options{})
	for k, want := range map[Kind]string{
		Tools:   `"tools":[{"name":"a__x","inputSchema":{"type":"object"}}]}`,
		Prompts: `"prompts":[{"name":"a__p"}]}`,
	} {
		res, err := c.List(k, "")
		if err != nil || !strings.HasSuffix(string(res.Bytes()), want) {
			t.Errorf("%s: %s, %v; want %s", k, res.Bytes(), err, want)
		}
	}
}

// Icons with unsafe addresses reach no client, however they are spelled; all others are
// unmodified.
//
// X10+ 2026-07-28 basic/index: "Ensure that the icon URI is either a HTTPS or `data:` URI."
//
// X10- 2026-07-28 basic/index: "Clients **MUST** reject icon URIs that use unsafe schemes
// and redirects, such as `javascript:`, `file:`, `ftp:`, `ws:`, or local app URI schemes."
func TestUnsafeIconsAreLeftOut(t *testing.T) {
	for icons, want := range map[string]string{
		`[{"src":"https://x.example/1.png", "sizes":["any"]} ,{"src":"data:image/png;base64,AA=="}]`: `[{"src":"https://x.example/1.png", "sizes":["any"]} ,{"src":"data:image/png;base64,AA=="}]`,
		`[{"src":"http://x.example/1.png"},{"src":"HTTPS://x.example"},{"x":1},2]`:                   `[{"src":"http://x.example/1.png"},{"src":"HTTPS://x.example"},{"x":1},2]`,
		`[{"src":"javascript:alert(1)"},{"src":"https://x.example"}]`:                                `[{"src":"https://x.example"}]`,
		`[{"src":"\u006aavascript:alert(1)"}]`:                                                       `[]`,
		`[{"src":"JavaScript:alert(1)"}]`:                                                            `[]`,
		`[{"src":" \tjavascript:alert(1)"}]`:                                                         `[]`,
		`[{"src":"file:///etc/passwd"}]`:                                                             `[]`,
		`[{"src":"ftp://x"},{"src":"ws://x"}]`:                                                       `[]`,
		`[{"src":"vscode://x"},{"src":"/1.png"}]`:                                                    `[]`,
		`[{"src":"https://x.example","src":"javascript:alert(1)"}]`:                                  `[]`,
		`[{"src":"javascript:alert(1)","src":1}]`:                                                    `[]`,
	} {
		c := Build([]Backend{backend("a").with(Tools, `{"name":"x","inputSchema":{"type":"object"},"icons":`+icons+`}`)}, Options{})
		res, err := c.List(Tools, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.Bytes()); !strings.Contains(got, `"icons":`+want+`}`) {
			t.Errorf("%s is listed in %s, want %s", icons, got, want)
		}
	}
}
