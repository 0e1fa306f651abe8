// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func foreign(name, text string) File { return File{Name: name, Text: []byte(text), Foreign: true} }

func TestPlaces(t *testing.T) {
	t.Parallel()
	url := Entry{{"url", "http://127.0.0.1:7777/mcp"}}
	program := Entry{{"name", "gw"}, {"command", "/bin/gw"}, {"args", []string{"attach", "--config"}}}
	insert := func(path ...string) func(File) ([]byte, error) {
		return func(f File) ([]byte, error) { return f.InsertAt(path, url) }
	}
	remove := func(path ...string) func(File) ([]byte, error) {
		return func(f File) ([]byte, error) { return f.DeleteAt(path) }
	}
	set := func(value bool, key string, path ...string) func(File) ([]byte, error) {
		return func(f File) ([]byte, error) { return f.SetAt(path, key, value) }
	}
	appended := func(f File) ([]byte, error) { return f.AppendTo([]string{"servers"}, program) }
	deleted := func(index int) func(File) ([]byte, error) {
		return func(f File) ([]byte, error) { return f.DeleteFrom([]string{"servers"}, index) }
	}
	for _, tt := range []struct {
		name, file, text string
		change           func(File) ([]byte, error)
		want             string // or the error, after a !
	}{
		{"a new key", "a.json", "{\n\t\"theme\": \"dark\"\n}\n", insert("mcp", "gw"), "{\n\t\"theme\": \"dark\",\n\t\"mcp\": {\n\t\t\"gw\": {\n\t\t\t\"url\": \"http://127.0.0.1:7777/mcp\"\n\t\t}\n\t}\n}\n"},
		{"an empty file", "a.json", "", insert("mcp", "gw"), "{\n  \"mcp\": {\n    \"gw\": {\n      \"url\": \"http://127.0.0.1:7777/mcp\"\n    }\n  }\n}\n"},
		{"it is there", "a.json", "{\"mcp\": {\"gw\": 1}}", insert("mcp", "gw"), "!a.json:1:16: there is \"gw\" already (remove it first)"},
		{"no mapping", "a.json", "[]", insert("mcp", "gw"), "!a.json:1:1: the file is a list, and no mapping (is it the right file?)"},
		{"twice", "a.json", "{\"mcp\": {}, \"mcp\": {}}", insert("mcp", "gw"), "!a.json:1:13: duplicate key \"mcp\", first on line 1 (remove one of them)"},
		{"broken", "a.json", "{\n  \"mcp\": {", insert("mcp", "gw"), "!a.json:2:10: not JSON: unexpected end of JSON input"},
		{"set", "a.jsonc", "{\"mcp\": {\"a\": {\"command\": \"x\"}}} // end", set(true, "disabled", "mcp", "a"), "{\"mcp\": {\"a\": {\"command\": \"x\", \"disabled\": true}}} // end"},
		{"set again", "a.jsonc", "{\"mcp\": {\"a\": {\"disabled\": false /* x */}}}", set(true, "disabled", "mcp", "a"), "{\"mcp\": {\"a\": {\"disabled\": true /* x */}}}"},
		{"remove", "a.jsonc", "{\"mcp\": {\n  \"a\": {}, // one\n  \"b\": {}\n}}", remove("mcp", "a"), "{\"mcp\": {\n  \"b\": {}\n}}"},
		{"nothing to remove", "a.jsonc", "{\"mcp\": {}}", remove("mcp", "a"), "!a.jsonc: there is no \"a\""},

		{"a list", "a.yaml", "name: x\nservers:\n    - name: a\n      command: x # it\n# end\n", appended, "name: x\nservers:\n    - name: a\n      command: x # it\n    - name: gw\n      command: /bin/gw\n      args:\n      - attach\n      - --config\n# end\n"},
		{"a list without indentation", "a.yaml", "servers:\n- name: a\n  args:\n  - x\n\n- name: b\n  args:\n  - y", appended, "servers:\n- name: a\n  args:\n  - x\n\n- name: b\n  args:\n  - y\n\n- name: gw\n  command: /bin/gw\n  args:\n  - attach\n  - --config"},
		{"an empty list", "a.yaml", "models:\n- name: m\nservers: [] # none\nx: 1\n", appended, "models:\n- name: m\nservers:\n- name: gw\n  command: /bin/gw\n  args:\n  - attach\n  - --config # none\nx: 1\n"},
		{"no list", "a.yaml", "models:\n  - name: m\n", appended, "models:\n  - name: m\nservers:\n  - name: gw\n    command: /bin/gw\n    args:\n    - attach\n    - --config\n"},
		{"a list in brackets", "a.yaml", "servers: [{name: a}]\n", appended, "!a.yaml:1:1: this part of the file cannot be edited by a command (write the list with a line for each item)"},
		{"a mapping", "a.yaml", "servers: {a: 1}\n", appended, "!a.yaml:1:10: \"servers\" is not a list, but a mapping"},
		{"delete the last", "a.yaml", "servers:\n  - name: a\n\n  - name: b\n    args: [x]\nx: 1\n", deleted(1), "servers:\n  - name: a\nx: 1\n"},
		{"delete the first", "a.yaml", "servers:\n  - name: a\n  # of b\n  - name: b\n", deleted(0), "servers:\n  # of b\n  - name: b\n"},
		{"delete the only", "a.yaml", "servers:\n  - name: a\n    env:\n      X: y\n", deleted(0), "servers: []\n"},

		{"a table", "a.toml", "# mine\nmodel = \"x\"\n\n[[hooks]]\nrun = \"y\" # it\n", insert("mcp_servers", "gw"), "# mine\nmodel = \"x\"\n\n[[hooks]]\nrun = \"y\" # it\n\n[mcp_servers.gw]\nurl = \"http://127.0.0.1:7777/mcp\"\n"},
		{"a table at the end of a line", "a.toml", "x = 1", insert("m", "g w"), "x = 1\n\n[m.\"g w\"]\nurl = \"http://127.0.0.1:7777/mcp\"\n"},
		{"a table with CRLF", "a.toml", "x = 1\r\n", insert("m", "gw"), "x = 1\r\n\r\n[m.gw]\r\nurl = \"http://127.0.0.1:7777/mcp\"\r\n"},
		{"a table in a new file", "a.toml", "", insert("m", "gw"), "[m.gw]\nurl = \"http://127.0.0.1:7777/mcp\"\n"},
		{"a table in braces", "a.toml", "m = {a = {url = \"x\"}}\n", insert("m", "gw"), "!a.toml:1:1: \"m\" is not written as a table (write it as [m], with a line for each key)"},
		{"a table that is there", "a.toml", "[m.gw]\nurl = \"x\"\n", insert("m", "gw"), "!a.toml:1:4: there is \"gw\" already (remove it first)"},
		{"no TOML", "a.toml", "x = 1\ny = [\n", insert("m", "gw"), "!a.toml:2:6: not TOML: array is incomplete"},
		{"set in a table", "a.toml", "[m.a]\ncommand = \"x\" # it\n[m.a.env]\nX = \"y\"\n", set(false, "enabled", "m", "a"), "[m.a]\ncommand = \"x\" # it\nenabled = false\n[m.a.env]\nX = \"y\"\n"},
		{"set in a table again", "a.toml", "[m.a]\nenabled = true # on\n", set(false, "enabled", "m", "a"), "[m.a]\nenabled = false # on\n"},
		{"set in no table", "a.toml", "m.a.command = \"x\"\n", set(false, "enabled", "m", "a"), "!a.toml:1:1: the table of \"a\" is not written as one (edit it by hand)"},
		{"remove a table", "a.toml", "x = 1\n\n[m.a]\ncommand = \"x\"\nargs = [\n  \"y\", # why\n]\n\n[m.a.env]\nX = \"y\"\n\n# of b\n[m.b]\n", remove("m", "a"), "x = 1\n\n# of b\n[m.b]\n"},
		{"remove an assignment", "a.toml", "[m]\na = {url = \"x\"} # it\nb = {}\n", remove("m", "a"), "[m]\nb = {}\n"},
		{"remove the only table", "a.toml", "x = 1\n\n[m.a]\nurl = \"x\"\n", remove("m", "a"), "x = 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.change(foreign(tt.file, tt.text))
			text := string(got)
			if err != nil {
				text = "!" + err.Error()
			}
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Only a foreign file may be large, or TOML.
func TestForeign(t *testing.T) {
	t.Parallel()
	large := `{"history": "` + strings.Repeat("x", MaxSize) + `"}`
	if _, err := (File{Name: "a.json", Text: []byte(large)}).Tree(); err == nil {
		t.Error("a large configuration was read")
	}
	f := foreign("a.json", large)
	text, err := f.InsertAt([]string{"m", "gw"}, Entry{{"url", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	f.Text = text
	if text, err = f.DeleteAt([]string{"m"}); err != nil || string(text) != large {
		t.Errorf("a large file is not the same after a change and back: %v", err)
	}
	if _, err := (File{Name: "a.toml", Text: []byte("x = 1\n")}).Tree(); err == nil {
		t.Error("a configuration in TOML was read")
	}
	if n, err := foreign("a.toml", "x = 1\n").Tree(); err != nil || len(n.Members) != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestHasComments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, text string
		want       bool
	}{
		{"a.json", `{"mcpServers": {"a": {"args": ["x", "/* y */" , "// z"] /* after */}}}`, false},
		{"a.json", `{"servers": {"a": {"args": [/* 1 */ "x"]}}}`, true},
		{"a.json", `{"servers": {"a": {"args": ["x", // 2` + "\n" + `"z"]}}}`, true},
		{"a.yaml", "mcpServers:\n  a:\n    args: [x, 'it''s', \"z # y\"] # after\n", false},
		{"a.yaml", "mcpServers:\n  a:\n    args:\n    - x # 1\n    - z\n", true},
		{"a.yaml", "mcpServers:\n  a:\n    args: # 1\n    - x\n", true},
		{"a.yaml", "mcpServers:\n  a:\n    args:\n      # 1\n\n      - x\n", true},
		{"a.yaml", "mcpServers:\n  a:\n    args:\n    - -x\n    # after\n    cwd: y\n", false},
		{"a.yaml", "mcpServers:\n  a:\n    args: # 1\n      [x]\n", false},
		{"a.yaml", "mcpServers: {a: {}}\n", false},
		{"a.yaml", "mcpServers: {other: {}}\n", false},
	} {
		if got := (File{Name: tt.file, Text: []byte(tt.text)}).HasComments("a", "args"); got != tt.want {
			t.Errorf("%s has comments: %v", tt.text, got)
		}
	}
}
