// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// TestExpandIsOnePattern compares expand with a regular expression, on random texts with
// special characters.
func TestExpandIsOnePattern(t *testing.T) {
	parts := []string{"${A}", "${B}", "${env:A}", "${NONE:-d}", "${E:-d e}", "${A:-d}", "${NONE:-}", "$", "$$", "}", "{", "A", " ", "${E}", "é", ":-"}
	vars := map[string]string{"A": "one", "B": "${A}$}", "E": ""}
	reference := regexp.MustCompile(`\$\{(?:env:)?([A-Z]+)(:-[^}]*)?\}`)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 6))
		var text strings.Builder
		for range r.IntN(8) {
			text.WriteString(parts[r.IntN(len(parts))])
		}
		if strings.Contains(reference.ReplaceAllString(text.String(), ""), "${") {
			continue // a $ before a brace that is not part of a reference
		}
		want := reference.ReplaceAllStringFunc(text.String(), func(found string) string {
			m := reference.FindStringSubmatch(found)
			if value := vars[m[1]]; value != "" {
				return value
			}
			return strings.TrimPrefix(m[2], ":-")
		})
		rd := &reader{lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }}
		if got := rd.expand(text.String(), place{}, false); got != want || len(rd.problems) > 0 {
			t.Fatalf("seed %d: expand(%q) = %q with %v, want %q", seed, text.String(), got, rd.problems, want)
		}
	}
}

// TestShorten checks that only the name of a reference is shown.
func TestShorten(t *testing.T) {
	tests := map[string]string{
		"":                       "",
		"NAME":                   "NAME",
		"1A":                     "1A",
		"A.B":                    "A.B",
		"A:-b":                   "A...",
		"A-b":                    "A...",
		"A:=b":                   "A...",
		"input:my-key":           "input:my-key",
		"input:a b":              "input...",
		"command:my-key":         "command...",
		" A":                     "...",
		"é":                      "...",
		"A\nb":                   "A...",
		strings.Repeat("A", 64):  strings.Repeat("A", 64),
		strings.Repeat("A", 65):  strings.Repeat("A", 64) + "...",
		strings.Repeat("A", 999): strings.Repeat("A", 64) + "...",
	}
	for reference, want := range tests {
		if got := shorten(reference); got != want {
			t.Errorf("shorten(%q) = %q, want %q", reference, got, want)
		}
	}
}

// TestReferenceHints checks that each kind of reference that only editors support has its
// hint, with and without the part after its colon.
func TestReferenceHints(t *testing.T) {
	tests := map[string]string{
		"input:id":                "the gateway cannot ask",
		"input":                   "the gateway cannot ask",
		"userHome":                "${HOME}",
		"workspaceFolder":         "no workspace here",
		"workspaceFolder:one":     "no workspace here",
		"workspaceFolderBasename": "no workspace here",
		"pathSeparator":           "write the separator",
		"/":                       "write the separator",
		"command:x":               "only editors",
		"config:x.y":              "only editors",
		"command":                 anyReference,
		"config":                  anyReference,
		"file":                    anyReference,
		"":                        anyReference,
		"SOMETHING":               anyReference,
	}
	for reference, want := range tests {
		if got := referenceHint(reference); !strings.Contains(got, want) {
			t.Errorf("referenceHint(%q) = %q, want %q", reference, got, want)
		}
	}
	for reference, want := range map[string]string{"userHome": "${HOME}", "TOKEN": "${TOKEN:-default}", "file": "${file:-default}"} {
		r := new(reader)
		r.expand("${"+reference+"}", place{name: "key"}, false)
		if len(r.problems) != 1 || !strings.Contains(r.problems[0].Hint, want) {
			t.Errorf("%q is not set: %v, want the hint %q", reference, r.problems, want)
		}
	}
}

// TestUnitsReadBack checks that a formatted duration or size is parsed as the same value, and
// that sizes have unique formats.
func TestUnitsReadBack(t *testing.T) {
	seen := make(map[string]int64)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := time.Duration(r.Int64N(int64(1) << (1 + r.IntN(62))))
		if got, err := parseDuration(d.String()); d > 0 && (err != nil || got != d) {
			t.Errorf("parseDuration(%q) = %v, %v", d, got, err)
		}
		size := 1 + r.Int64N(int64(1)<<(1+r.IntN(62)))
		text := formatBytes(size)
		if got, err := parseBytes(text); err != nil || got != size {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, size)
		}
		if other, taken := seen[text]; taken && other != size {
			t.Errorf("%d and %d are both printed %q", other, size, text)
		}
		seen[text] = size
	}
}

// TestUnitHintsAreRight checks that the suggestion of a hint is valid, and has the most likely
// meaning of the number without a unit.
func TestUnitHintsAreRight(t *testing.T) {
	quoted := regexp.MustCompile(`"([^"]+)"`)
	for _, text := range []string{"30", "1.5", "30000", "007", "", "x", "30sec", "1d", "-5s"} {
		_, err := parseDuration(text)
		for _, found := range quoted.FindAllStringSubmatch(durationHint(text, err), -1) {
			if _, err := parseDuration(found[1]); err != nil {
				t.Errorf("%q: the hint says to write %q: %v", text, found[1], err)
			}
		}
	}
	for _, text := range []string{"1", "4194304", "1000", "1.5", "-1", "0", "4MB", "4 MiB", ""} {
		_, err := parseBytes(text)
		for _, found := range quoted.FindAllStringSubmatch(bytesHint(text, err), -1) {
			if _, err := parseBytes(found[1]); err != nil {
				t.Errorf("%q: the hint says to write %q: %v", text, found[1], err)
			}
		}
	}
	for text, want := range map[string]int64{"1": 1, "4194304": 4 << 20, "1000": 1000} {
		_, err := parseBytes(text)
		found := quoted.FindStringSubmatch(bytesHint(text, err))
		if got, err := parseBytes(found[1]); err != nil || got != want {
			t.Errorf("%q: the hint says to write %q, which is %d", text, found[1], got)
		}
	}
}

// TestTokenFileModes tries each mode: a file is rejected if users other than the owner and the
// group have any permission.
func TestTokenFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // there are no such modes
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("sesame-from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode := range os.FileMode(0o1000) {
		if mode&0o400 == 0 {
			continue // readability then depends on the user of the test
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		value, problem, hint := readToken(path)
		open := mode&0o007 != 0
		switch {
		case !open && (problem != "" || value.Reveal() != "sesame-from-file"):
			t.Errorf("mode %04o: %s, want it read", mode, problem)
		case open && !value.IsZero():
			t.Errorf("mode %04o: read, and everybody can open it", mode)
		case open && (!strings.Contains(problem, fmt.Sprintf("%04o", mode)) || !strings.Contains(problem, path) || hint == ""):
			t.Errorf("mode %04o: %q (%s), want the mode, the path and a cure", mode, problem, hint)
		}
	}
}

// TestTokenFileBehindALink checks that the file behind a link counts, as in the folders that
// orchestrators mount.
func TestTokenFileBehindALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "..data"), filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("sesame-from-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if value, problem, _ := readToken(link); problem != "" || value.Reveal() != "sesame-from-file" {
		t.Errorf("a link to a private file: %q", problem)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, problem, _ := readToken(link); !strings.Contains(problem, "0644") {
		t.Errorf("a link to a file that everybody can open: %q", problem)
	}
}

// TestNotBearerHint checks the hint for texts that are not tokens, including ambiguous ones.
func TestNotBearerHint(t *testing.T) {
	tests := map[string]string{
		"Bearer abc":     "without Bearer",
		"bearer  abc":    "without Bearer",
		"Bearer a\nb":    "one line",
		"a\r\nb":         "one line",
		"\ufeffabc":      "byte order mark",
		" abc":           "remove the spaces",
		"abc\t":          "remove the spaces",
		`"abc"`:          "remove the quotes",
		"'abc":           "remove the quotes",
		"TOKEN=abc":      "without a name",
		"TOKEN=abc==":    "without a name",
		"abc,def":        "made of letters",
		"abc def":        "made of letters",
		"größe":          "made of letters",
		"abc\x00":        "made of letters",
		"Bearerabc/é":    "made of letters",
		"\x1b[31mabc":    "made of letters",
		"a;rm -rf /":     "made of letters",
		"{\"token\": 1}": "made of letters",
	}
	for text, want := range tests {
		got := notBearerHint(text)
		if !strings.Contains(got, want) {
			t.Errorf("notBearerHint(%q) = %q, want %q", text, got, want)
		}
		if isBearer(text) {
			t.Errorf("%q is a token", text)
		}
	}
}

// TestValidPrefix checks that only the valid beginning of an invalid name is shown.
func TestValidPrefix(t *testing.T) {
	tests := []struct {
		name string
		fits func(rune) bool
		want string
	}{
		{"Authorization", valid.IsTokenRune, "Authorization"},
		{"Authorization: Bearer x", valid.IsTokenRune, "Authorization..."},
		{"X Y", valid.IsTokenRune, "X..."},
		{"größe", valid.IsTokenRune, "gr..."},
		{"", valid.IsTokenRune, ""},
		{"A=b", isVariableRune, "A..."},
		{"A\x00b", isVariableRune, "A..."},
		{"A b", isVariableRune, "A b"},
		{"=", isVariableRune, "..."},
	}
	for _, tt := range tests {
		if got := validPrefix(tt.name, tt.fits); got != tt.want {
			t.Errorf("beginning(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSortedKeepsPairs checks that problems are in file order, and stable for equal positions.
func TestSortedKeepsPairs(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		var problems Problems
		for i := range r.IntN(30) {
			problems = append(problems, Problem{Line: r.IntN(4), Column: r.IntN(4), Message: fmt.Sprintf("%03d", i)})
		}
		got := append(Problems(nil), problems...).sorted()
		for i := range got[:max(len(got)-1, 0)] {
			a, b := got[i], got[i+1]
			before := [2]int{a.Line, a.Column}
			after := [2]int{b.Line, b.Column}
			if before == after && a.Message > b.Message || before[0] > after[0] || before[0] == after[0] && before[1] > after[1] {
				t.Fatalf("seed %d: %v stands before %v", seed, a, b)
			}
		}
		if len(got) != len(problems) {
			t.Fatalf("seed %d: %d problems of %d", seed, len(got), len(problems))
		}
	}
}

// TestKindsHaveNames checks that every kind has a name in messages, and that only the two
// kinds of numbers share one.
func TestKindsHaveNames(t *testing.T) {
	names := make(map[string][]configfile.Kind)
	for k := configfile.Null; k <= configfile.Mapping; k++ {
		names[k.String()] = append(names[k.String()], k)
	}
	want := map[string][]configfile.Kind{
		"nothing": {configfile.Null}, "true or false": {configfile.Bool}, "a number": {configfile.Integer, configfile.Float},
		"a string": {configfile.Text}, "a list": {configfile.List}, "a mapping": {configfile.Mapping},
	}
	if diff := cmp.Diff(names, want); diff != "" {
		t.Errorf("names (-got +want):\n%s", diff)
	}
	if got := (configfile.Mapping + 1).String(); got != "kind 7" {
		t.Errorf("a kind that is none is called %q", got)
	}
}

// TestForeignKeys checks for each key of another program that it is rejected with its hint or
// ignored with a note, at its position; that the rest of the file is read; and that its value
// is never shown.
func TestForeignKeys(t *testing.T) {
	tables := []struct {
		others []foreignKey
		text   string // %q is the key
	}{
		{foreignServerKeys(), "{\"mcpServers\": {\"a\": {\"command\": \"x\",\n%q: \"" + secretText + "\"}}}"},
		{foreignConfigKeys(), "{\"mcpServers\": {\"a\": {\"command\": \"x\"}},\n%q: {\"" + secretText + "\": 1}}"},
		{foreignTokenKeys(), "{\"mcpServers\": {}, \"auth\": {\"tokens\": [{\"principal\": \"p\", \"env\": \"T\",\n%q: \"" + secretText + "\"}]}}"},
	}
	env := func(string) (string, bool) { return "sesame-open-sesame", true }
	for _, table := range tables {
		for _, other := range table.others {
			text := table.text
			if keyAliases()[other.name] != "" || other.name == "enabled" {
				continue // read as a key of the gateway
			}
			if other.means == "url" {
				text = strings.Replace(text, `"command": "x",`, "", 1) // with both keys there would be another problem
			}
			c, err := Parse("x.json", fmt.Appendf(nil, text, other.name), env)
			want := fmt.Sprintf("x.json:2:1: unknown key %q (%s)", other.name, other.about)
			got := fmt.Sprint(err)
			if other.passed {
				want = fmt.Sprintf("x.json:2:1: %q is ignored: %s [SB_FILE_DIALECT]", other.name, other.about)
				if err != nil || len(c.Servers) != 1 {
					t.Errorf("%s: %+v, %v, want the rest of the file read", other.name, c, err)
					continue
				}
				got = c.Notes.Error()
			}
			if got != want {
				t.Errorf("%s: %s, want %s", other.name, got, want)
			}
		}
	}
}
