// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSwitchedTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(file, []byte("package a\n\nvar x = f() && g()\n\nvar y = h()\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(name, was, is string) Switch { return Switch{name, Change{file, was, is}} }
	for _, tt := range []struct {
		name string
		all  []Switch
		want string // the text, or a part of the error
	}{
		{"two, the last one first", []Switch{change("2", "h()", "BROKEN || h()"), change("1", "f()", "(BROKEN || f())")},
			"package a\n\nvar x = (isBroken(\"1\") || f()) && g()\n\nvar y = isBroken(\"2\") || h()\n"},
		{"one name for two", []Switch{change("1", "h()", "BROKEN"), change("1", "g()", "BROKEN")},
			"package a\n\nvar x = f() && isBroken(\"1\")\n\nvar y = isBroken(\"1\")\n"},
		{"not there", []Switch{change("1", "z()", "BROKEN")}, "is 0 times in"},
		{"twice", []Switch{change("1", "var", "BROKEN")}, "is 2 times in"},
		{"no switch", []Switch{change("1", "f()", "UNBROKEN")}, "has no BROKEN"},
		{"overlapping", []Switch{change("1", "f() && g()", "BROKEN"), change("2", "g()", "BROKEN")}, "is part of that of another"},
		{"no Go", []Switch{change("1", "f()", "BROKEN(")}, "with its switches"},
	} {
		texts, err := SwitchedTexts(tt.all)
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
			}
			continue
		}
		if texts[file] != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, texts[file], tt.want)
		}
	}
}
