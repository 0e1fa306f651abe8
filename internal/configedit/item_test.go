// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"slices"
	"strings"
	"testing"
)

// SetItem keeps all but the item: comments, other items and the quotes.
func TestSetItem(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"in brackets": {"c.yaml",
			"mcpServers:\n  a: {command: npx, args: [-y, x, \"z, y\"]} # one\n",
			"mcpServers:\n  a: {command: npx, args: [-y, x@1.2.3, \"z, y\"]} # one\n"},
		"in quotes": {"c.yaml",
			"mcpServers:\n  a:\n    args: ['-y', 'x', \"z\"]\n",
			"mcpServers:\n  a:\n    args: ['-y', 'x@1.2.3', \"z\"]\n"},
		"lines": {"c.yaml",
			"mcpServers:\n  a:\n    args:\n      - -y # yes\n      # the package\n      - x   # this\n\n      - z\n    command: npx\n",
			"mcpServers:\n  a:\n    args:\n      - -y # yes\n      # the package\n      - x@1.2.3   # this\n\n      - z\n    command: npx\n"},
		"blanks before an empty line": {"c.yaml",
			"mcpServers:\n  a:\n    args:\n    - -y\n    - x  \n\n    command: npx\n",
			"mcpServers:\n  a:\n    args:\n    - -y\n    - x@1.2.3  \n\n    command: npx\n"},
		"the last line": {"c.yaml",
			"mcpServers:\n  a:\n    args:\n    - -y\n    - x",
			"mcpServers:\n  a:\n    args:\n    - -y\n    - x@1.2.3"},
		"a block scalar": {"c.yaml",
			"mcpServers:\n  a:\n    args:\n    - -y\n    - >-\n      x\n    - z\n",
			"mcpServers:\n  a:\n    args:\n    - -y\n    - x@1.2.3\n    - z\n"},
		"JSON": {"c.json",
			"{\n  // mine\n  \"mcpServers\": {\"a\": {\"args\": [\"-y\",\n    \"x\" /* this */, \"z\",]}}\n}\n",
			"{\n  // mine\n  \"mcpServers\": {\"a\": {\"args\": [\"-y\",\n    \"x@1.2.3\" /* this */, \"z\",]}}\n}\n"},
		"line ends of Windows": {"c.yaml",
			"mcpServers:\r\n  a:\r\n    args:\r\n    - -y\r\n    - x\r\n",
			"mcpServers:\r\n  a:\r\n    args:\r\n    - -y\r\n    - x@1.2.3\r\n"},
	} {
		got, err := File{Name: tt.file, Text: []byte(tt.text)}.SetItem("a", "args", 1, "x@1.2.3")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, tt.want)
		}
	}
	// A string that needs quotes gets them.
	got, err := File{Name: "c.yaml", Text: []byte("mcpServers: {a: {args: [-y, x]}}\n")}.SetItem("a", "args", 1, "@x/y@1")
	if want := "mcpServers: {a: {args: [-y, \"@x/y@1\"]}}\n"; err != nil || string(got) != want {
		t.Errorf("%v, got %q", err, got)
	}
}

func TestSetItemIsRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"mcpServers: {b: {args: [-y, x]}}\n", `there is no server "a"`},
		{"mcpServers: {a: {args: [-y]}}\n", `"args" of the server "a" has no item 1`},
		{"mcpServers: {a: {args: x}}\n", `"args" of the server "a" has no item 1`},
		{"mcpServers: {a: {command: x}}\n", `"args" of the server "a" has no item 1`},
		{"mcpServers: {a: {args: [-y, 1]}}\n", "c.yaml:1:29: this item is not a string"},
	} {
		_, err := File{Name: "c.yaml", Text: []byte(tt.text)}.SetItem("a", "args", 1, "y")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestReadValues(t *testing.T) {
	f := File{Name: "c.yaml", Text: []byte("mcpServers:\n  b: {command: \"${X}\", args: [-y, x]}\n  a: {url: u, command: 1}\n")}
	if got := f.Servers(); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("servers %q", got)
	}
	if got := f.Value("b", "command"); got != "${X}" {
		t.Errorf("command %q", got)
	}
	if got := f.Values("b", "args"); !slices.Equal(got, []string{"-y", "x"}) {
		t.Errorf("args %q", got)
	}
	if f.Value("a", "command") != "" || f.Values("a", "args") != nil || f.Value("c", "command") != "" || f.Values("c", "args") != nil {
		t.Error("there are others")
	}
	if f.Has("a") != nil || f.Has("c") == nil {
		t.Error("Has is wrong")
	}
	broken := File{Name: "c.yaml", Text: []byte("a: [")}
	if broken.Servers() != nil || broken.Has("a") == nil {
		t.Error("a broken file has servers")
	}
}
