// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testEntry() Entry {
	return Entry{{"command", "npx"}, {"args", []string{"-y", "@scope/pkg"}}, {"env", Entry{{"TOKEN", "${TOKEN}"}}}}
}

func add(f File) ([]byte, error) { return f.Add("new", testEntry()) }

// TestAdd checks that an entry is written like its neighbours.
func TestAdd(t *testing.T) {
	tests := []struct{ name, file, text, want string }{
		{"a new file", "signalbox.yaml", "", `mcpServers:
  new:
    command: npx
    args: [-y, "@scope/pkg"]
    env:
      TOKEN: "${TOKEN}"
`},
		{"a new file of JSON", "signalbox.json", "", `{
  "mcpServers": {
    "new": {
      "command": "npx",
      "args": ["-y", "@scope/pkg"],
      "env": {
        "TOKEN": "${TOKEN}"
      }
    }
  }
}
`},
		{"only comments", "a.yaml", "# mine", `# mine
mcpServers:
  new:
    command: npx
    args: [-y, "@scope/pkg"]
    env:
      TOKEN: "${TOKEN}"
`},
		{"no servers", "a.yaml", "mcpServers: {}  # none\nlisten: x\n", `mcpServers:  # none
  new:
    command: npx
    args: [-y, "@scope/pkg"]
    env:
      TOKEN: "${TOKEN}"
listen: x
`},
		{"only an example", "a.yaml", "mcpServers:\n    # a:\n    #     command: x\n\nlisten: x\n", `mcpServers:
    # a:
    #     command: x
  new:
    command: npx
    args: [-y, "@scope/pkg"]
    env:
      TOKEN: "${TOKEN}"

listen: x
`},
		{"without the key", "a.yaml", "limits:\n    depth: 9\n# end\n...\n", `limits:
    depth: 9
# end
mcpServers:
    new:
        command: npx
        args: [-y, "@scope/pkg"]
        env:
            TOKEN: "${TOKEN}"
...
`},
		{"blank lines, quotes, comments and lists of the neighbours", "a.yaml", `servers:
  a:
    command: "x"
    args:
      - "a"

  # The second one.
  b:
    command: "y"
    # args: q

# Where.
listen: x
`, `servers:
  a:
    command: "x"
    args:
      - "a"

  # The second one.
  b:
    command: "y"
    # args: q

  new:
    command: "npx"
    args:
      - "-y"
      - "@scope/pkg"
    env:
      TOKEN: "${TOKEN}"

# Where.
listen: x
`},
		{"one line for each", "a.yaml", "mcpServers:\n  a: {command: 'x'} # one\n", `mcpServers:
  a: {command: 'x'} # one
  new: {command: 'npx', args: ['-y', '@scope/pkg'], env: {TOKEN: '${TOKEN}'}}
`},
		{"without a final line break", "a.yaml", "mcpServers: {a: {command: x}}", `mcpServers: {a: {command: x}, new: {command: npx, args: [-y, "@scope/pkg"], env: {TOKEN: "${TOKEN}"}}}`},
		{"lines of Windows", "a.yaml", "mcpServers:\r\n  a: {command: x}\r\n", "mcpServers:\r\n  a: {command: x}\r\n  new: {command: npx, args: [-y, \"@scope/pkg\"], env: {TOKEN: \"${TOKEN}\"}}\r\n"},
		{"tabs and lists on lines", "a.json", "{\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"args\": [\n\t\t\t\t\"a\"\n\t\t\t]\n\t\t}\n\t}\n}\n",
			"{\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"args\": [\n\t\t\t\t\"a\"\n\t\t\t]\n\t\t},\n\t\t\"new\": {\n\t\t\t\"command\": \"npx\",\n\t\t\t\"args\": [\n\t\t\t\t\"-y\",\n\t\t\t\t\"@scope/pkg\"\n\t\t\t],\n\t\t\t\"env\": {\n\t\t\t\t\"TOKEN\": \"${TOKEN}\"\n\t\t\t}\n\t\t}\n\t}\n}\n"},
		{"no spaces", "a.json", `{"mcpServers":{"a":{"command":"x"}}}`, `{"mcpServers":{"a":{"command":"x"},"new":{"command":"npx","args":["-y","@scope/pkg"],"env":{"TOKEN":"${TOKEN}"}}}}`},
		{"comments and a comma at the end", "a.jsonc", `{
  "mcpServers": {
    "a": {"command": "x"}, // one
    // "b": {"command": "y"}
  }
}
`, `{
  "mcpServers": {
    "a": {"command": "x"}, // one
    // "b": {"command": "y"}
    "new": {"command": "npx", "args": ["-y", "@scope/pkg"], "env": {"TOKEN": "${TOKEN}"}},
  }
}
`},
		{"after a list of mappings", "a.yaml", "auth:\n  tokens:\n    - name: a\n      token: b\n    -  - c: d\nmcpServers:\n  x:\n    url: http://x\n",
			"auth:\n  tokens:\n    - name: a\n      token: b\n    -  - c: d\nmcpServers:\n  x:\n    url: http://x\n  new:\n    command: npx\n    args: [-y, \"@scope/pkg\"]\n    env:\n      TOKEN: \"${TOKEN}\"\n"},
		{"a comment before the brace", "a.jsonc", "{\"mcpServers\": {\"a\": {\"command\": \"x\"} // one\n}}\n",
			"{\"mcpServers\": {\"a\": {\"command\": \"x\"}, // one\n  \"new\": {\"command\": \"npx\", \"args\": [\"-y\", \"@scope/pkg\"], \"env\": {\"TOKEN\": \"${TOKEN}\"}}\n}}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := add(File{Name: tt.file, Text: []byte(tt.text)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), tt.want); diff != "" {
				t.Errorf("text (-got +want):\n%s", diff)
			}
		})
	}
}

// TestChange checks the other changes.
func TestChange(t *testing.T) {
	const servers = `mcpServers:
  # The first.
  a:
    command: x # with a comment
    # and one inside

  # The second.
  b: {command: y, disabled: false}

listen: x
`
	set := func(key string, value any) func(File) ([]byte, error) {
		return func(f File) ([]byte, error) { return f.Set("a", key, value) }
	}
	profiles := `mcpServers:
  files: {command: x}
  files2: {command: y}
profiles: # views
  one: {servers: [files, 'files2'], exclude: ["files__*", "*files__x"]}
  two:
    servers:
      - files2 # the second
      # all
      - 'files' # the first
  three: {include: [files2__files]}
`
	tests := []struct {
		name, text string
		change     func(File) ([]byte, error)
		want       string
	}{
		{"remove", servers, func(f File) ([]byte, error) { return f.Remove("a") }, `mcpServers:
  # The first.

  # The second.
  b: {command: y, disabled: false}

listen: x
`},
		{"remove the last", servers, func(f File) ([]byte, error) { return f.Remove("b") }, strings.Replace(servers, "  b: {command: y, disabled: false}\n", "", 1)},
		{"remove the only one", "mcpServers: # all\n  # a\n  a:\n    command: x\nlisten: x\n", func(f File) ([]byte, error) { return f.Remove("a") }, "mcpServers: {} # all\n  # a\nlisten: x\n"},
		{"one blank line stays of two", "mcpServers:\n  a: {}\n\n  b: {}\n\n  c: {}\n", func(f File) ([]byte, error) { return f.Remove("b") }, "mcpServers:\n  a: {}\n\n  c: {}\n"},
		{"rename", servers, func(f File) ([]byte, error) { return f.Rename("b", "c") }, strings.Replace(servers, "b: {", "c: {", 1)},
		{"rename with quotes", "mcpServers: {'a': {command: x}}", func(f File) ([]byte, error) { return f.Rename("a", "null") }, "mcpServers: {'null': {command: x}}"},
		{"rename to what needs quotes", "mcpServers: {a: {command: x}}", func(f File) ([]byte, error) { return f.Rename("a", "null") }, `mcpServers: {"null": {command: x}}`},
		{
			"rename in profiles", profiles, func(f File) ([]byte, error) { return f.Rename("files", "docs") }, `mcpServers:
  docs: {command: x}
  files2: {command: y}
profiles: # views
  one: {servers: [docs, 'files2'], exclude: ["docs__*", "*files__x"]}
  two:
    servers:
      - files2 # the second
      # all
      - 'docs' # the first
  three: {include: [files2__files]}
`,
		},
		{
			"remove from profiles", profiles, func(f File) ([]byte, error) { return f.Remove("files") }, `mcpServers:
  files2: {command: y}
profiles: # views
  one: {servers: ['files2'], exclude: ["files__*", "*files__x"]}
  two:
    servers:
      - files2 # the second
      # all
  three: {include: [files2__files]}
`,
		},
		{
			"remove the last from profiles", profiles, func(f File) ([]byte, error) { return f.Remove("files2") }, `mcpServers:
  files: {command: x}
profiles: # views
  one: {servers: [files], exclude: ["files__*", "*files__x"]}
  two:
    servers:
      # all
      - 'files' # the first
  three: {include: [files2__files]}
`,
		},
		{"rename a server with a prefix", "mcpServers: {a: {prefix: a__}}\nprofiles: {p: {servers: [a], include: [a__x]}}\n", func(f File) ([]byte, error) { return f.Rename("a", "b") }, "mcpServers: {b: {prefix: a__}}\nprofiles: {p: {servers: [b], include: [a__x]}}\n"},
		{"remove from lines in brackets", "mcpServers: {a: {}, b: {}}\nprofiles:\n  p:\n    servers: [\n      a,\n      b,\n    ]\n", func(f File) ([]byte, error) { return f.Remove("b") }, "mcpServers: {a: {}}\nprofiles:\n  p:\n    servers: [\n      a,\n    ]\n"},
		{"disable", servers, func(f File) ([]byte, error) { return f.Disable("a") }, strings.Replace(servers, "inside\n", "inside\n    disabled: true\n", 1)},
		{"disable what says that it is enabled", servers, func(f File) ([]byte, error) { return f.Disable("b") }, strings.Replace(servers, "false", "true", 1)},
		{"enable what is enabled", servers, func(f File) ([]byte, error) { return f.Enable("a") }, servers},
		{"enable", "mcpServers:\n  a:\n    disabled: true # for now\n    command: x\n", func(f File) ([]byte, error) { return f.Enable("a") }, "mcpServers:\n  a:\n    command: x\n"},
		{"disable with the key of others", "mcpServers: {a: {enabled: true}}", func(f File) ([]byte, error) { return f.Disable("a") }, "mcpServers: {a: {enabled: false}}"},
		{"enable with both keys", "mcpServers: {a: {enabled: false, disabled: true}}", func(f File) ([]byte, error) { return f.Enable("a") }, "mcpServers: {a: {enabled: true}}"},
		{"disable with both keys", "mcpServers: {a: {enabled: true, disabled: false}}", func(f File) ([]byte, error) { return f.Disable("a") }, "mcpServers: {a: {enabled: false, disabled: true}}"},
		{"set a value", servers, set("command", "npx"), strings.Replace(servers, "command: x", "command: npx", 1)},
		{"set a list of lines", "mcpServers:\n  a:\n    args:\n      - x\n      # c\n      - y\n    share: true\n", set("args", []string{"z", "null"}), "mcpServers:\n  a:\n    args: [z, \"null\"]\n    share: true\n"},
		{"set what has no value", "mcpServers:\n  a:\n    command: # c\n    share: true\n", set("command", "x"), "mcpServers:\n  a:\n    command: x # c\n    share: true\n"},
		{"set a block scalar", "mcpServers:\n  a:\n    command: |\n      x\n\n    share: true\n", set("command", 7), "mcpServers:\n  a:\n    command: 7\n\n    share: true\n"},
		{"an indented first line", "mcpServers:\n  a:\n    command: |2\n        x\n      # no comment\n    # a comment\n", set("share", true), "mcpServers:\n  a:\n    command: |2\n        x\n      # no comment\n    # a comment\n    share: true\n"},
		{"blank lines that are kept", "mcpServers:\n  a:\n    command: |+\n      x\n\n\nlisten: x\n", set("share", true), "mcpServers:\n  a:\n    command: |+\n      x\n\n\n    share: true\nlisten: x\n"},
		{"set the first key", "mcpServers:\n  a: {}\n", set("disabled", true), "mcpServers:\n  a:\n    disabled: true\n"},
		{"unset the last key", "mcpServers:\n  a:\n    disabled: true\n", func(f File) ([]byte, error) { return f.Unset("a", "disabled") }, "mcpServers:\n  a: {}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.change(File{Name: "a.yaml", Text: []byte(tt.text)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), tt.want); diff != "" {
				t.Errorf("text (-got +want):\n%s", diff)
			}
		})
	}
}

// TestErrors checks that an error names the place and the cure.
func TestErrors(t *testing.T) {
	remove := func(f File) ([]byte, error) { return f.Remove("a") }
	tests := []struct {
		name, text string
		change     func(File) ([]byte, error)
		want       string
	}{
		{"added twice", "mcpServers:\n  new: {command: x}\n", add, `a.yaml:2:3: there is a server "new" already (remove it first, or choose another name)`},
		{"not there", "mcpServers: {github: {}}", func(f File) ([]byte, error) { return f.Remove("githb") }, `a.yaml: there is no server "githb" (did you mean "github"?)`},
		{"a new file", "", remove, `a.yaml: there is no server "a"`},
		{"renamed to another one", "mcpServers: {a: {}, b: {}}", func(f File) ([]byte, error) { return f.Rename("a", "b") }, `a.yaml:1:21: there is a server "b" already`},
		{"the only one of a profile", "mcpServers: {a: {}, b: {}}\nprofiles:\n  p: {servers: [a]}\n", remove, `a.yaml:3:17: the profile "p" has no other server than "a" (remove the profile, or change its servers, first)`},
		{"with a comment in the list of a profile", "mcpServers: {a: {}, b: {}}\nprofiles:\n  p: {servers: [a, # ours\n    b]}\n", remove, `a.yaml:3:18: this part of the file cannot be edited by a command (edit the file by hand, or write this part in a simpler form)`},
		{"a key that is not there", "mcpServers: {a: {}}", func(f File) ([]byte, error) { return f.Unset("a", "x") }, `a.yaml:1:17: the server "a" has no "x"`},
		{"a key that repeats", "mcpServers:\n  a: {}\n  a: {}\n", remove, `a.yaml:3:3: duplicate key "a", first on line 2 (remove one of them)`},
		{"an entry that is no mapping", "mcpServers: {a: x}", func(f File) ([]byte, error) { return f.Disable("a") }, `a.yaml:1:17: "a" is not a mapping, but a string (write {} for an empty one)`},
		{"servers in a list", "mcpServers:\n- a\n", add, `a.yaml:2:1: "mcpServers" is not a mapping, but a list (write {} for an empty one)`},
		{"a list", "- a\n", add, `a.yaml:1:1: a config is a mapping, not a list (write the servers below "mcpServers")`},
		{"no YAML", "a: [", add, `a.yaml:1:4: not YAML: sequence end token ']' not found`},
		{"an anchor", "mcpServers: &x\n  a: {}\n", add, `a.yaml:1:13: an anchor (&) is not supported in a config (write the value out)`},
		{"a merge key", "mcpServers:\n  a:\n    <<: {}\n", add, `a.yaml:3:5: a merge key (<<) is not supported in a config (write the value out)`},
		{"a tag", "mcpServers:\n  a: !x {}\n", add, `a.yaml:2:6: a tag (!) is not supported in a config (write the value out)`},
		{"two documents", "mcpServers: {}\n---\nx: 1\n", add, `a.yaml:3:2: a second document (a config is one document)`},
		{"a key with a question mark", "mcpServers:\n  ? a\n  : {command: x}\n", remove, `a.yaml:2:3: this part of the file cannot be edited by a command (edit the file by hand, or write this part in a simpler form)`},
		{"a pair in a list", "mcpServers: {a: {args: [x: y]}}", remove, `a.yaml:1:25: this part of the file cannot be edited by a command (edit the file by hand, or write this part in a simpler form)`},
		{"a block scalar at the end", "mcpServers:\n  a:\n    command: |\n      x", add, `a.yaml:4:8: this part of the file cannot be edited by a command (end the file with a line break, or edit it by hand)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.change(File{Name: "a.yaml", Text: []byte(tt.text)})
			if err == nil || got != nil || err.Error() != tt.want {
				t.Errorf("got %q, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

// TestStringsInYAML checks that strings are written so that every version of YAML reads them
// as strings.
func TestStringsInYAML(t *testing.T) {
	tests := []struct{ text, want string }{
		{"npx", "npx"}, {"-y", "-y"}, {"--a=b", "--a=b"}, {"./x", "./x"}, {"https://example.com:80/mcp?a=b&c", "https://example.com:80/mcp?a=b&c"}, {"v1.2", "v1.2"},
		{"", `""`}, {"yes", `"yes"`}, {"N", `"N"`}, {"null", `"null"`}, {"12", `"12"`}, {"1e3", `"1e3"`}, {"0x1F", `"0x1F"`}, {"1.5", `"1.5"`}, {".inf", `".inf"`}, {"12:30", `"12:30"`},
		{"2026-07-28", `"2026-07-28"`}, {"-", `"-"`}, {"---", `"---"`}, {"...", `"..."`}, {"a: b", `"a: b"`}, {"a:", `"a:"`}, {"@a", `"@a"`}, {"~", `"~"`}, {"=", `"="`}, {"a #b", `"a #b"`},
		{"é\x7f\u2028\n\t\"\\", `"é\u007f\u2028\n\t\"\\"`}, {"😀", `"😀"`},
	}
	for _, tt := range tests {
		if got := (style{}).scalar(tt.text, false); got != tt.want {
			t.Errorf("%q is written %s, want %s", tt.text, got, tt.want)
		}
	}
}
