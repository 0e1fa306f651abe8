// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// same returns the option to compare trees.
func same() cmp.Option { return cmp.AllowUnexported(node{}, member{}, position{}) }

// TestTree checks the tree of each kind of value, with positions, in both syntaxes.
func TestTree(t *testing.T) {
	text := func(line, column int, s string) node {
		return node{at: position{line, column}, kind: kindText, text: s}
	}
	tests := []struct {
		name, text string
		json       bool
		want       node
	}{
		{name: "scalars", text: "a: x\nb: 7\nc: true\nd: 1.5\ne:\n", want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"a", position{1, 1}, text(1, 4, "x")},
				{"b", position{2, 1}, node{at: position{2, 4}, kind: kindInteger, text: "7"}},
				{"c", position{3, 1}, node{at: position{3, 4}, kind: kindBool, text: "true"}},
				{"d", position{4, 1}, node{at: position{4, 4}, kind: kindFloat, text: "1.5"}},
				{"e", position{5, 1}, node{at: position{5, 3}, kind: kindNull}},
			}}},
		{name: "the same in JSON", json: true, text: "{\"a\":\"x\",\n\"b\":7,\n\"c\" : true,\n\"d\": 1.5, \"e\":null}", want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"a", position{1, 2}, text(1, 6, "x")},
				{"b", position{2, 1}, node{at: position{2, 5}, kind: kindInteger, text: "7"}},
				{"c", position{3, 1}, node{at: position{3, 7}, kind: kindBool, text: "true"}},
				{"d", position{4, 1}, node{at: position{4, 6}, kind: kindFloat, text: "1.5"}},
				{"e", position{4, 11}, node{at: position{4, 15}, kind: kindNull}},
			}}},
		{name: "nested", text: "é:\n  - [x, 'y']\n  - ü: |\n      z\n", want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"é", position{1, 1}, node{at: position{2, 3}, kind: kindList, items: []node{
					{at: position{2, 5}, kind: kindList, items: []node{text(2, 6, "x"), text(2, 9, "y")}},
					{at: position{3, 5}, kind: kindMapping, members: []member{{"ü", position{3, 5}, text(3, 8, "z\n")}}},
				}}},
			}}},
		{name: "nested in JSON", json: true, text: "{\"é\": [[\"x\"], {\"ü\": []}]}", want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"é", position{1, 2}, node{at: position{1, 7}, kind: kindList, items: []node{
					{at: position{1, 8}, kind: kindList, items: []node{text(1, 9, "x")}},
					{at: position{1, 15}, kind: kindMapping, members: []member{
						{"ü", position{1, 16}, node{at: position{1, 21}, kind: kindList}},
					}},
				}}},
			}}},
		{name: "keys that are no strings", text: "1: a\n0x10: b\n? true\n: c\n", want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"1", position{1, 1}, text(1, 4, "a")},
				{"0x10", position{2, 1}, text(2, 7, "b")},
				{"true", position{3, 3}, text(4, 3, "c")},
			}}},
		{name: "keys that repeat", json: true, text: `{"a":1,"a":2}`, want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"a", position{1, 2}, node{at: position{1, 6}, kind: kindInteger, text: "1"}},
				{"a", position{1, 8}, node{at: position{1, 12}, kind: kindInteger, text: "2"}},
			}}},
		{name: "lines of Windows", text: "a:\r\n  b: c\r\n", want: node{
			at: position{1, 1}, kind: kindMapping, members: []member{
				{"a", position{1, 1}, node{at: position{2, 3}, kind: kindMapping, members: []member{{"b", position{2, 3}, text(2, 6, "c")}}}},
			}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseTree([]byte(tt.text), tt.json)
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
		asJSON, jsonErr := parseTree([]byte(text), true)
		asYAML, yamlErr := parseTree([]byte(text), false)
		if jsonErr != nil || yamlErr != nil {
			t.Fatalf("%s: %v, %v", text, jsonErr, yamlErr)
		}
		if diff := cmp.Diff(asYAML, asJSON, same()); diff != "" {
			t.Errorf("%s (-YAML +JSON):\n%s", text, diff)
		}
	}
}

func TestBlankComments(t *testing.T) {
	tests := []struct{ text, want string }{
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
		if got := string(blankComments([]byte(tt.text))); got != tt.want {
			t.Errorf("blankComments(%q) = %q, want %q", tt.text, got, tt.want)
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
		_, err := parseTree([]byte(text), false)
		if err == nil || err.message != errTooDeep.Error() {
			t.Errorf("%s: %v, want %v", name, err, errTooDeep)
		}
	}
	indented := new(strings.Builder)
	for i := range deep {
		indented.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	if _, err := parseTree([]byte(indented.String()), false); err == nil || err.message != errTooDeep.Error() {
		t.Errorf("indentation: %v, want %v", err, errTooDeep)
	}
}

// TestDepthAllowed checks the exact limit.
func TestDepthAllowed(t *testing.T) {
	for _, isJSON := range []bool{true, false} {
		for depth, want := range map[int]bool{maxDepth: true, maxDepth + 2: false} {
			text := strings.Repeat("[", depth) + strings.Repeat("]", depth)
			if _, err := parseTree([]byte(text), isJSON); (err == nil) != want {
				t.Errorf("JSON %t, %d levels: %v, want read %t", isJSON, depth, err, want)
			}
		}
	}
}

// TestDepthBeyondTheDecoder checks the message for a text that is too deep for the JSON
// decoder.
func TestDepthBeyondTheDecoder(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		_, err := parseTree([]byte(strings.Repeat(open, 20_000)), true)
		if err == nil || err.message != errTooDeep.Error() {
			t.Errorf("%s: %v, want %v", open, err, errTooDeep)
		}
	}
}
