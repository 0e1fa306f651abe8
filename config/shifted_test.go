// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
)

// change is a change of a file's layout but not of its meaning: all problems stay the same,
// and move with their text.
type change struct {
	name  string
	does  func(name, text string) (string, bool) // false if the meaning would change
	lines int                                    // the number of lines that are inserted at the beginning
}

func changes() []change {
	return []change{
		{"lines of Windows", func(_, text string) (string, bool) {
			return strings.ReplaceAll(text, "\n", "\r\n"), !strings.Contains(text, "|\n") && !strings.Contains(text, `"`+"\n")
		}, 0},
		{"a byte order mark", func(_, text string) (string, bool) { return "\ufeff" + text, true }, 0},
		{"blank lines before", func(_, text string) (string, bool) { return "\n\n" + text, true }, 2},
		{"a comment before", func(name, text string) (string, bool) {
			if isJSON(name) {
				return "// größer: {\n" + text, true
			}
			return "# größer: {\n" + text, true
		}, 1},
		{"a comment behind", func(name, text string) (string, bool) {
			if isJSON(name) {
				return text + "/* } */", true
			}
			return text + "# }\n", true
		}, 0},
	}
}

func isJSON(name string) bool { return strings.HasPrefix(filepath.Ext(name), ".json") }

// TestShiftedProblems checks that problems are independent of the layout of a file.
func TestShiftedProblems(t *testing.T) {
	for _, s := range scripts(t, "problems") {
		t.Run(s.name(), func(t *testing.T) {
			s.enter(t)
			for _, c := range s.cases() {
				want := problemsIn(c.Name, string(c.Data), s.env())
				if unfinished(want) {
					continue // the mistake is the end of such a file
				}
				for _, change := range changes() {
					changed, ok := change.does(c.Name, string(c.Data))
					if !ok {
						continue
					}
					if diff := cmp.Diff(problemsIn(c.Name, changed, s.env()), moved(want, change.lines)); diff != "" {
						t.Errorf("%s, %s (-got +want):\n%s", c.Name, change.name, diff)
					}
				}
			}
		})
	}
}

// unfinished reports whether a problem is at the end of a file.
func unfinished(problems config.Problems) bool {
	for _, p := range problems {
		for _, sign := range []string{"not nothing", "end of", "not found", "could not find", "'/' after", "after top-level", "second document"} {
			if strings.Contains(p.Message, sign) {
				return true
			}
		}
	}
	return false
}

func problemsIn(name, text string, env func(string) (string, bool)) config.Problems {
	_, err := config.Parse(name, []byte(text), env)
	problems, _ := errors.AsType[config.Problems](err)
	return problems
}

// moved returns the problems some lines further down, including line numbers in messages.
func moved(problems config.Problems, lines int) config.Problems {
	var all config.Problems
	for _, p := range problems {
		p.Line += lines
		if before, line, found := strings.Cut(p.Message, "first on line "); found {
			p.Message = before + "first on line " + string(rune(line[0]+byte(lines)))
		}
		all = append(all, p)
	}
	return all
}

// TestShiftedConfigs checks the same for valid files.
func TestShiftedConfigs(t *testing.T) {
	for _, s := range scripts(t, "configs") {
		t.Run(s.name(), func(t *testing.T) {
			s.enter(t)
			for _, c := range s.cases() {
				want, err := config.Parse(c.Name, c.Data, s.env())
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				for _, change := range changes() {
					changed, ok := change.does(c.Name, string(c.Data))
					if !ok {
						continue
					}
					got, err := config.Parse(c.Name, []byte(changed), s.env())
					if err != nil {
						t.Errorf("%s, %s: %v", c.Name, change.name, err)
						continue
					}
					notes := moved(want.Notes, change.lines)
					if diff := cmp.Diff(got.Notes, notes); diff != "" {
						t.Errorf("%s, %s: notes (-got +want):\n%s", c.Name, change.name, diff)
					}
					if diff := cmp.Diff(dump(t, withoutNotes(got)), dump(t, withoutNotes(want))); diff != "" {
						t.Errorf("%s, %s (-got +want):\n%s", c.Name, change.name, diff)
					}
				}
			}
		})
	}
}

func withoutNotes(c *config.Config) *config.Config {
	copied := *c
	copied.Notes = nil
	return &copied
}

// TestJSONUnderBothNames checks that a JSON file without comments has the same problems when
// it is parsed as YAML.
func TestJSONUnderBothNames(t *testing.T) {
	compared := 0
	for _, s := range append(scripts(t, "problems"), scripts(t, "configs")...) {
		s.enter(t)
		for _, c := range s.cases() {
			asJSON := problemsIn("x.json", string(c.Data), s.env())
			asYAML := problemsIn("x.yaml", string(c.Data), s.env())
			if !isJSON(c.Name) || strings.Contains(string(c.Data), "// ") || notParsed(asJSON) {
				continue
			}
			compared++
			for i := range asYAML {
				asYAML[i].File = "x.json"
			}
			if diff := cmp.Diff(asYAML, asJSON); diff != "" {
				t.Errorf("%s (-YAML +JSON):\n%s", c.Name, diff)
			}
		}
	}
	if compared < 5 {
		t.Errorf("only %d files were compared", compared)
	}
}

func notParsed(problems config.Problems) bool {
	return len(problems) == 1 && problems[0].Path == "" && strings.HasPrefix(problems[0].Message, "not JSON")
}

// TestOrderOfServers checks that servers keep the order of the file, which decides about names
// that several offer, including names that a map or numbers would sort differently.
func TestOrderOfServers(t *testing.T) {
	want := []string{"z", "10", "9", "a", "Z", "_", "0", "1.5", "true", "null", "-", "b"}
	var asYAML, asJSON strings.Builder
	asYAML.WriteString("mcpServers:\n")
	for i, name := range want {
		asYAML.WriteString("  \"" + name + "\": {command: x}\n")
		if i > 0 {
			asJSON.WriteString(",")
		}
		asJSON.WriteString(`"` + name + `": {"command": "x"}`)
	}
	texts := map[string]string{
		"x.yaml":   asYAML.String(),
		"x.json":   `{"mcpServers": {` + asJSON.String() + `}}`,
		"old.json": `{"servers": {` + asJSON.String() + `}}`,
	}
	for name, text := range texts {
		c, err := config.Parse(name, []byte(text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range c.Effective().Servers {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
	}
}

// TestNamesThatYAMLReadsOtherwise checks that a server can have a name that YAML parses as a
// number or a boolean, and keeps its spelling.
func TestNamesThatYAMLReadsOtherwise(t *testing.T) {
	for _, name := range []string{"7", "007", "0x1F", "1_000", "1.50", "true", "True", "no", "2026-07-28", "1e3"} {
		c, err := config.Parse("x.yaml", []byte("mcpServers:\n  "+name+": {command: x}\n"), nil)
		if err != nil || c.Servers[0].Name != name {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// TestDisabledServer checks that a disabled server may lack what it needs, but that mistakes
// in its entry are found.
func TestDisabledServer(t *testing.T) {
	tests := []struct {
		name, entry string
		problem     string // if it is disabled
		enabled     string // if it is enabled
	}{
		{"a variable that is not set", `command: "${NONE}"`, "", "needs the environment variable NONE"},
		{"one in every place", `command: x, args: ["${NONE}"], env: {K: "${NONE}"}, cwd: "${NONE}"`, "", "NONE"},
		{"an address without a host", `url: "https://${NONE}/"`, "", "NONE"},
		{"a header", `url: "https://h/", headers: {H: "${NONE}"}`, "", "NONE"},
		{"neither command nor url", ``, "", "has neither"},
		{"both", `command: x, url: "https://h/"`, "", "has both"},
		{"rules that contradict each other", `command: x, include: [a], exclude: [a]`, "", "both included and excluded"},
		{"a token of an unknown issuer", `url: "https://h/", oauth: {grant: exchange, clientId: c, issuer: "https://i"}`, "", "not in \"auth.issuers\""},
		{"an ID token of no page", `url: "https://h/", oauth: {grant: idJag, clientId: c, issuer: "https://i", authorizationServer: {issuer: "https://s", clientId: c}}`, "", "are those of sign-ins on a page"},
		{"a small result", `command: x, results: {max: 1KiB}`, "", "leaves no room"},
		{"the prefix of another", `command: x, prefix: other__`, "", "the same prefix"},
		{"an unknown key", `command: x, comand: y`, `did you mean "command"?`, `did you mean "command"?`},
		{"a wrong type", `command: [x]`, "must be a string", "must be a string"},
		{"a number without a unit", `command: x, timeout: 30`, "has no unit", "has no unit"},
		{"a reference without an end", `command: "${NONE"`, "has a ${ without an end", "has a ${ without an end"},
	}
	for _, tt := range tests {
		for disabled, want := range map[string]string{"true": tt.problem, "false": tt.enabled} {
			entry := strings.TrimSuffix("disabled: "+disabled+", "+tt.entry, ", ")
			text := "mcpServers:\n  other: {command: x}\n  a: {" + entry + "}\n"
			_, err := config.Parse("x.yaml", []byte(text), noEnv)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, disabled %s: %v, want %q", tt.name, disabled, err, want)
			}
		}
	}
}

// TestDisabledEndsWithItsEntry checks that settings after a disabled server are checked: the
// next server, and those of the gateway.
func TestDisabledEndsWithItsEntry(t *testing.T) {
	text := `{"mcpServers": {
		"a": {"disabled": true, "command": "${NONE}"},
		"b": {"command": "${NONE}", "disabled": false},
		"c": {"command": "${NONE}", "disabled": true},
		"d": {"command": "${NONE}"},
		"e": {"disabled": true}},
		"listen": "${NONE}:80"}`
	var paths []string
	for _, p := range problemsIn("x.json", text, noEnv) {
		paths = append(paths, p.Path)
	}
	if diff := cmp.Diff(paths, []string{"mcpServers.b.command", "mcpServers.d.command", "listen"}); diff != "" {
		t.Errorf("problems (-got +want):\n%s", diff)
	}
}
