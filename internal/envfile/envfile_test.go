// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package envfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse checks the rules of the format. For texts without ambiguity, the expected values
// are those of npm's dotenv package.
func TestParse(t *testing.T) {
	t.Parallel()
	const (
		nothing  = "sets no variable"
		noName   = "sets something that is not the name of a variable"
		unclosed = "has a quote that is not closed"
		behind   = "has text after the closing quote"
		inside   = "has a # inside a value without quotes"
	)
	tests := []struct {
		text     string
		vars     map[string]string
		mistakes []string // line:column: message
	}{
		{"", nil, nil},
		{"\n# a comment\n \t# another\n\n", nil, nil},
		{"A=1", map[string]string{"A": "1"}, nil},
		{"A=1\r\nB=2\rC=3\n", map[string]string{"A": "1", "B": "2", "C": "3"}, nil},
		{"\ufeffA=1\n", map[string]string{"A": "1"}, nil},
		{"  A \t=  b c\t \n", map[string]string{"A": "b c"}, nil},
		{"export A=1\nexport\tB=2\nexported=3\nexport=4", map[string]string{"A": "1", "B": "2", "exported": "3", "export": "4"}, nil},
		{"A: 1\nB:\t2\nURL=http://x:1/?a=b", map[string]string{"A": "1", "B": "2", "URL": "http://x:1/?a=b"}, nil},
		{"A=\nB= \nC=''\nD=\"\"", map[string]string{"A": "", "B": "", "C": "", "D": ""}, nil},
		{"A=1 # note\nB= # note\nC=#note", map[string]string{"A": "1", "B": "", "C": ""}, nil},
		{"A=1\nA=2", map[string]string{"A": "2"}, nil},
		{"a.b-C_9=1", map[string]string{"a.b-C_9": "1"}, nil},
		{"A=$B ${B}\nC=\"${A}\"", map[string]string{"A": "$B ${B}", "C": "${A}"}, nil},
		{`A='a # "b" \n' # note` + "\nB=`it's \"it\"`\n", map[string]string{"A": `a # "b" \n`, "B": `it's "it"`}, nil},
		{`A="a\nb\rc\t" `, map[string]string{"A": "a\nb\rc\\t"}, nil},
		{`A="a\"b"`, map[string]string{"A": `a\"b`}, nil},
		{"A=\"-----BEGIN\nMII=\n# key\n-----END\"\nB=2", map[string]string{"A": "-----BEGIN\nMII=\n# key\n-----END", "B": "2"}, nil},
		{"A='1\n2'\nB", map[string]string{"A": "1\n2"}, []string{"3:1: " + nothing}},
		{"A=it's\nB=5\"", map[string]string{"A": "it's", "B": `5"`}, nil},

		{"A\nexport B\nC:1\n D:\n", nil, []string{"1:1: " + nothing, "2:1: " + nothing, "3:1: " + nothing, "4:2: " + nothing}},
		{"=1\nA B=2\n\"C\"=3\n", nil, []string{"1:1: " + noName, "2:1: " + noName, "3:1: " + noName}},
		{"A=äa#b\nB=2", map[string]string{"B": "2"}, []string{"1:5: " + inside}},
		{"A= '1\nB=2", map[string]string{"B": "2"}, []string{"1:4: " + unclosed}},
		{`A="C:\dir\"`, nil, []string{"1:3: " + unclosed}},
		{"A='1' 2\nB=2", map[string]string{"B": "2"}, []string{"1:7: " + behind}},
		{"A='1\nä' x", nil, []string{"2:4: " + behind, "2:1: " + nothing}},
	}
	for _, tt := range tests {
		vars, mistakes := Parse(tt.text)
		got := make(map[string]string)
		for _, v := range vars {
			got[v.Name] = v.Value
		}
		var told []string
		for _, m := range mistakes {
			told = append(told, fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Message))
		}
		if tt.vars == nil {
			tt.vars = map[string]string{}
		}
		if diff := cmp.Diff(got, tt.vars) + cmp.Diff(told, tt.mistakes); diff != "" {
			t.Errorf("%q (-got +want):\n%s", tt.text, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("A=1\nB='2\n3' # x\nexport C=\"4\"\nbad\n")
	f.Fuzz(func(t *testing.T, text string) {
		vars, mistakes := Parse(text)
		lines := 1 + strings.Count(normalized(text), "\n")
		if len(vars)+len(mistakes) > lines {
			t.Fatalf("%q: %d variables and %d mistakes in %d lines", text, len(vars), len(mistakes), lines)
		}
		for _, m := range mistakes {
			if m.Line < 1 || m.Line > lines || m.Column < 1 {
				t.Fatalf("%q: a mistake in line %d of %d, column %d", text, m.Line, lines, m.Column)
			}
		}
		for _, v := range vars {
			if !isName(v.Name) {
				t.Fatalf("%q: the name %q", text, v.Name)
			}
		}
	})
}

// TestSet checks that a change is one of the variable only, byte for byte.
func TestSet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, value, want string }{
		{"", "1", "A=1\n"},
		{"\ufeff", "1", "\ufeffA=1\n"},
		{"B=1", "2", "B=1\nA=2\n"},
		{"B=1\r\n", "2", "B=1\r\nA=2\r\n"},
		{"# x\n A : 1\n", "2", "# x\n A : 2\n"},
		{"# x\nexport A = old # note\nB=2\n", "new", "# x\nexport A = new # note\nB=2\n"},
		{"\ufeffB=1\r\nA='x\r\ny' # note\r\nC=3\r\n", "new", "\ufeffB=1\r\nA=new # note\r\nC=3\r\n"},
		{"A=1\nB=2\nA=3\nC=4\nA=5", "6", "A=6\nB=2\nC=4\n"},
		{"A=", "x", "A=x"},
		{"A= # none\n", "x", "A= x # none\n"},
		{"B=1\n", "it's # \"quoted\"", "B=1\nA=`it's # \"quoted\"`\n"},
		{"", "one\ntwo\r", "A=\"one\\ntwo\\r\"\n"},
		{"", "one\ntwo", "A='one\ntwo'\n"},
		{"", ` C:\dir\`, "\x00"},
		{"", `C:\dir\`, `A=C:\dir\` + "\n"},
		{"", "", "A=\n"},
		{"", "a\x00b", "\x00"},
		{"", "' ` \"", "\x00"},
	} {
		got, err := Set(tt.text, "A", tt.value)
		if tt.want == "\x00" {
			if !errors.Is(err, ErrValue) {
				t.Errorf("%q, %q: %q, %v", tt.text, tt.value, got, err)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%q, %q: %q, %v, want %q", tt.text, tt.value, got, err, tt.want)
		}
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"B=1\n", "B=1\n"},
		{"# x\nA='1\n2' # y\r\nB=1\r\nA=3", "# x\nB=1\r\n"},
		{"\ufeffA=1", "\ufeff"},
	} {
		if got, err := Remove(tt.text, "A"); err != nil || got != tt.want {
			t.Errorf("%q: %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
	if got, err := Remove("A=1\nB\n", "A"); !errors.Is(err, ErrMistakes) {
		t.Errorf("a text with a mistake: %q, %v", got, err)
	}
}

// FuzzSet checks that any value that is accepted is read back, and that removing it gives a
// text with the other variables only.
func FuzzSet(f *testing.F) {
	f.Add("A=1\r\nB='2\n3' # x\nexport C=\"4\"\n", "it's\n")
	f.Add("\ufeffB= # x\rB=2", `C:\dir\`)
	f.Fuzz(func(t *testing.T, text, value string) {
		set, err := Set(text, "B", value)
		if err != nil {
			if !errors.Is(err, ErrMistakes) && !errors.Is(err, ErrValue) {
				t.Fatal(err)
			}
			return
		}
		before, _ := Parse(text)
		after, mistakes := Parse(set)
		found := 0
		for _, v := range after {
			if v.Name == "B" {
				found++
				if v.Value != value {
					t.Fatalf("%q, %q: read back %q", text, value, v.Value)
				}
			}
		}
		removed, err := Remove(set, "B")
		if err != nil || found != 1 || len(mistakes) > 0 || !isChanged(before, removed, "B", false, "") {
			t.Fatalf("%q, %q: %q, then %q, %v", text, value, set, removed, err)
		}
	})
}
