// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

// repeated returns a config with n servers, one on each line from the second on.
func repeated(n int, entry string) string {
	var out strings.Builder
	out.WriteString("{\"mcpServers\": {\n")
	for i := range n {
		if i > 0 {
			out.WriteString(",\n")
		}
		fmt.Fprintf(&out, "\"s%d\": %s", i, entry)
	}
	out.WriteString("}}")
	return out.String()
}

// TestManyProblems checks that the first thousand problems of a file are reported with their
// positions, and the number of the others, both for syntax and for validation.
func TestManyProblems(t *testing.T) {
	const most = 1000
	for name, entry := range map[string]string{"form": `{"command": 1}`, "sense": `{}`} {
		for _, n := range []int{1, most, most + 1, 3 * most} {
			_, err := config.Parse("x.json", []byte(repeated(n, entry)), nil)
			problems, ok := errors.AsType[config.Problems](err)
			if !ok {
				t.Fatalf("%s, %d: %v", name, n, err)
			}
			told := problems
			if n > most {
				last := problems[len(problems)-1]
				if want := fmt.Sprintf("%d more problems", n-most); last.Message != want || last.Line != most+1 {
					t.Errorf("%s, %d: the last one is %v, want %q where the others end", name, n, last, want)
				}
				told = problems[:len(problems)-1]
			}
			if len(told) != min(n, most) {
				t.Errorf("%s, %d: %d problems", name, n, len(told))
			}
			for i, p := range told {
				if p.Line != i+2 || !strings.HasPrefix(p.Path, fmt.Sprintf("mcpServers.s%d", i)) {
					t.Fatalf("%s, %d: problem %d is %v", name, n, i, p)
				}
			}
		}
	}
}

// TestManyOfBoth checks that both kinds of problems are counted together.
func TestManyOfBoth(t *testing.T) {
	text := strings.Replace(repeated(1500, `{}`), "{\n", "{\n"+strings.Repeat(`"x": 1, `, 700), 1)
	_, err := config.Parse("x.json", []byte(text), nil)
	// "x" is not a mapping, and is repeated 699 times.
	if err == nil || !strings.HasSuffix(err.Error(), ": 1200 more problems (fix these first)") {
		t.Errorf("%.200v", err)
	}
}

// TestManyMistakesOfAnotherFile checks that problems are counted whatever file they are of.
func TestManyMistakesOfAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(config.SecretsFile(path), []byte(strings.Repeat("sets nothing\n", 1200)), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(repeated(700, `{}`), "{}", `{"command": "${A}"}`, 1)
	_, err := config.Parse(path, []byte(text), nil)
	problems, _ := errors.AsType[config.Problems](err)
	if last := len(problems) - 1; last != 1000 || problems[last].Message != "899 more problems" {
		t.Errorf("%d problems, the last one is %v", len(problems), problems[max(last, 0)])
	}
}

// TestManyNotes checks the same for notes, which have no effect.
func TestManyNotes(t *testing.T) {
	for _, entry := range []string{`{"command": "x", "description": "y"}`, `{"command": "x", "include": ["*"]}`} {
		c, err := config.Parse("x.json", []byte(repeated(1500, entry)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Notes) != 1000 || len(c.Servers) != 1500 {
			t.Errorf("%s: %d notes of %d servers", entry, len(c.Notes), len(c.Servers))
		}
	}
}

// TestScalarsOfYAML checks the meaning of the forms of scalars in YAML.
func TestScalarsOfYAML(t *testing.T) {
	tests := map[string]string{
		"x":                            "x",
		"x # y":                        "x",
		"x#y":                          "x#y",
		"'x # y'":                      "x # y",
		"'it''s'":                      "it's",
		`"a\tb\n\u00e9\x41\\\""`:       "a\tb\né" + `A\"`,
		`'a\tb'`:                       `a\tb`,
		"\"two\n    lines\"":           "two lines",
		"two\n    lines":               "two lines",
		"|\n    a\n    b\n":            "a\nb\n",
		"|-\n    a\n    b\n":           "a\nb",
		"|+\n    a\n":                  "a\n\n",
		">\n    a\n    b\n":            "a b\n",
		">-\n    a\n    b\n":           "a b",
		"|\n    a: b\n      - c # d\n": "a: b\n  - c # d\n",
		"|2\n     a\n":                 "   a\n",
		"https://h:80/p?q=1&r=2#f":     "https://h:80/p?q=1&r=2#f",
		"a:b":                          "a:b",
		"-x":                           "-x",
		"--flag=1":                     "--flag=1",
		"@scope/name":                  "",
		"'@scope/name'":                "@scope/name",
		"C:\\x":                        `C:\x`,
		"1.2.3":                        "1.2.3",
		"v1":                           "v1",
		"12:30":                        "12:30",
		"yes":                          "yes",
		"off":                          "off",
		"\"true\"":                     "true",
		"'7'":                          "7",
		"2026-07-28":                   "2026-07-28",
		"größe 😀":                      "größe 😀",
		"''":                           "",
		"'  x  '":                      "  x  ",
		"x   ":                         "x",
		"\"a \\\n    b\"":              "a b",
	}
	for written, want := range tests {
		text := "mcpServers: {}\ninstructions: " + written + "\nname: next\n"
		c, err := config.Parse("x.yaml", []byte(text), nil)
		if strings.HasPrefix(written, "@") {
			if err == nil {
				t.Errorf("%s: read as %q, and is no YAML", written, c.Instructions)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", written, err)
			continue
		}
		if c.Instructions != want || c.Name != "next" {
			t.Errorf("%q is read as %q, want %q; what follows as %q", written, c.Instructions, want, c.Name)
		}
	}
}

// TestScalarsOfJSON checks the same for JSON, which has fewer.
func TestScalarsOfJSON(t *testing.T) {
	tests := map[string]string{
		`"x"`:                "x",
		`"\u0041\u00e9"`:     "Aé",
		`"\ud83d\ude00"`:     "😀",
		`"\ud83d"`:           "\ufffd",
		`"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t",
		`"// no comment"`:    "// no comment",
		`"/* nor this */"`:   "/* nor this */",
		`"# x"`:              "# x",
		`""`:                 "",
		`"\u2028"`:           "\u2028",
		`"<&>"`:              "<&>",
	}
	for written, want := range tests {
		c, err := config.Parse("x.json", []byte(`{"mcpServers": {}, /* " */ "instructions": `+written+`, // "
			"name": "next"}`), nil)
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		if c.Instructions != want || c.Name != "next" {
			t.Errorf("%s is read as %q, want %q; what follows as %q", written, c.Instructions, want, c.Name)
		}
	}
}

// TestNumbersAreWrittenOut checks which numbers are counts, in both syntaxes.
func TestNumbersAreWrittenOut(t *testing.T) {
	tests := map[string]int{
		"1": 1, "20000": 20000,
		"0": 0, "-1": 0, "1.0": 0, "1e3": 0, "1.5": 0, "9223372036854775808": 0, "\"5\"": 0, "true": 0, "null": 0, "[5]": 0, "\"none\"": -1,
	}
	for written, want := range tests {
		for _, name := range []string{"x.yaml", "x.json"} {
			c, err := config.Parse(name, []byte(`{"mcpServers": {}, "limits": {"batch": `+written+`}}`), nil)
			if (err == nil) != (want != 0) {
				t.Errorf("%s in %s: %v, want it read %t", written, name, err, want != 0)
			}
			if err == nil && c.Limits.Batch != want {
				t.Errorf("%s in %s is read as %d", written, name, c.Limits.Batch)
			}
		}
	}
}
