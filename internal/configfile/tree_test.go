// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// same returns the option to compare trees.
func same() cmp.Option { return cmp.AllowUnexported(Node{}, Member{}, Position{}) }

// TestTree checks the tree of each kind of value, with positions, in both syntaxes.
func TestTree(t *testing.T) {
	text := func(line, column int, s string) Node {
		return Node{At: Position{line, column}, Kind: Text, Text: s}
	}
	tests := []struct {
		name, Text string
		json       bool
		want       Node
	}{
		{name: "scalars", Text: "a: x\nb: 7\nc: true\nd: 1.5\ne:\n", want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"a", Position{1, 1}, text(1, 4, "x")},
				{"b", Position{2, 1}, Node{At: Position{2, 4}, Kind: Integer, Text: "7"}},
				{"c", Position{3, 1}, Node{At: Position{3, 4}, Kind: Bool, Text: "true"}},
				{"d", Position{4, 1}, Node{At: Position{4, 4}, Kind: Float, Text: "1.5"}},
				{"e", Position{5, 1}, Node{At: Position{5, 3}, Kind: Null}},
			}}},
		{name: "the same in JSON", json: true, Text: "{\"a\":\"x\",\n\"b\":7,\n\"c\" : true,\n\"d\": 1.5, \"e\":null}", want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"a", Position{1, 2}, text(1, 6, "x")},
				{"b", Position{2, 1}, Node{At: Position{2, 5}, Kind: Integer, Text: "7"}},
				{"c", Position{3, 1}, Node{At: Position{3, 7}, Kind: Bool, Text: "true"}},
				{"d", Position{4, 1}, Node{At: Position{4, 6}, Kind: Float, Text: "1.5"}},
				{"e", Position{4, 11}, Node{At: Position{4, 15}, Kind: Null}},
			}}},
		{name: "nested", Text: "é:\n  - [x, 'y']\n  - ü: |\n      z\n", want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"é", Position{1, 1}, Node{At: Position{2, 3}, Kind: List, Items: []Node{
					{At: Position{2, 5}, Kind: List, Items: []Node{text(2, 6, "x"), text(2, 9, "y")}},
					{At: Position{3, 5}, Kind: Mapping, Members: []Member{{"ü", Position{3, 5}, text(3, 8, "z\n")}}},
				}}},
			}}},
		{name: "nested in JSON", json: true, Text: "{\"é\": [[\"x\"], {\"ü\": []}]}", want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"é", Position{1, 2}, Node{At: Position{1, 7}, Kind: List, Items: []Node{
					{At: Position{1, 8}, Kind: List, Items: []Node{text(1, 9, "x")}},
					{At: Position{1, 15}, Kind: Mapping, Members: []Member{
						{"ü", Position{1, 16}, Node{At: Position{1, 21}, Kind: List}},
					}},
				}}},
			}}},
		{name: "keys that are no strings", Text: "1: a\n0x10: b\n? true\n: c\n", want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"1", Position{1, 1}, text(1, 4, "a")},
				{"0x10", Position{2, 1}, text(2, 7, "b")},
				{"true", Position{3, 3}, text(4, 3, "c")},
			}}},
		{name: "keys that repeat", json: true, Text: `{"a":1,"a":2}`, want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"a", Position{1, 2}, Node{At: Position{1, 6}, Kind: Integer, Text: "1"}},
				{"a", Position{1, 8}, Node{At: Position{1, 12}, Kind: Integer, Text: "2"}},
			}}},
		{name: "lines of Windows", Text: "a: # x\r\n  # y\r\n  b: c\r\n", want: Node{
			At: Position{1, 1}, Kind: Mapping, Members: []Member{
				{"a", Position{1, 1}, Node{At: Position{3, 3}, Kind: Mapping, Members: []Member{{"b", Position{3, 3}, text(3, 6, "c")}}}},
			}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.Text), tt.json)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want, same()); diff != "" {
				t.Errorf("tree (-got +want):\n%s", diff)
			}
		})
	}
}

// TestJSONIsYAML checks that a text has the same meaning under both names.
func TestJSONIsYAML(t *testing.T) {
	texts := []string{
		`{"mcpServers": {"a": {"command": "x", "args": ["-y", "b c", ""], "env": {"K": "v"}, "disabled": true}}}`,
		"{\n  \"a\": [\n    1,\n    {\"b\": null}\n  ],\n  \"c\": {}\n}\n",
		`{"a": "\u00e9\n\t\"\\", "b": [[], {}]}`,
	}
	for _, text := range texts {
		asJSON, jsonErr := Parse([]byte(text), true)
		asYAML, yamlErr := Parse([]byte(text), false)
		if jsonErr != nil || yamlErr != nil {
			t.Fatalf("%s: %v, %v", text, jsonErr, yamlErr)
		}
		if diff := cmp.Diff(asYAML, asJSON, same()); diff != "" {
			t.Errorf("%s (-YAML +JSON):\n%s", text, diff)
		}
	}
}

func TestBlankComments(t *testing.T) {
	tests := []struct{ Text, want string }{
		{`{"a": 1}`, `{"a": 1}`},
		{"1 // é\n2", "1      \n2"},
		{"1 // to the end", "1              "},
		{"1 /* a\r\nb */ 2", "1     \r\n     2"},
		{"/**/1", "    1"},
		{"/*/1", "/*/1"}, // has no end
		{`"//" /* "x" */ "/*"`, `"//"           "/*"`},
		{`"\"//" // x`, `"\"//"     `},
		{"\"open // x\n// y", "\"open // x\n    "},
		{`"\`, `"\`},
		{"/", "/"},
	}
	for _, tt := range tests {
		if got := string(blankComments([]byte(tt.Text))); got != tt.want {
			t.Errorf("blankComments(%q) = %q, want %q", tt.Text, got, tt.want)
		}
	}
}

// TestDepthOfYAML checks that every kind of nesting is limited before the recursive parser is
// called.
func TestDepthOfYAML(t *testing.T) {
	deep := maxDepth + 2
	tests := map[string]string{
		"brackets":          strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"braces":            strings.Repeat("{a: ", deep) + strings.Repeat("}", deep),
		"open brackets":     strings.Repeat("[", 1<<14),
		"dashes":            strings.Repeat("- ", 1<<14) + "x",
		"question marks":    strings.Repeat("? ", 1<<14) + "x",
		"anchors":           strings.Repeat("&a ", 1<<14) + "x",
		"tags":              strings.Repeat("!a ", 1<<14) + "x",
		"brackets on lines": strings.Repeat("[\n", 1<<14),
	}
	for name, text := range tests {
		_, err := Parse([]byte(text), false)
		if err == nil || err.Message != errTooDeep.Error() {
			t.Errorf("%s: %v, want %v", name, err, errTooDeep)
		}
	}
	indented := new(strings.Builder)
	for i := range deep {
		indented.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	if _, err := Parse([]byte(indented.String()), false); err == nil || err.Message != errTooDeep.Error() {
		t.Errorf("indentation: %v, want %v", err, errTooDeep)
	}
}

// TestDepthAllowed checks the exact limit.
func TestDepthAllowed(t *testing.T) {
	for _, isJSON := range []bool{true, false} {
		for depth, want := range map[int]bool{maxDepth: true, maxDepth + 2: false} {
			text := strings.Repeat("[", depth) + strings.Repeat("]", depth)
			if _, err := Parse([]byte(text), isJSON); (err == nil) != want {
				t.Errorf("JSON %t, %d levels: %v, want read %t", isJSON, depth, err, want)
			}
		}
	}
}

// TestDepthBeyondTheDecoder checks the message for a text that is too deep for the JSON
// decoder.
func TestDepthBeyondTheDecoder(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		_, err := Parse([]byte(strings.Repeat(open, 20_000)), true)
		if err == nil || err.Message != errTooDeep.Error() {
			t.Errorf("%s: %v, want %v", open, err, errTooDeep)
		}
	}
}
