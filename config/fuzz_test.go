// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
)

// FuzzParse checks that Parse never panics, that each problem has a position in the file and
// is one line of output, that the result is deterministic, and that the schema accepts what
// Parse accepts.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"problems", "configs"} {
		seedScripts(f, folder)
	}
	schema := resolved(f)
	env := func(name string) (string, bool) { return "v" + name, name != "UNSET" }
	f.Fuzz(func(t *testing.T, isJSON bool, text string) {
		if strings.Contains(text, "file") {
			return // token files depend on the machine
		}
		name := "x.yaml"
		if isJSON {
			name = "x.json"
		}
		got, err := config.Parse(name, []byte(text), env)
		again, againErr := config.Parse(name, []byte(text), env)
		everything := cmp.Exporter(func(reflect.Type) bool { return true })
		if diff := cmp.Diff(got, again, everything) + cmp.Diff(err, againErr); diff != "" {
			t.Fatalf("two answers:\n%s", diff)
		}
		if err != nil {
			checkPositions(t, text, problemsOf(t, err))
			return
		}
		checkPositions(t, text, got.Notes)
		if err := got.Validate(); err != nil {
			t.Errorf("accepted, and not valid: %v", err)
		}
		var value any
		if isJSON && json.Unmarshal([]byte(text), &value) == nil { // otherwise it has comments
			if err := schema.Validate(value); err != nil {
				t.Errorf("accepted, and not by the schema: %v", err)
			}
		}
	})
}

func seedScripts(f *testing.F, folder string) {
	f.Helper()
	for _, s := range scripts(f, folder) {
		for _, c := range s.cases() {
			f.Add(strings.Contains(c.Name, ".json"), string(c.Data))
		}
	}
}

func problemsOf(t *testing.T, err error) config.Problems {
	t.Helper()
	problems, ok := errors.AsType[config.Problems](err)
	if !ok || len(problems) == 0 {
		t.Fatalf("error %T %v, want Problems", err, err)
	}
	return problems
}

// checkPositions checks that each problem or note has a position in the file, is in order, and
// is one line of printable text.
func checkPositions(t *testing.T, text string, problems config.Problems) {
	t.Helper()
	if len(problems) == 0 {
		return
	}
	lines := bytes.Split(bytes.TrimPrefix([]byte(text), []byte("\ufeff")), []byte("\n"))
	last := problems[0]
	for _, p := range problems {
		if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > utf8.RuneCount(lines[p.Line-1])+1 {
			t.Errorf("%v is not in the file", p)
		}
		if p.Line < last.Line || p.Line == last.Line && p.Column < last.Column {
			t.Errorf("%v stands behind %v", p, last)
		}
		if strings.ContainsAny(p.String(), "\n\r\x00\x1b") || !utf8.ValidString(p.String()) {
			t.Errorf("%q is not a line", p.String())
		}
		last = p
	}
}
